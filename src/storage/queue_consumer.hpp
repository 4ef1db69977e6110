// The consumer's role of a queue: it claims messages and settles the claims.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/queue.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

inline constexpr int lowest_priority = -5;
inline constexpr int highest_priority = 5;

/// A position in one priority of the queue.
struct QueueMark {
  WallTime ready_at;
  Uuid id;
  std::int64_t row = 0;  ///< Replaces the id where the engine orders messages by row number.
};

/// The positions where a worker's last claim began, one per priority from the lowest. Marks are a
/// hint: a claim without marks finds the messages before them.
using QueueMarks = std::array<std::optional<QueueMark>, highest_priority - lowest_priority + 1>;

/// The topics that a claim takes.
struct TopicFilter {
  std::set<std::string, std::less<>> topics;
  bool except = false;  ///< Take all topics except these.

  [[nodiscard]] bool takes(std::string_view topic) const {
    return topics.contains(topic) != except;
  }
};

struct ClaimOrder {
  OwnerToken owner;
  int batch_size = 0;
  std::chrono::microseconds lease{};
  int max_attempts = 0;
  const QueueMarks* after = nullptr;
  bool asks_next_due = false;
  const TopicFilter* topics = nullptr;  ///< Null: all topics.
  /// The claim stops before its payloads exceed this size together. It takes one message at least.
  std::int64_t max_bytes = std::int64_t{64} << 20;
  /// An engine whose claims block other writers may stop after it has examined this many messages.
  /// Zero: it must not stop.
  int scan_limit = 0;
  /// The claim goes through the queue: look_ahead() may come first.
  bool scans = false;
  /// Claims messages of streams, instead of messages without a stream.
  bool streams = false;
  /// The claim may be a run; see RunOrder.
  bool may_be_run = false;
};

/// A claim of many messages with one lease, which is cheaper than a lease for each of them.
///
/// A run covers messages that follow each other in the queue and were never claimed before.
/// Messages that are committed into it later wait until it is closed, so it should be closed soon.
/// Settlements other than acks, and renewals, give the messages leases of their own.
struct RunOrder {
  std::int64_t run = 0;                 ///< A number that this owner uses once. Not zero.
  int least = 0;                        ///< No run of fewer messages.
  std::chrono::microseconds min_age{};  ///< Only messages that have been ready for so long.
};

/// The result of looking through the queue before a claim.
struct LookAhead {
  QueueMarks passed{};      ///< Where the claim may begin: it would find no message before.
  bool unfinished = false;  ///< No message was found yet. Continue at `passed` before claiming.
};

/// A claimed message, and the position in the queue where the claim found it.
struct ClaimedEntry {
  ClaimedMessage claimed;
  WallTime ready_at;
  int lost_leases = 0;  ///< How many leases expired since an attempt last ended.
};

/// The result of one claim's attempt.
struct Settlement {
  enum class Kind { ack, abandon, fail, snooze };
  Kind kind = Kind::ack;
  Claim claim{};
  std::string error{};                                     ///< abandon, fail
  std::optional<std::chrono::microseconds> delay{};        ///< abandon, snooze
  int max_attempts = 0;                                    ///< abandon
  int charge = 1;                                          ///< fail
  StreamFailure on_stream_failure = StreamFailure::block;  ///< abandon, fail
};

/// Why claims are abandoned or failed.
struct Failed {
  std::string_view error{};
  StreamFailure on_stream_failure = StreamFailure::block;
};

/// The answer to a ClaimOrder.
struct Claimed {
  std::vector<ClaimedEntry> entries;
  /// Where the next claim of the same topics may begin: it would find no message before. Empty
  /// where the claim does not know.
  QueueMarks passed{};
  /// The claim has not examined the whole queue. Continue at `passed`.
  bool unfinished = false;
  /// The claim stopped before its batch was full, because the next payload would exceed max_bytes.
  bool cut = false;
  /// The messages are leased with a run. No message before the last of them was left out.
  bool is_run = false;
  /// The time until the next message is due. Absent when none waits, or the order did not ask.
  std::optional<std::chrono::microseconds> next_due;
  /// There are streams with work, of whatever topics. Only set where the order asked for next_due.
  bool has_streams = false;
};

