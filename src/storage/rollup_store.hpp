// The counts of work, by time, queue and topic, as a backend stores them.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dovetail/history.hpp"
#include "dovetail/ids.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// Counts of a process, about 10 s of them. `counts.begin` is not used.
struct RollupRow {
  std::string queue{};
  std::chrono::microseconds age{};  ///< How long ago they were counted.
  HistoryBucket counts{};
};

/// One flush of a process. A flush whose number is not greater than the last one of its source has
/// no effect.
struct RollupFlush {
  Uuid source{};
  std::int64_t number = 0;
  std::vector<RollupRow> rows{};
};

/// The rows as a JSON array: [{"queue", "topic", "age", "enqueued", …}], times in microseconds.
[[nodiscard]] std::string to_json(std::span<const RollupRow> rows);

class RollupStore {
 public:
  virtual ~RollupStore() = default;

  /// Adds the counts to buckets of 10 s. Returns whether it had an effect.
  virtual bool flush(WriteSession& session, const RollupFlush& flush) = 0;
  /// Folds up to one minute of 10 s buckets that are older than `age` into buckets of a minute.
  /// Returns how many rows it folded.
  virtual std::size_t fold(WriteSession& session, std::chrono::microseconds age) = 0;
  /// Deletes up to `most` rows that are older than `age`; returns how many it deleted.
  virtual std::size_t purge(WriteSession& session, std::chrono::microseconds age, int most) = 0;
  /// The same for the sources of flushes: a process that has been silent for so long does not
  /// repeat a flush.
  virtual std::size_t purge_sources(WriteSession& session, std::chrono::microseconds age,
                                    int most) = 0;
  virtual std::vector<HistoryBucket> list(ReadSession& session, const HistoryRequest& request) = 0;
};

}  // namespace dovetail::storage
