// This process in the table of instances, and its watch for topics that nobody handles.
//
// One thread does both. It registers the process, renews the heartbeat, and removes the row in the
// end, on a service connection that no handler can hold. On SQLite, which has one writer, a
// handler's open transaction delays a heartbeat.
//
// A failure changes nothing for the handlers: it is counted, logged once until the next success,
// and retried with the next heartbeat.
//
// Waits are bounded by the injected monotonic clock. The times in the table are the database's.
//
// Threads: start() once, before the rest; drain() and leave() from any.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "component/service.hpp"
#include "dovetail/instance.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "storage/database.hpp"
#include "storage/instance_store.hpp"

namespace dovetail::runtime {

struct InstanceOptions {
  std::chrono::milliseconds heartbeat{10'000};
  std::chrono::milliseconds look_interval{
      30'000};  ///< Between two looks for topics that nobody handles.
  std::chrono::milliseconds warn_again{600'000};  ///< Between two warnings about one topic.
  std::chrono::milliseconds patience{1'000};      ///< How long leave() waits for the database.
  UnhandledTopicsRequest unhandled{};
};

class Instance final : public component::Service {
 public:
  Instance(storage::Database& database, const std::vector<InstanceQueue>& queues,
           InstanceOptions options, Logger log, Metrics metrics);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  /// Leaves, and waits for the thread.
  ~Instance() override;

  [[nodiscard]] InstanceId id() const { return entry_.id; }

  [[nodiscard]] std::string name() const override { return "instance"; }
  void start() override;
  void request_stop() override { drain(); }
  bool stop(MonoTime /*deadline*/) override {
    leave();
    return true;
  }
  /// Other processes may take the messages of an instance that has left.
  [[nodiscard]] bool outlives_handlers() const override { return true; }
  [[nodiscard]] component::ServiceHealth health() const override;

  /// Sets the state `draining`. Does not wait.
  void drain();
  /// Removes the row and ends the thread. Waits for `patience` at most; a row that could not be
  /// removed by then becomes stale.
  void leave();

 private:
  void run();
  /// Waits until a heartbeat or a look is due, or the state changes. False: the process leaves.
  bool wait_for_work(MonoTime until, InstanceState& state);
  void beat(InstanceState state);
  void note_failure(const std::exception& error);
  void remove();
  void look();
  void look_at(storage::QueueOperator& store, const char* queue);
  /// False when the topic was named before, less than `warn_again` ago.
  bool warn(const UnhandledTopic& topic);

  storage::Database& database_;
  const InstanceOptions options_;
  const Logger log_;
  const Metrics metrics_;

  // Of the thread.
  storage::InstanceEntry entry_;
  InstanceState told_ = InstanceState::running;  // the state that the last heartbeat carried
  bool failing_ = false;                         // the last heartbeat failed
  std::set<std::string> look_failures_;          // the queues that the last look could not read
  std::map<std::pair<std::string, std::string>, MonoTime> warned_;  // when, by queue and topic

  mutable std::mutex mutex_;
  std::condition_variable_any wakes_;
  component::ServiceHealth health_;
  bool draining_ = false;
  bool leaving_ = false;
  bool ended_ = false;   // the thread has done all it had to
  std::stop_source io_;  // ends I/O when leave() has waited long enough
  std::thread thread_;
};

}  // namespace dovetail::runtime
