// Waits for the signals that ask this process to end: SIGINT, SIGTERM and SIGHUP.
//
// Construct it before any thread is started: from then on these signals are blocked in this
// process. A SIGHUP or SIGTSTP that was ignored when the process started (nohup) stays ignored.
//
// Threads: one thread waits at a time.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

#include "cli/file_descriptor.hpp"

namespace dovetail::cli {

class StopSignals {
 public:
  struct More {
    bool suspend = false;  ///< SIGTSTP (Ctrl-Z) is one of the signals.
    /// For a process that does not end at SIGHUP.
    bool hang_up_even_if_ignored = false;
  };
  StopSignals() : StopSignals(More{}) {}
  explicit StopSignals(More more);

  /// Returns the signal. Returns nullopt after `timeout`, if given, or when `stop` is requested.
  [[nodiscard]] std::optional<int> wait(std::optional<std::chrono::milliseconds> timeout,
                                        const std::stop_token& stop = {});

  /// Like wait(), except that SIGTSTP stops this process at once.
  [[nodiscard]] std::optional<int> wait_for_end(std::optional<std::chrono::milliseconds> timeout,
                                                const std::stop_token& stop = {});

 private:
  FileDescriptor signals_;
};

/// The exit code of a process that a signal ended, as a shell reports it.
[[nodiscard]] constexpr int exit_code_of_signal(int signal) {
  return 128 + signal;
}

}  // namespace dovetail::cli
