#include "cli/command_runner.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "cli/file_descriptor.hpp"

namespace dovetail::cli {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t max_last_words = 1024;
constexpr std::chrono::milliseconds longest_poll = std::chrono::hours{1};  // poll() takes an int
constexpr std::size_t chunk_size = std::size_t{64} << 10;  // size of a pipe: one read empties it

void require_zero(int code, const char* what) {
  if (code != 0) throw std::system_error(code, std::generic_category(), what);
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// The attributes of a new process: its own process group, no blocked signal, and pipes for input
/// and errors.
class SpawnPlan {
 public:
  SpawnPlan(int input, int errors) {
    require_zero(::posix_spawn_file_actions_init(&actions_), "posix_spawn_file_actions_init");
    require_zero(::posix_spawnattr_init(&attributes_), "posix_spawnattr_init");
    ::posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }

  [[nodiscard]] pid_t start(std::vector<std::string> arguments,
                            std::vector<std::string> environment) const {
    pid_t pid = -1;
    require_zero(::posix_spawn(&pid, arguments.front().c_str(), &actions_, &attributes_,
                               pointers_to(arguments).data(), pointers_to(environment).data()),
                 "cannot start /bin/sh");
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

void make_nonblocking(const FileDescriptor& file) {
  ::fcntl(file.number(), F_SETFL, ::fcntl(file.number(), F_GETFL) | O_NONBLOCK);
}

/// Writes as much as the pipe accepts now. Closes the input after the last byte, or if the command
/// no longer reads.
void feed(FileDescriptor& input, std::string_view& left) {
  while (!left.empty()) {
    const auto count = ::write(input.number(), left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) break;  // it does not read; its exit code decides
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  input.close();
}

void pass_on(std::string_view text) {
  while (!text.empty()) {
    const auto count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

/// Reads the available text, forwards it and keeps its end. Closes `errors` at the end of the
/// output.
void listen(FileDescriptor& errors, std::string& last_words) {
  std::array<char, chunk_size> chunk;  // NOLINT(*-member-init): read() fills it
  const auto count = ::read(errors.number(), chunk.data(), chunk.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    errors.close();
    return;
  }
  const std::string_view text{chunk.data(), static_cast<std::size_t>(count)};
  pass_on(text);
  last_words += text;
  if (last_words.size() > max_last_words) last_words.erase(0, last_words.size() - max_last_words);
}

}  // namespace

class CommandRunner::Process {
 public:
  Process(CommandRunner& runner, const CommandInput& input, int input_end, int error_end)
      : runner_(runner),
        pid_(SpawnPlan{input_end, error_end}.start({"/bin/sh", "-c", runner.command_},
                                                   input.environment)) {
    std::lock_guard lock(runner_.mutex_);
    runner_.groups_.insert(pid_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ <= 0) return;
    signal(SIGKILL);
    reap();
  }

  void signal(int number) const { ::kill(-pid_, number); }

  /// Blocks until the process has ended. It stays a zombie, so that its id is not reused.
  void wait() const {
    siginfo_t ignored{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &ignored, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
  }

  /// Returns the status of waitpid().
  int reap() {
    {
      std::lock_guard lock(runner_.mutex_);
      runner_.groups_.erase(pid_);
    }
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  CommandRunner& runner_;
  pid_t pid_;
};

/// Watches one command from its start to its end.
class CommandRunner::Watch {
 public:
  Watch(Process& process, const CommandInput& input, FileDescriptor input_pipe,
        FileDescriptor error_pipe)
      : process_(process),
        input_(input.text),
        input_pipe_(std::move(input_pipe)),
        error_pipe_(std::move(error_pipe)) {
    make_nonblocking(input_pipe_);
    make_nonblocking(error_pipe_);
    if (input.timeout.count() > 0) stop_at_ = Steady::now() + input.timeout;
  }

  /// Returns when the command has ended. Raise `told` to stop the command.
  [[nodiscard]] CommandEnd run(const Flag& told) {
    const Flag ended;
    const std::jthread waiter([&] {
      process_.wait();
      ended.raise();
    });
    feed(input_pipe_, input_);
    while (!is_over()) look(ended, told);
    if (error_pipe_.is_open()) listen(error_pipe_, last_words_);
    if (kill_at_) process_.signal(SIGKILL);
    return {.told_to_stop = kill_at_.has_value(), .last_words = std::move(last_words_)};
  }

 private:
  /// After a stop, the shell may end before its children. The children get the rest of the grace
  /// period.
  [[nodiscard]] bool is_over() const {
    return has_ended_ && (!kill_at_ || killed_ || !error_pipe_.is_open());
  }

  /// The timeout for poll().
  [[nodiscard]] int patience() const {
    const auto& next = kill_at_ ? kill_at_ : stop_at_;
    if (!next || killed_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Steady::now());
    return static_cast<int>(std::clamp(left, std::chrono::milliseconds{0}, longest_poll).count());
  }

  void look(const Flag& ended, const Flag& told) {
    std::array<pollfd, 4> watched{{{input_pipe_.number(), POLLOUT, 0},
                                   {error_pipe_.number(), POLLIN, 0},
                                   {has_ended_ ? -1 : ended.number(), POLLIN, 0},
                                   {kill_at_ ? -1 : told.number(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), patience()) < 0) return;
    if (watched[0].revents != 0) feed(input_pipe_, input_);
    if (watched[1].revents != 0) listen(error_pipe_, last_words_);
    if (watched[2].revents != 0) has_ended_ = true;
    const bool too_long = !kill_at_ && stop_at_ && Steady::now() >= *stop_at_;
    if (watched[3].revents != 0 || too_long) {
      kill_at_ = Steady::now() + grace;
      process_.signal(SIGTERM);
    }
    if (kill_at_ && !killed_ && Steady::now() >= *kill_at_) {
      killed_ = true;
      process_.signal(SIGKILL);
    }
  }

  Process& process_;
  std::string_view input_;
  FileDescriptor input_pipe_;
  FileDescriptor error_pipe_;
  std::string last_words_;
  std::optional<Steady::time_point> stop_at_;  // when its timeout expires
  std::optional<Steady::time_point> kill_at_;  // set when it was told to stop
  bool has_ended_ = false;
  bool killed_ = false;
};

CommandEnd CommandRunner::run(const CommandInput& input, const std::stop_token& stop) {
  auto input_pipe = open_pipe();
  auto error_pipe = open_pipe();
  const Flag told;
  Process process(*this, input, input_pipe.read_end.number(), error_pipe.write_end.number());
  input_pipe.read_end.close();
  error_pipe.write_end.close();
  const std::stop_callback on_stop(stop, [&told] { told.raise(); });
  auto end = Watch(process, input, std::move(input_pipe.write_end), std::move(error_pipe.read_end))
                 .run(told);
  const int status = process.reap();
  if (WIFEXITED(status)) {
    end.exit_code = WEXITSTATUS(status);
  } else {
    end.signal = WTERMSIG(status);
  }
  return end;
}

void CommandRunner::kill_all() {
  std::lock_guard lock(mutex_);
  for (const auto group : groups_) ::kill(-group, SIGKILL);
}

std::size_t CommandRunner::running() {
  std::lock_guard lock(mutex_);
  return groups_.size();
}

}  // namespace dovetail::cli
