#include "cli/child.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "cli/stop_signals.hpp"

namespace dovetail::cli {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_with(std::vector<std::string> more) {
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string_view{*each}.starts_with("DOVETAIL_LEASE_")) more.emplace_back(*each);
  }
  return more;
}

/// Runs in the guard, after fork(): nothing here may allocate. Never returns.
[[noreturn]] void keep_guard(int line) {
  ::setsid();  // the guard gets no signals of our group or of the terminal
  ::dup2(line, STDIN_FILENO);
  ::close_range(1, ~0U, 0);  // otherwise readers of our outputs would wait for the end of the guard
  pid_t group = 0;
  char dismissed = 0;
  if (::read(STDIN_FILENO, &group, sizeof group) != sizeof group) ::_exit(0);
  if (::read(STDIN_FILENO, &dismissed, 1) == 0) ::kill(-group, SIGKILL);
  ::_exit(0);
}

/// Runs in the child, after fork(): nothing here may allocate. Writes errno to `failure` if `words`
/// cannot be executed.
[[noreturn]] void become(pid_t parent, int failure, char** words, char** environment) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execvpe(words[0], words, environment);
  const int error = errno;
  static_cast<void>(!::write(failure, &error, sizeof error));
  ::_exit(1);
}

}  // namespace

Guard::Guard() {
  auto pipe = open_pipe();
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    pipe.write_end.close();
    keep_guard(pipe.read_end.number());
  }
  line_ = std::move(pipe.write_end);
}

Guard::~Guard() {
  const char dismissed = 1;
  const pid_t nothing = 0;
  // A guard without a group reads this as its group. A guard with a group reads it as its
  // dismissal.
  static_cast<void>(!::write(line_.number(), &nothing, sizeof nothing));
  static_cast<void>(!::write(line_.number(), &dismissed, 1));
  line_.close();
  ::waitpid(pid_, nullptr, 0);
}

void Guard::watch(pid_t group) const {
  static_cast<void>(!::write(line_.number(), &group, sizeof group));
}

Child::Child(const Guard& guard, std::vector<std::string> command,
             std::vector<std::string> more_environment) {
  auto environment = environment_with(std::move(more_environment));
  const auto words = pointers(command);
  const auto variables = pointers(environment);
  auto failure = open_pipe();
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), command.front());
  if (pid_ == 0) {
    become(parent, failure.write_end.number(), const_cast<char**>(words.data()),
           const_cast<char**>(variables.data()));
  }
  failure.write_end.close();
  group_ = pid_;
  ::setpgid(pid_, pid_);
  guard.watch(pid_);
  ::signal(SIGTTOU, SIG_IGN);  // we hand the terminal over and take it back from the background
  lend_terminal();
  int error = 0;
  if (::read(failure.read_end.number(), &error, sizeof error) != sizeof error) return;
  ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  take_terminal_back();
  throw std::system_error(error, std::generic_category(), command.front());
}

Child::~Child() {
  if (pid_ > 0) {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  take_terminal_back();
}

void Child::signal(int number) const {
  ::kill(-pid_, number);
}

void Child::ask_to_end() const {
  signal(SIGTERM);
  signal(SIGCONT);
}

std::optional<int> Child::ended() {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid_) {
    return std::nullopt;
  }
  signal(SIGKILL);  // processes that remain in its group must not run without the lock
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : exit_code_of_signal(WTERMSIG(status));
}

std::optional<int> Child::stopped() const {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG) != 0 ||
      info.si_pid != pid_) {
    return std::nullopt;
  }
  return info.si_status;
}

bool Child::has_job_control() {
  return ::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) > 0;
}

void Child::lend_terminal() const {
  if (!has_job_control() || ::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) return;
  ::tcsetpgrp(STDIN_FILENO, pid_);
  signal(SIGCONT);  // it may have stopped because it used the terminal too early
}

void Child::take_terminal_back() const {
  if (has_job_control() && ::tcgetpgrp(STDIN_FILENO) == group_)
    ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
}

void Child::suspend_with_us() const {
  take_terminal_back();
  ::kill(::getpid(), SIGSTOP);
}

void Child::resume() const {
  lend_terminal();
  signal(SIGCONT);
}

bool program_exists(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), F_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream directories{path != nullptr ? path : "/bin:/usr/bin"};
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (::access(((directory.empty() ? "." : directory) + "/" + name).c_str(), F_OK) == 0)
      return true;
  }
  return false;
}

}  // namespace dovetail::cli
