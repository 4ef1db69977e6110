// The runs that a worker has opened (storage::RunOrder): which of their claims are open, and
// whether to open more of them.
//
// A run makes sense if its messages are acked soon. The book notes what speaks against it: claims
// that were still open after a second, handlers with a transaction of their own, and queues without
// enough messages in a row.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "dovetail/clock.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::runtime {

class RunBook {
 public:
  /// When to open runs. Tests set it with the environment variable DOVETAIL_TEST_RUNS.
  enum class Policy { by_need, always, never };
  [[nodiscard]] static Policy policy_from_environment();

  explicit RunBook(Policy policy = policy_from_environment()) : policy_(policy) {}

  /// Returns the run to open for a claim of this size, or nullopt if the claim should lease the
  /// messages one by one.
  [[nodiscard]] std::optional<storage::RunOrder> next_run(int batch_size, MonoTime now);
  /// The run may exist. Without entries, it has nothing to wait for and is closed soon.
  void opened(std::int64_t run, std::span<const storage::ClaimedEntry> entries);
  /// There was no run to open.
  void note_none(MonoTime now);
  /// Single leases are better for a while: claims are open for long.
  void note_slow(MonoTime now);

  /// The claim is settled, lost, or has a lease of its own. Ignores claims of single messages, and
  /// claims that have ended before.
  void end(const Claim& claim);
  /// The runs that have no open claims once these claims have ended.
  [[nodiscard]] std::vector<std::int64_t> ended_with(std::span<const Claim> claims) const;
  void closed(std::span<const std::int64_t> runs);

 private:
  const Policy policy_;
  mutable std::mutex mutex_;
  std::int64_t last_run_ = 0;
  std::map<std::int64_t, std::unordered_set<MessageId>> open_;  // the open claims of each run
  MonoTime paused_until_ = MonoTime::min();
};

}  // namespace dovetail::runtime
