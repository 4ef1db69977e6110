// Looks after timers and jobs: sleeps until the next is due, and is woken by an earlier one. A look
// is one query, and messages that are enqueued cause none.
//
// Threads: start() and stop() from one.
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
  MonoTime step(const std::stop_token& stop) override;
  [[nodiscard]] component::ServiceHealth health() const override;

 private:
  void subscribe() override;
  void unsubscribe() override;
  /// One round trip.
  storage::NextDue next_due(const std::stop_token& stop);
  /// Fires timers and plans jobs that are due; returns how many.
  std::size_t work_on(const storage::NextDue& next, const std::stop_token& stop);
  Timers::Fired fire_portion(const std::stop_token& stop);
  void let_workers_follow(const std::stop_token& stop);
  /// Does what is due, and answers how long until there is more.
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
  int fruitless_ = 0;  // looks in a row that found something due, and could not do it
  std::optional<storage::Doorbell::Subscription> timers_bell_;
  std::optional<storage::Doorbell::Subscription> jobs_bell_;
  std::optional<storage::Listener::Subscription> hearing_;
};

}  // namespace dovetail::schedule
