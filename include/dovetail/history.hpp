// The history of a queue's work without a metrics server: how many messages came in, were done,
// were retried and failed, and how long handlers took, by topic. And its backlog: how many messages
// waited.
//
//   for (const auto& bucket : platform.history().buckets(
//            {.queue = "outbox", .from = now - 1h, .to = now, .step = 1min})) …
//
// A started Platform counts in memory, and adds its counts to the table every ten seconds: buckets
// of 10 s for an hour, then of a minute for a week. At most 200 topics are counted in a bucket; the
// rest is the topic "other". In the same intervals, one of the processes counts the backlog. While
// there is neither work nor a backlog, it does so once a minute.
//
// Guarantees
//   * A flush counts once, also if its connection broke and it was repeated.
//   * No statement is added to the work of a message.
// Not guaranteed
//   * That each message is counted: counts of the last seconds of a process that ends, messages
//   that
//     a process without start() enqueues, and those of other languages are missing.
//
// Threads: from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "dovetail/clock.hpp"

namespace dovetail {

namespace storage {
class Database;
class BacklogStore;
class RollupStore;
}  // namespace storage

struct HistoryOptions {
  bool enabled = true;  ///< False: this process counts nothing. Old counts are still deleted.
};

struct HistoryRequest {
  std::string queue = "outbox";
  std::string topic{};            ///< Empty: all topics.
  bool by_topic = false;          ///< A bucket for each topic, instead of their sum.
  WallTime from{};                ///< The begin of the first bucket, rounded down to `step`.
  WallTime to{};                  ///< Exclusive.
  std::chrono::seconds step{60};  ///< 10 s to 24 h, a multiple of 10 s.
};

struct HistoryBucket {
  WallTime begin{};
  std::string topic{};  ///< Empty: the sum of all, or of the topic of the request.
  std::int64_t enqueued = 0;
  std::int64_t done = 0;
  std::int64_t retried = 0;                      ///< Calls that failed and are retried.
  std::int64_t failed = 0;                       ///< Messages that became dead letters.
  std::int64_t calls = 0;                        ///< Calls of handlers.
  std::chrono::microseconds handler_time{};      ///< The sum of the calls.
  std::chrono::microseconds handler_time_max{};  ///< Of one call.

  friend bool operator==(const HistoryBucket&, const HistoryBucket&) = default;
};

/// The largest backlog that was counted in a bucket. Each number is counted up to `most_counted`.
struct BacklogBucket {
  static constexpr std::int64_t most_counted = 100'000;

  WallTime begin{};
  std::int64_t ready = 0;  ///< Messages that were due.
  std::int64_t in_progress = 0;

  friend bool operator==(const BacklogBucket&, const BacklogBucket&) = default;
};

class History {
 public:
  explicit History(storage::Database& database);

  /// The buckets in the order of their times; those in which nothing happened are left out. Throws
  /// std::invalid_argument or std::out_of_range for a wrong request, and for more than 10,000
  /// steps.
  [[nodiscard]] std::vector<HistoryBucket> buckets(const HistoryRequest& request);

  /// The backlog of a queue over time, like buckets(). Times in which no process counted it are
  /// left out. It is not known by topic: `topic` must be empty, and `by_topic` false.
  [[nodiscard]] std::vector<BacklogBucket> backlog(const HistoryRequest& request);

 private:
  storage::Database* database_;
  storage::BacklogStore* backlog_;
  storage::RollupStore* store_;
};

}  // namespace dovetail
