// The command of `dovetail lock`: a program in a process group of its own, with our input and
// outputs.
//
// Guarantees
//   * The command and everything in its process group end with this process, also when that is
//     killed with SIGKILL.
//   * When the command has ended, nothing of its process group is left.
//   * On a terminal, the command is the foreground job: it reads what is typed, and gets Ctrl-C and
//     Ctrl-Z.
// Not guaranteed
//   * Anything about programs that leave the process group (setsid, daemons).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/file_descriptor.hpp"

namespace dovetail::cli {

/// A process that kills a process group when this process has died. Start it before any thread and
/// before any database is opened: it inherits neither.
class Guard {
 public:
  Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  /// Ends the guard, which kills nothing then.
  ~Guard();

  void watch(pid_t group) const;

 private:
  FileDescriptor line_;
  pid_t pid_ = -1;
};

class Child {
 public:
  /// Throws std::system_error when the program cannot be run. The code is ENOENT when there is no
  /// such program.
  Child(const Guard& guard, std::vector<std::string> command,
        std::vector<std::string> more_environment);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  /// Kills it, if it still runs.
  ~Child();

  /// To its whole process group.
  void signal(int number) const;
  /// SIGTERM, also when it is stopped.
  void ask_to_end() const;

  /// Its exit code, as a shell tells it, when it has ended.
  [[nodiscard]] std::optional<int> ended();
  /// The signal that has stopped it since the last call.
  [[nodiscard]] std::optional<int> stopped() const;

  /// Whether it has a terminal, and with it a shell that can suspend and resume it.
  [[nodiscard]] static bool has_job_control();
  /// Stops this process, as Ctrl-Z does, until SIGCONT. The terminal is ours meanwhile.
  void suspend_with_us() const;
  /// Lets it go on; on a terminal whose foreground job we are, in the foreground.
  void resume() const;

 private:
  void lend_terminal() const;
  void take_terminal_back() const;

  pid_t pid_ = -1;
  pid_t group_ = -1;
};

/// Whether there is such a program: a path, or a name that is looked for in PATH.
[[nodiscard]] bool program_exists(const std::string& name);

}  // namespace dovetail::cli
