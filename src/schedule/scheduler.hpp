// Fires timers and plans jobs. It sleeps until the next due time, and an earlier due time wakes it.
// A check is one query. An enqueued message causes no check.
//
// Threads: start() and stop() from one thread.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "component/stepped_service.hpp"
#include "dovetail/platform.hpp"
#include "dovetail/schedule.hpp"
#include "storage/database.hpp"
#include "storage/listener.hpp"
#include "storage/timer_store.hpp"

namespace dovetail::schedule {

class Scheduler final : public component::SteppedService {
 public:
  Scheduler(storage::Database& database, Timers& timers, Jobs& jobs, storage::Listener& listener,
            const WorkerOptions& options, Logger log, Metrics metrics)
      : SteppedService(database.clock()),
        database_(database),
        timers_(timers),
        jobs_(jobs),
        listener_(listener),
        options_(options),
        fires_timers_(jobs.options().fire_timers),
        log_(std::move(log)),
        metrics_(std::move(metrics)) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() override { Scheduler::stop(MonoTime{}); }

  [[nodiscard]] std::string name() const override { return "scheduler"; }
  [[nodiscard]] std::size_t connections() const override { return 1; }
  MonoTime step(const std::stop_token& stop) override;
  [[nodiscard]] component::ServiceHealth health() const override;

 private:
  void subscribe() override;
  void unsubscribe() override;
  [[nodiscard]] std::chrono::milliseconds interval() const override {
    return options_.idle_poll_interval;
  }
  /// One round trip.
  storage::NextDue next_due(const std::stop_token& stop);
  /// Fires due timers and plans due jobs. Returns the number of fired timers and started runs.
  std::size_t work_on(const storage::NextDue& next, const std::stop_token& stop);
  Timers::Fired fire_portion(const std::stop_token& stop);
  void wait_for_backlog(const std::stop_token& stop);
  /// Does all due work. Returns the pause until the next check.
  MonoDuration look(const std::stop_token& stop);

  storage::Database& database_;
  Timers& timers_;
  Jobs& jobs_;
  storage::Listener& listener_;
  const WorkerOptions options_;
  const bool fires_timers_;
  const Logger log_;
  const Metrics metrics_;

  mutable std::mutex mutex_;
  component::ServiceHealth health_;
  int portion_ = 100;  // timers to fire in the next transaction
  int fruitless_ = 0;  // consecutive checks that found due work and could not do it
  std::optional<storage::Doorbell::Subscription> timers_bell_;
  std::optional<storage::Doorbell::Subscription> jobs_bell_;
  std::optional<storage::Listener::Subscription> hearing_;
};

}  // namespace dovetail::schedule
