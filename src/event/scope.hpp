// What the services of the event store share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

#include "dovetail/platform.hpp"
#include "storage/database.hpp"
#include "storage/event_store.hpp"
#include "storage/listener.hpp"
#include "storage/subscription_store.hpp"

namespace dovetail::event {

struct Scope {
  storage::Database& database;
  storage::Listener& listener;
  const WorkerOptions worker;
  const bool durable_positions;
  const Logger log;
  const Metrics metrics;
  storage::EventStore& events = database.store<storage::EventStore>();
  storage::SubscriptionStore& store = database.store<storage::SubscriptionStore>();
  const OwnerToken owner = OwnerToken::generate();

  /// The time between two looks of an idle service, which usually is woken.
  [[nodiscard]] MonoDuration idle_pause() const {
    return listener.hears_others() ? worker.idle_poll_interval : worker.poll_interval;
  }
};

/// A part that this process has leased. The keeper renews it; a runner handles its events.
class Holding {
 public:
  Holding(storage::PartLease lease, std::chrono::milliseconds duration, MonoTime sent_at)
      : lease_(std::move(lease)), duration_(duration), ends_(sent_at + duration) {}

  [[nodiscard]] const storage::PartLease& lease() const { return lease_; }
  [[nodiscard]] std::chrono::milliseconds duration() const { return duration_; }
  [[nodiscard]] MonoTime ends() const { return ends_; }
  void extend(MonoTime ends) { ends_ = ends; }

  /// The part must be leased again. Fires the stop token of a running handler.
  void lose() {
    if (lost_.exchange(true)) return;
    stop_.request_stop();
    tell();
  }
  [[nodiscard]] bool is_lost() const { return lost_; }
  /// The part is given back after the running call.
  void give_back() {
    if (!wanted_back_.exchange(true)) tell();
  }
  [[nodiscard]] bool is_wanted_back() const { return wanted_back_; }
  [[nodiscard]] std::stop_source& stop() { return stop_; }
  /// Calls `changed` when the part is lost or wanted back. Empty: no more.
  void on_change(std::function<void()> changed) {
    const std::lock_guard lock(mutex_);
    changed_ = std::move(changed);
  }

 private:
  void tell() {
    const std::lock_guard lock(mutex_);
    if (changed_) changed_();
  }

  const storage::PartLease lease_;
  const std::chrono::milliseconds duration_;
  std::atomic<MonoTime> ends_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> wanted_back_{false};
  std::stop_source stop_;
  std::mutex mutex_;
  std::function<void()> changed_;
};

/// The parts that this process has leased.
class Holdings {
 public:
  void add(std::shared_ptr<Holding> holding) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(holding));
    if (added_) added_();
  }
  /// Calls `added` when a part has been leased. Empty: no more.
  void on_add(std::function<void()> added) {
    const std::lock_guard lock(mutex_);
    added_ = std::move(added);
  }
  void remove(const std::shared_ptr<Holding>& holding) {
    const std::lock_guard lock(mutex_);
    std::erase(all_, holding);
  }
  [[nodiscard]] std::vector<std::shared_ptr<Holding>> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Holding>> all_;
  std::function<void()> added_;
};

}  // namespace dovetail::event
