// Detects a database clock that was set back.
//
// Stored times then lie in the future: such messages and timers wait until the clock reaches them
// again. SQLite uses the clock of the machine, and a device without a battery-backed clock may
// start hours or years in the past.
//
// Threads: from any.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>

#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "storage/database.hpp"

namespace dovetail::runtime {

class ClockCheck {
 public:
  ClockCheck(storage::Database& database, Logger log, Metrics metrics)
      : database_(database), log_(std::move(log)), metrics_(std::move(metrics)) {}

  /// By how much the clock was set back, if it was, beyond the usual corrections.
  [[nodiscard]] std::optional<std::chrono::microseconds> behind(
      const storage::ReadOptions& options = {});
  /// Counts each check that finds the clock behind, and logs the first of consecutive ones.
  void run(const storage::ReadOptions& options = {});
  /// The same, but does not throw Error: a role such as that of a producer may lack the right to
  /// read the tables.
  void try_run();

 private:
  storage::Database& database_;
  Logger log_;
  Metrics metrics_;
  std::atomic<bool> warned_{false};
};

}  // namespace dovetail::runtime
