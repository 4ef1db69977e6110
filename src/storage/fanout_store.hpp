// Fan-outs as a backend stores them: cadences, and the cursors of slices.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/fanout.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// A topic and a work key. The empty work key means all keys without their own row.
struct FanoutKey {
  std::string_view topic;
  std::string_view work_key;
};

struct NewFanoutPolicy {
  FanoutKey key;
  std::chrono::milliseconds every{};
  std::chrono::milliseconds jitter{};
  std::string_view job;
  std::chrono::milliseconds settle{};
};

/// A slice that was enqueued.
struct EnqueuedSlice {
  MessageId message;
  bool replaced = false;  ///< An earlier message of the slice ended without completing it.
};

/// The payload of a slice's message. FanoutSlice::from() subtracts `settle` from the time of the
/// message.
[[nodiscard]] std::string slice_payload(const FanoutSlice& slice, std::chrono::milliseconds settle);
/// A number from 0 to 2^63 - 1 that depends on the keys alone, and spreads slices evenly.
[[nodiscard]] std::int64_t slice_spread(std::string_view topic, const FanoutCandidate& candidate);
/// The candidates as a JSON array of [shard key, work key, spread].
[[nodiscard]] std::string candidates_json(std::string_view topic,
                                          std::span<const FanoutCandidate> candidates);
/// The status that the views name. Any other word is a bug.
[[nodiscard]] FanoutStatus fanout_status_of(std::string_view word);

/// A part of the cursors of a topic.
struct FanoutPurge {
  std::string_view topic;
  std::optional<std::string_view> work_key;  ///< Only this one.
  std::string after_work_key;                ///< The part begins behind this cursor.
  std::string after_shard_key;
  std::chrono::milliseconds age{};
  std::size_t page = 0;  ///< How many cursors are examined.
};

class FanoutStore {
 public:
  virtual ~FanoutStore() = default;

  /// Stores the registered cadence, and keeps one that an operator has set.
  virtual void register_policy(WriteSession& session, const NewFanoutPolicy& policy) = 0;
  /// Returns false if neither the work key nor all keys of the topic have a policy.
  virtual bool set_cadence(WriteSession& session, const FanoutKey& key,
                           std::chrono::milliseconds every,
                           std::optional<std::chrono::milliseconds> jitter) = 0;
  /// Returns false if the policy does not exist.
  virtual bool reset_cadence(WriteSession& session, const FanoutKey& key) = 0;
  virtual bool remove(WriteSession& session, const FanoutKey& key) = 0;

  /// Enqueues the due slices among valid candidates with their work keys.
  virtual std::vector<EnqueuedSlice> plan(WriteSession& session, std::string_view topic,
                                          std::span<const FanoutCandidate> candidates) = 0;
  /// Returns false if another message has completed the window of the slice.
  virtual bool mark_completed(WriteSession& session, const FanoutSlice& slice) = 0;

  /// Deletes the cursors of the part whose shards have vanished, moves the part behind the cursors
  /// that were examined, and returns the number deleted. Sets the page to zero after the last part.
  virtual std::size_t purge(WriteSession& session, FanoutPurge& part) = 0;

  virtual std::optional<WallTime> last_completed(ReadSession& session,
                                                 const FanoutSlice& slice) = 0;
  virtual std::vector<FanoutPolicy> policies(ReadSession& session,
                                             std::optional<std::string_view> topic) = 0;
  virtual std::vector<FanoutCursor> cursors(ReadSession& session, std::string_view topic,
                                            const FanoutCursorPage& page) = 0;
};

}  // namespace dovetail::storage
