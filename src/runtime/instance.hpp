// The row of this process in the table of instances, and its check for topics without a handler.
//
// It registers the process, renews the heartbeat, and removes the row at the end. It uses a service
// connection, which handlers cannot occupy. On SQLite, which has one writer, a handler's open
// transaction delays a heartbeat.
//
// A failure does not affect the handlers. It is counted, logged once until the next success, and
// retried with the next heartbeat.
//
// Waits are bounded by the injected monotonic clock. The times in the table are from the database
// clock.
//
// Threads: request_stop() and health() from any; the rest from one thread at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "component/stepped_service.hpp"
#include "dovetail/instance.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "storage/database.hpp"
#include "storage/instance_store.hpp"

namespace dovetail::runtime {

struct InstanceOptions {
  std::chrono::milliseconds heartbeat{10'000};
  std::chrono::milliseconds look_interval{
      30'000};  ///< Between two checks for topics without a handler.
  std::chrono::milliseconds warn_again{600'000};  ///< Between two warnings about one topic.
  std::chrono::milliseconds patience{
      1'000};  ///< How long the service waits for the database when it stops.
  UnhandledTopicsRequest unhandled{};
};

class Instance final : public component::SteppedService {
 public:
  Instance(storage::Database& database, const std::vector<InstanceQueue>& queues,
           InstanceOptions options, Logger log, Metrics metrics);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  /// Waits for the thread.
  ~Instance() override;

  [[nodiscard]] InstanceId id() const { return entry_.id; }

  [[nodiscard]] std::string name() const override { return "instance"; }
  [[nodiscard]] std::size_t connections() const override { return 1; }
  MonoTime step(const std::stop_token& stop) override;
  /// Sets the state `draining`. Does not wait.
  void request_stop() override;
  /// Waits for `patience` until the row is removed. A row that could not be removed by then becomes
  /// stale.
  bool stop(MonoTime deadline) override;
  /// Ends a heartbeat that is under way. If it fails, the row is not removed.
  void cut_off() override;
  /// The next step removes the row, and is the last one.
  void leave();
  /// Removes the row within `patience`, for a runner that makes no more steps.
  void leave_now();
  /// True, because other processes may take the messages of an instance that has left.
  [[nodiscard]] bool outlives_handlers() const override { return true; }
  [[nodiscard]] bool is_essential() const override { return true; }
  [[nodiscard]] component::ServiceHealth health() const override;

 private:
  [[nodiscard]] std::chrono::milliseconds interval() const override { return options_.heartbeat; }
  void beat(InstanceState state);
  void note_failure(const std::exception& error);
  void subscribe() override;
  void unsubscribe() override;
  void remove();
  void look();
  void report_unhandled(storage::QueueOperator& store, const char* queue);
  /// Returns false if the last warning about the topic is less than `warn_again` ago.
  bool warn(const UnhandledTopic& topic);

  storage::Database& database_;
  const InstanceOptions options_;
  const Logger log_;
  const Metrics metrics_;

  // Used by the steps only.
  storage::InstanceEntry entry_;
  InstanceState reported_state_ = InstanceState::running;  // the state in the last heartbeat
  bool failing_ = false;                                   // the last heartbeat failed
  std::set<std::string> look_failures_;  // the queues that the last check could not read
  std::map<std::pair<std::string, std::string>, MonoTime> warned_;  // last time, by queue and topic

  std::stop_source call_;  // ends the I/O of the step under way
  MonoTime beat_at_{};
  MonoTime look_at_ = MonoTime::max();

  std::atomic<bool> draining_{false};
  std::atomic<bool> leaving_{false};
  mutable std::mutex mutex_;
  component::ServiceHealth health_;  // guarded by the mutex, as are the next two
  bool begun_ = false;
  bool left_ = false;
  std::condition_variable_any left_changed_;
  std::stop_source io_;  // cancels I/O when the service takes too long to stop
};

}  // namespace dovetail::runtime
