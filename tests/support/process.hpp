// Child processes of a test, which are started, killed and waited for by their ids.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace dovetail::testing {

/// Runs `body` in a forked child, which ends without returning to the test. The exit code is 0
/// unless `body` throws. Fork before the parent opens a database, or let `body` call exec.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<void()>& body);
  /// Kills the child if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ChildProcess(ChildProcess&& other) noexcept;

  /// Does nothing after wait().
  void signal(int number) const;
  [[nodiscard]] bool has_ended() const;
  /// The exit code, or minus the signal that ended it.
  int wait();

 private:
  pid_t pid_;
};

struct CommandResult {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs a program to its end, with `input` as its standard input.
CommandResult run_command(const std::vector<std::string>& arguments, const std::string& input = {});

}  // namespace dovetail::testing