/// One step of a dispatcher: settlements, then claims.
struct WorkOrder {
  OwnerToken owner;
  std::span<const Settlement> settlements{};
  bool keep_done = true;
  /// How long a settlement waits for a lock; then the step fails with ErrorKind::lock_timeout.
  /// Zero: without a limit.
  std::chrono::milliseconds lock_patience{0};
  /// Runs to close after the settlements.
  std::span<const std::int64_t> ended_runs{};
  std::span<const ClaimOrder> claims{};
};

struct WorkAnswer {
  std::size_t settled = 0;       ///< How many settlements took effect.
  std::vector<Claimed> claimed;  ///< One for each of the order's claims.
};

class QueueConsumer {
 public:
  virtual ~QueueConsumer() = default;

  /// Claims messages by priority, then by the time when they became ready.
  virtual Claimed claim(WriteSession& session, const ClaimOrder& order) = 0;

  /// True if the engine has runs. Without them, claim_run() returns no messages.
  [[nodiscard]] virtual bool has_runs() const { return false; }
  /// Claims messages of one priority with a run. Returns no messages if there is no such run: then
  /// claim() finds some. The session must not be in a transaction.
  virtual Claimed claim_run(WriteSession& /*session*/, const ClaimOrder& /*order*/,
                            const RunOrder& /*run*/) {
    return {};
  }
  /// Closes runs of this owner. Messages that are left in them become claimable again.
  virtual void close_runs(WriteSession& /*session*/, OwnerToken /*owner*/,
                          std::span<const std::int64_t> /*runs*/) {}

  /// Examines up to `scan_limit` messages from `after` on, for a claim that scans. It reads only,
  /// so that the claim, which blocks other writers, does not have to examine them.
  virtual LookAhead look_ahead(ReadSession& session, const ClaimOrder& order) = 0;

  /// Settles the finished claims and claims the next batch, in one round trip if the engine has
  /// round trips.
  virtual WorkAnswer work(WriteSession& session, const WorkOrder& order) = 0;

  /// Returns the claims that can be settled without waiting for a lock, ordered by id. They stay
  /// locked until the transaction ends. An engine without row locks returns all of them.
  virtual std::vector<Claim> settleable(WriteSession& session, OwnerToken owner,
                                        std::span<const Claim> claims) = 0;

  /// Settlements in this transaction wait no longer for a lock: then they fail with
  /// ErrorKind::lock_timeout. An engine without row locks does nothing.
  virtual void limit_lock_waits(WriteSession& session, std::chrono::milliseconds patience) = 0;

  /// Resets the count of lost leases of messages whose owner is alive: they did not kill it.
  virtual void absolve(WriteSession& session, std::span<const MessageId> ids) = 0;

  /// Takes back the last lost lease of messages, and its attempt: no handler began them, and their
  /// owner is alive.
  virtual void uncharge(WriteSession& session, std::span<const MessageId> ids) = 0;

  /// Adds stages to the messages of these claims. Returns how many claims are held.
  virtual std::size_t add_stages(WriteSession& session, OwnerToken owner,
                                 std::span<const Claim> claims, Stages stages) = 0;

  // These take claims ordered by id, and return how many took effect.

  virtual std::size_t ack(WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
                          bool keep) = 0;
  virtual std::size_t abandon(WriteSession& session, OwnerToken owner,
                              std::span<const Claim> claims, const Failed& failed,
                              std::optional<std::chrono::microseconds> delay, int max_attempts) = 0;
  virtual std::size_t fail(WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
                           const Failed& failed, int charge) = 0;
  virtual std::size_t snooze(WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
                             std::optional<std::chrono::microseconds> delay) = 0;
  /// Returns the messages whose leases are still held.
  virtual std::vector<MessageId> renew(WriteSession& session, OwnerToken owner,
                                       std::span<const Claim> claims,
                                       std::chrono::microseconds lease) = 0;

  // These handle up to `most` messages per call, and return how many they handled.

  /// Takes expired leases back. Messages that reach `max_attempts` fail; without `max_attempts`,
  /// none fails. With `scan_limit`, an engine that has to search examines only this many messages
  /// at the front of the queue.
  virtual std::size_t reap_expired(WriteSession& session, std::optional<int> max_attempts, int most,
                                   std::optional<int> scan_limit) = 0;
  /// Returns messages of a resumed topic to the queue. Without a topic, it returns those of all
  /// topics that are not paused.
  virtual std::size_t unpark(WriteSession& session, std::optional<std::string_view> topic,
                             int most) = 0;
};

}  // namespace dovetail::storage
