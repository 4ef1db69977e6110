// Runs a shell command, many times and in many threads at once.
//
// Guarantees
//   * The command reads CommandInput::text as its standard input. It does not have to read all of
//     it. It writes to our standard output. Its standard error is forwarded to ours.
//   * The command runs in a process group of its own. To stop it, the whole group gets SIGTERM, and
//     SIGKILL after the grace period.
//   * run() returns when the command has ended, even if its background processes still run.
//
// SIGPIPE must be ignored in this process; the commands get the default action.
//
// Threads: may be shared between threads.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::cli {

struct CommandInput {
  std::string_view text;                 ///< Its standard input; must outlive the run.
  std::vector<std::string> environment;  ///< NAME=VALUE; the complete environment.
  std::chrono::milliseconds timeout{0};  ///< Then the command is stopped. Zero: no limit.
};

struct CommandEnd {
  std::optional<int> exit_code{};  ///< Absent when a signal killed it.
  int signal = 0;
  bool told_to_stop = false;
  std::string last_words;  ///< The end of its standard error: 1 KiB at most.
};

class CommandRunner {
 public:
  static constexpr std::chrono::seconds grace{5};  ///< From SIGTERM to SIGKILL.

  explicit CommandRunner(std::string command) : command_(std::move(command)) {}

  /// Throws std::system_error when the command could not be started.
  [[nodiscard]] CommandEnd run(const CommandInput& input, const std::stop_token& stop);

  /// Kills all running commands.
  void kill_all();
  [[nodiscard]] std::size_t running();

 private:
  /// A started command. kill_all() reaches it until it is reaped, at the latest by the destructor.
  class Process;
  class Watch;

  std::string command_;
  std::mutex mutex_;
  std::set<pid_t> groups_;
};

}  // namespace dovetail::cli
