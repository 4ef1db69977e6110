// The command of `dovetail lock`: a program in a process group of its own. It uses the standard
// input and outputs of this process.
//
// Guarantees
//   * The command and its process group end with this process, even if SIGKILL ends this process.
//   * When the command has ended, no process of its group remains.
//   * On a terminal, the command is the foreground job: it reads the input, and gets Ctrl-C and
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

/// A process that kills a process group if this process dies. Start it before any thread, and
/// before any database is opened: it inherits neither.
class Guard {
 public:
  Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  /// Ends the guard without killing the group.
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
  /// Kills the command if it still runs.
  ~Child();

  /// Sends the signal to the whole process group.
  void signal(int number) const;
  /// Sends SIGTERM. A stopped command gets it too.
  void ask_to_end() const;

  /// The exit code if the command has ended. After a signal it is 128 + signal, as in a shell.
  [[nodiscard]] std::optional<int> ended();
  /// The signal that has stopped the command since the last call.
  [[nodiscard]] std::optional<int> stopped() const;

  /// True if there is a terminal. Then a shell can suspend and resume the command.
  [[nodiscard]] static bool has_job_control();
  /// Stops this process, as Ctrl-Z does, until SIGCONT. It takes the terminal back first.
  void suspend_with_us() const;
  /// Resumes the command; in the foreground if this process is the foreground job of the terminal.
  void resume() const;

 private:
  void lend_terminal() const;
  void take_terminal_back() const;

  pid_t pid_ = -1;
  pid_t group_ = -1;
};

/// True if the program exists: as a path, or as a name in PATH.
[[nodiscard]] bool program_exists(const std::string& name);

}  // namespace dovetail::cli
