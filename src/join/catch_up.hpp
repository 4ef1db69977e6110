// Finishes work on joins that transactions could not finish.
//
// The end of a join cannot wake a waiting message that another transaction has locked, and an ack
// in a transaction with an old snapshot cannot count every step. The database notes both cases.
// While messages wait for joins, this thread looks for such notes every second. Otherwise it makes
// no query.
//
// Threads: note_waiting() and run_once() from any; start() and stop() once.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "component/service.hpp"
#include "dovetail/join.hpp"
#include "storage/database.hpp"

namespace dovetail::join {

class CatchUp {
 public:
  CatchUp(storage::Database& database, Logger log, Metrics metrics)
      : database_(database), log_(std::move(log)), metrics_(std::move(metrics)) {}

  void start();
  /// Does not wait for the thread.
  void request_stop() { thread_.request_stop(); }
  void stop();

  [[nodiscard]] component::ServiceHealth health() const;

  /// A message waits for a join, or will when its handler's transaction commits.
  void note_waiting();

  /// Finishes all such work, and logs the joins that ended while no message waited for them.
  void run_once(const std::stop_token& stop);

 private:
  void run(const std::stop_token& stop);
  /// Returns whether messages wait for joins.
  bool catch_up(const std::stop_token& stop);
  void log_ended(const std::stop_token& stop);

  storage::Database& database_;
  Logger log_;
  Metrics metrics_;
  mutable std::mutex mutex_;
  std::condition_variable_any wakes_;
  MonoTime look_until_{};  // guarded by the mutex, as the next one
  component::ServiceHealth health_;
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace dovetail::join
