// Instances: the processes that work on a database, and the topics that none of them handles.
//
//   for (const auto& instance : platform.instances().list()) { … }
//   for (const auto& topic : platform.instances().unhandled_topics()) { … }
//
// Every started Platform has a row in the table of instances. It renews the row's heartbeat every
// 10 seconds and sets the state `draining` when stop() begins. It deletes the row after stop() has
// ended all handlers. An instance is stale when its last heartbeat is 90 seconds old. A started
// Platform deletes stale rows after an hour.
//
// Guarantees
//   * All times come from the database's clock.
//   * unhandled_topics() reads a bounded number of messages, whatever the length of the queue.
// Not guaranteed
//   * That a live instance makes progress: a heartbeat shows only that the process runs and reaches
//     the database.
//   * That every topic without a handler is found: only messages at the front of the queue are
//     read.
//   * Workers that call Outbox::claim() or the SQL functions themselves are not instances.
//
// Threads: Instances may be shared between threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"

namespace dovetail {

namespace storage {
class Database;
class InstanceStore;
}  // namespace storage

enum class InstanceState {
  running,
  draining,  ///< Claims no more messages and waits for its handlers to end.
};

[[nodiscard]] std::string_view to_string(InstanceState state);

/// A queue that an instance works on.
struct InstanceQueue {
  std::string name{};                   ///< `outbox` or `inbox`.
  std::vector<std::string> topics{};    ///< Topics with their own handler or route, sorted.
  bool all_topics = false;              ///< It also handles all other topics (Platform::on_any).
  std::vector<std::string> patterns{};  ///< It also publishes topics that match (transport.hpp).

  [[nodiscard]] bool handles(std::string_view topic) const;

  friend bool operator==(const InstanceQueue&, const InstanceQueue&) = default;
};

struct InstanceInfo {
  InstanceId id{};
  std::string host{};
  std::int64_t pid = 0;
  std::string version{};  ///< The version of Dovetail.
  WallTime started_at{};
  WallTime heartbeat_at{};
  InstanceState state = InstanceState::running;
  bool stale = false;  ///< No heartbeat for Instances::stale_after.
  std::vector<InstanceQueue> queues{};

  /// True when the instance claims messages of this topic: it is running, not stale, and has a
  /// handler.
  [[nodiscard]] bool handles(std::string_view queue, std::string_view topic) const;
};

struct UnhandledTopicsRequest {
  /// The minimum time that a message has been due: zero to a year.
  std::chrono::milliseconds waiting = std::chrono::minutes{1};
  /// The maximum number of messages that are read per queue and priority: 1 to 1,000,000.
  int scan_limit = 10'000;
};

/// A topic with due messages that no live instance handles.
struct UnhandledTopic {
  std::string queue{};  ///< `outbox` or `inbox`.
  std::string topic{};
  std::int64_t seen = 0;                    ///< The number of waiting messages that were found.
  std::chrono::microseconds oldest_wait{};  ///< How long the oldest of them has been due.
};

class Instances {
 public:
  static constexpr std::chrono::seconds stale_after{90};

  explicit Instances(storage::Database& database);

  /// All instances, including stale ones, oldest first; at most 10,000.
  [[nodiscard]] std::vector<InstanceInfo> list();

  /// The topics of due, unclaimed messages that no live instance handles, longest wait first.
  /// Paused topics are left out. A started Platform checks every 30 seconds and logs
  /// `outbox.topic_unhandled` or `inbox.topic_unhandled`.
  [[nodiscard]] std::vector<UnhandledTopic> unhandled_topics(
      const UnhandledTopicsRequest& request = {});

  /// Deletes instances whose last heartbeat is older than `age` and returns their number. A started
  /// Platform calls it.
  std::size_t purge(std::chrono::seconds age, const std::stop_token& stop = {});

 private:
  storage::Database* database_;
  storage::InstanceStore* store_;
};

}  // namespace dovetail
