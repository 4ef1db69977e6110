// Notices that the database's clock was set back.
//
// What is stored with a time then lies in the future: such messages and timers wait until the clock
// has come there again. SQLite's clock is that of the machine, and a device without a
// battery-backed clock may start hours or years in the past.
//
// Threads: from any.
#pragma once

#include <atomic>

#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "storage/database.hpp"

namespace dovetail::runtime {

class ClockCheck {
 public:
  ClockCheck(storage::Database& database, Logger log, Metrics metrics)
      : database_(database), log_(std::move(log)), metrics_(std::move(metrics)) {}

  /// Counts every look that finds the clock behind, and logs the first of a row.
  void run(const storage::ReadOptions& options = {});
  /// The same, but a role that may not read the tables, such as a producer's, is no reason to fail.
  void try_run();

 private:
  storage::Database& database_;
  Logger log_;
  Metrics metrics_;
  std::atomic<bool> warned_{false};
};

}  // namespace dovetail::runtime
