// The backlog over time, as a backend stores it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dovetail/history.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

class BacklogStore {
 public:
  virtual ~BacklogStore() = default;

  /// Whether a process has stored the backlog of the current 10 s.
  virtual bool is_known(ReadSession& session) = 0;
  /// Stores the backlog of the current 10 s. `bucket.begin` is not used.
  virtual void add(WriteSession& session, std::string_view queue, const BacklogBucket& bucket) = 0;
  /// Folds up to one minute of 10 s buckets that are older than `age` into buckets of a minute.
  /// Returns how many rows it folded.
  virtual std::size_t fold(WriteSession& session, std::chrono::microseconds age) = 0;
  /// Deletes up to `most` rows that are older than `age`; returns how many it deleted.
  virtual std::size_t purge(WriteSession& session, std::chrono::microseconds age, int most) = 0;
  virtual std::vector<BacklogBucket> list(ReadSession& session, const HistoryRequest& request) = 0;
};

}  // namespace dovetail::storage
