// Instances: the processes that work on a database, and the topics that none of them handles.
//
//   for (const auto& instance : platform.instances().list()) { … }
//   for (const auto& topic : platform.instances().unhandled_topics()) { … }
//
// Every started Platform has a row in the table of instances. It renews the row's heartbeat every
// 10 seconds, sets the state `draining` when stop() begins, and deletes the row when stop() has
// ended all handlers. An instance without a heartbeat for 90 seconds is stale; a started Platform
// deletes stale rows after an hour.
//
// Guarantees
//   * All times are of the database's clock.
//   * unhandled_topics() reads a bounded number of messages, however long the queue is.
// Not guaranteed
//   * That a live instance works: its heartbeat shows only that its process runs and reaches the
//     database.
//   * That every topic without a handler is found: only the messages at the front of the queue are
//     read.
//   * Workers that call Outbox::claim() themselves, or the functions in SQL, are no instances.
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
  draining,  ///< Claims no more messages, and waits for its handlers to end.
};

[[nodiscard]] std::string_view to_string(InstanceState state);

/// A queue that an instance works on.
struct InstanceQueue {
  std::string name{};                 ///< `outbox` or `inbox`.
  std::vector<std::string> topics{};  ///< Those with a handler of their own, sorted.
  bool all_topics = false;  ///< It has a handler for all other topics too (Platform::on_any).

  [[nodiscard]] bool handles(std::string_view topic) const;

  friend bool operator==(const InstanceQueue&, const InstanceQueue&) = default;
};

struct InstanceInfo {
  InstanceId id{};
  std::string host{};
  std::int64_t pid = 0;
  std::string version{};  ///< Of Dovetail.
  WallTime started_at{};
  WallTime heartbeat_at{};
  InstanceState state = InstanceState::running;
  bool stale = false;  ///< No heartbeat for Instances::stale_after.
  std::vector<InstanceQueue> queues{};

  /// Whether it claims messages of this topic: it is running, not stale, and has a handler.
  [[nodiscard]] bool handles(std::string_view queue, std::string_view topic) const;
};

struct UnhandledTopicsRequest {
  /// How long a message must have been due: zero to a year.
  std::chrono::milliseconds waiting = std::chrono::minutes{1};
  /// How many messages are read, at most, per queue and priority: 1 to 1,000,000.
  int look_at = 10'000;
};

/// A topic whose messages are due and that no live instance handles.
struct UnhandledTopic {
  std::string queue{};  ///< `outbox` or `inbox`.
  std::string topic{};
  std::int64_t seen = 0;                    ///< How many of its messages wait, at least.
  std::chrono::microseconds oldest_wait{};  ///< How long the oldest of them has been due.
};

class Instances {
 public:
  static constexpr std::chrono::seconds stale_after{90};

  explicit Instances(storage::Database& database);

  /// All instances, stale ones too, the oldest first; 10,000 at most.
  [[nodiscard]] std::vector<InstanceInfo> list();

  /// The topics of due messages that nobody has claimed and that no live instance handles, the
  /// longest wait first. Paused topics are left out. A started Platform looks for them every half
  /// minute, and logs `outbox.topic_unhandled`.
  [[nodiscard]] std::vector<UnhandledTopic> unhandled_topics(
      const UnhandledTopicsRequest& request = {});

  /// Deletes instances without a heartbeat for `age`, and returns how many it deleted. A started
  /// Platform does it.
  std::size_t purge(std::chrono::seconds age, const std::stop_token& stop = {});

 private:
  storage::Database* database_;
  storage::InstanceStore* store_;
};

}  // namespace dovetail
