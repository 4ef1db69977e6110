#include "support/process.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "support/backend.hpp"

namespace dovetail::testing {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

}  // namespace

ChildProcess::ChildProcess(const std::function<void()>& body) : pid_(::fork()) {
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ > 0) return;
  int code = 0;
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
    code = 1;
  }
  ::_exit(code);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  wait();
}

void ChildProcess::signal(int number) const {
  if (pid_ <= 0) return;  // kill(-1) would signal every process
  ::kill(pid_, number);
}

bool ChildProcess::has_ended() const {
  siginfo_t info{};
  return pid_ <= 0 ||
         (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == pid_);
}

int ChildProcess::wait() {
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

CommandResult run_command(const std::vector<std::string>& arguments, const std::string& input) {
  const TemporaryDirectory directory;
  const auto in = directory.path() / "in";
  const auto out = directory.path() / "out";
  const auto err = directory.path() / "err";
  std::ofstream{in, std::ios::binary} << input;
  ChildProcess child([&] {
    if (std::freopen(in.c_str(), "r", stdin) == nullptr ||
        std::freopen(out.c_str(), "w", stdout) == nullptr ||
        std::freopen(err.c_str(), "w", stderr) == nullptr) {
      ::_exit(126);
    }
    std::vector<char*> argv;
    for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  });
  CommandResult result;
  result.code = child.wait();
  result.out = contents(out);
  result.err = contents(err);
  return result;
}

}  // namespace dovetail::testing
