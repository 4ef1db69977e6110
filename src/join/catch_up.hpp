// Finishes work on joins that transactions could not finish.
//
// The end of a join cannot wake a waiting message that another transaction has locked, and an ack
// in a transaction with an old snapshot cannot count every step. The database notes both cases.
// While messages wait for joins, a look for such notes is made every second. Otherwise none is.
//
// Threads: note_waiting() and run_once() from any; the rest from one thread at a time.
#pragma once

#include <functional>
#include <mutex>

#include "component/service.hpp"
#include "dovetail/join.hpp"
#include "storage/database.hpp"

namespace dovetail::join {

class CatchUp {
 public:
  CatchUp(storage::Database& database, Logger log, Metrics metrics)
      : database_(database), log_(std::move(log)), metrics_(std::move(metrics)) {}

  /// Makes the look that is due. Returns when the next one is; MonoTime::max() when none is.
  MonoTime step(const std::stop_token& stop);
  /// `wake` is called when a look will be due then. Empty: nobody is told.
  void tell(std::function<void(MonoTime at)> wake);

  [[nodiscard]] component::ServiceHealth health() const;

  /// A message waits for a join, or will when its handler's transaction commits.
  void note_waiting();

  /// Finishes all such work, and logs the joins that ended while no message waited for them.
  void run_once(const std::stop_token& stop);

 private:
  void note_failure(const std::exception& error);
  /// Returns whether messages wait for joins.
  bool catch_up(const std::stop_token& stop);
  void log_ended(const std::stop_token& stop);

  storage::Database& database_;
  Logger log_;
  Metrics metrics_;
  mutable std::mutex mutex_;
  MonoTime look_until_{};  // guarded by the mutex, as the next two
  component::ServiceHealth health_;
  std::function<void(MonoTime at)> wake_;
  bool waiting_ = true;  // messages wait for joins, perhaps from before this process started
};

}  // namespace dovetail::join
