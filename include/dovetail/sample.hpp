// Samples: the state of the databases at one moment, for gauges, overviews and event streams.
//
//   const auto sample = platform.sample(std::chrono::seconds{3});
//
// Guarantees
//   * A sample is taken only when somebody asks for one. Callers share it as long as it is young
//     enough for them, and callers that wait share the one that is being taken.
//   * Each database answers some short statements. Counting stops at QueueCounts::counted_up_to, so
//     a sample costs about the same on a database with millions of messages.
//   * The call takes two seconds at most. If a database does not answer, its part of the sample is
//     its last one, or empty, with the error.
//   * Each sample sets the gauges of the metrics (docs/observability.md).
// Not guaranteed
//   * That all databases of a group are in each sample: databases that the group has not opened yet
//     are left out. A sample of many databases may take several calls: each call continues with
//     those that have not been read for the longest time.
//
// Threads: a Sample does not change. It may be shared between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/queue.hpp"

namespace dovetail {

struct QueueSample {
  std::string queue{};  ///< outbox, inbox or timers.
  QueueCounts counts{};
  std::int64_t blocked_streams = 0;  ///< At most 100 are counted.
};

/// The number of joins by state. Counting stops at 10,000 of each.
struct JoinSample {
  std::int64_t pending = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;
};

struct JobSample {
  std::string job{};
  /// The end of the last successful run. Absent: none of the latest thousand runs was successful.
  std::optional<WallTime> last_success{};
};

/// The connections of this process.
struct PoolSample {
  std::size_t in_use = 0;
  std::size_t idle = 0;
};

/// The state of one database.
struct StoreSample {
  std::string store{};  ///< The name of the database; in a group, its key.
  WallTime taken_at{};  ///< By the clock of this process. Zero: the database was never read.
  std::string error{};  ///< Why the database could not be read. Empty: it was read at `taken_at`.
  std::vector<QueueSample> queues{};
  JoinSample joins{};
  std::vector<JobSample> jobs{};  ///< The first 200 by name.
  PoolSample pool{};
};

struct Sample {
  std::vector<StoreSample> stores{};  ///< Ordered by name.
};

}  // namespace dovetail
