// Finishes work on joins that transactions could not finish.
//
// The end of a join cannot wake a waiting message that another transaction has locked, and an ack
// in a transaction with an old snapshot cannot count every step. The database notes both cases.
// While messages wait for joins, CatchUp checks for such notes every second. Otherwise it checks
// when the database announces uncounted steps. Where no announcements arrive (a pooler in
// transaction mode), the housekeeper calls run_once().
//
// Threads: note_waiting(), note_uncounted() and run_once() from any; the rest from one thread at a
// time.
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

  /// Makes the check that is due. Returns the time of the next check, or MonoTime::max() for none.
  MonoTime step(const std::stop_token& stop);
  /// Calls `wake(at)` when a check becomes necessary at `at`. An empty function ends the calls.
  void tell(std::function<void(MonoTime at)> wake);

  [[nodiscard]] component::ServiceHealth health() const;

  /// Call it when a message waits for a join, or will wait after the commit of its handler.
  void note_waiting();
  /// Call it when a transaction could not count every step.
  void note_uncounted();

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
  MonoTime look_until_{};   // the mutex guards this and the next three members
  bool uncounted_ = false;  // steps are announced that a check may find
  component::ServiceHealth health_;
  std::function<void(MonoTime at)> wake_;
  bool waiting_ = true;  // messages wait for joins, perhaps from before this process started
};

}  // namespace dovetail::join
