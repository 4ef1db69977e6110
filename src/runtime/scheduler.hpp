// Looks after timers and jobs: sleeps until the next is due, and is woken by an earlier one. A look
// is one query, and messages that are enqueued cause none.
//
// Threads: start() and stop() from one.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "dovetail/platform.hpp"
#include "dovetail/schedule.hpp"
#include "runtime/listener.hpp"
#include "storage/database.hpp"
#include "storage/timer_store.hpp"

namespace dovetail::runtime {

class Scheduler {
 public:
  Scheduler(storage::Database& database, Timers& timers, Jobs& jobs, Listener& listener,
            const WorkerOptions& options, Logger log, Metrics metrics)
      : database_(database),
        timers_(timers),
        jobs_(jobs),
        listener_(listener),
        options_(options),
        fires_timers_(jobs.options().fire_timers),
        log_(std::move(log)),
        metrics_(std::move(metrics)) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() { stop(); }

  void start();
  /// Returns at once; stop() waits.
  void request_stop() { thread_.request_stop(); }
  void stop();

 private:
  void run(const std::stop_token& stop);
  /// One round trip.
  storage::NextDue next_due(const std::stop_token& stop);
  /// Fires timers and plans jobs that are due; returns how many.
  std::size_t work_on(const storage::NextDue& next, const std::stop_token& stop);
  Timers::Fired fire_portion(const std::stop_token& stop);
  void let_workers_follow(const std::stop_token& stop);
  /// Does what is due, and answers how long until there is more.
  MonoDuration look(const std::stop_token& stop);
  void wait(MonoDuration pause, const std::stop_token& stop);

  storage::Database& database_;
  Timers& timers_;
  Jobs& jobs_;
  Listener& listener_;
  const WorkerOptions options_;
  const bool fires_timers_;
  const Logger log_;
  const Metrics metrics_;

  std::mutex mutex_;
  std::condition_variable_any wakes_;
  bool rung_ = false;
  int failures_ = 0;
  int portion_ = 100;  // timers to fire in the next transaction
  int fruitless_ = 0;  // looks in a row that found something due, and could not do it
  std::optional<storage::Doorbell::Subscription> bell_;
  std::optional<Listener::Subscription> hearing_;
  std::jthread thread_;
};

}  // namespace dovetail::runtime
