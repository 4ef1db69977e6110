// SIGINT and SIGTERM as something to wait for.
//
// Construct it before any thread is started: from then on neither signal interrupts anything in this process.
//
// Threads: one waits at a time.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

#include "cli/file_descriptor.hpp"

namespace dovetail::cli {

class StopSignals {
 public:
  StopSignals();

  /// True when a signal came; false after `timeout`, if there is one, or when `stop` is requested.
  [[nodiscard]] bool wait(std::optional<std::chrono::milliseconds> timeout, const std::stop_token& stop = {});

 private:
  FileDescriptor signals_;
};

}  // namespace dovetail::cli
