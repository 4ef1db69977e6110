// The outbox as a backend stores it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/outbox.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// The names of the queues, as tables, metrics and wake-ups spell them.
namespace queues {
inline constexpr std::string_view outbox = "outbox";
inline constexpr std::string_view inbox = "inbox";
inline constexpr std::string_view timers = "timers";
}  // namespace queues

inline constexpr int lowest_priority = -5;
inline constexpr int highest_priority = 5;

/// A checked message on its way into the store.
struct NewMessage {
  MessageId id;
  bool fresh = true;   ///< The id was drawn for this run: nobody can have stored it before.
  bool lasts = false;  ///< It is there, and what it refers to, until the transaction has ended.
  std::string_view topic;
  std::string_view payload;
  std::optional<std::string_view> correlation_id;
  std::optional<WallTime> due_at;
  std::optional<std::string> headers;  ///< As JSON.
  std::optional<WallTime> expires_at;
  int priority = 0;
  std::optional<std::string_view> unique_key;
  /// Instead of due_at: from the database's now.
  std::optional<std::chrono::milliseconds> delay{};
};

/// A place in the queue of one priority.
struct QueueMark {
  WallTime ready_at;
  Uuid id;
  std::int64_t row = 0;  ///< Instead of the id, where an engine orders by it.
};

/// How far into the queue a worker has come: where its last claim began, per priority from the
/// lowest. A hint: what lies before it is found by a claim without one.
using QueueMarks = std::array<std::optional<QueueMark>, highest_priority - lowest_priority + 1>;

/// The topics that a claim takes.
struct TopicFilter {
  std::set<std::string, std::less<>> topics;
  bool except = false;  ///< All topics but these.

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
  /// Fewer messages are claimed when their payloads exceed this together; one always is.
  std::int64_t max_bytes = std::int64_t{64} << 20;
  /// An engine whose claims keep others from writing may stop after it has looked at so many
  /// messages; zero: it may not.
  int look_at = 0;
};

/// A claimed message, and the place in the queue where it was found.
struct ClaimedEntry {
  ClaimedMessage claimed;
  WallTime ready_at;
  int lost_leases = 0;  ///< How often its lease ran out since a try of it last ended.
};

/// What became of a claim.
struct Settlement {
  enum class Kind { ack, abandon, fail, snooze };
  Kind kind = Kind::ack;
  Claim claim{};
  std::string error{};                               ///< abandon, fail
  std::optional<std::chrono::microseconds> delay{};  ///< abandon, snooze
  int max_attempts = 0;                              ///< abandon
  int charge = 1;                                    ///< fail
};

/// What a claim brought.
struct Claimed {
  std::vector<ClaimedEntry> entries;
  /// Where the next claim of the same topics may begin: it finds nothing before. Empty where the
  /// claim cannot tell.
  QueueMarks passed{};
  /// The claim has not looked at all of the queue: go on at `passed`.
  bool unfinished = false;
  /// The claim stopped before its batch was full, because the next payload would exceed max_bytes.
  bool cut = false;
  /// How long until the next message comes due; absent when none waits, or nobody asked.
  std::optional<std::chrono::microseconds> next_due;
};

/// One step of a dispatcher: settlements, then claims.
struct WorkOrder {
  OwnerToken owner;
  std::span<const Settlement> settlements{};
  bool keep_done = true;
  /// How long a settlement waits for a lock; then the step fails with ErrorKind::lock_timeout.
  /// Zero: for ever.
  std::chrono::milliseconds lock_patience{0};
  std::span<const ClaimOrder> claims{};
};

struct WorkAnswer {
  std::size_t settled = 0;       ///< How many settlements took effect.
  std::vector<Claimed> claimed;  ///< One for each of the order's claims.
};

/// Who tells other processes' workers of a new message.
enum class Announcement {
  later,   ///< The caller, after the commit: Database::announce().
  inside,  ///< The transaction itself.
  edge,    ///< The transaction itself, unless other messages have just come: for a stream of
           ///< transactions whose ends we do not see.
};

/// A topic with messages that are due and that no worker holds.
struct DueTopic {
  std::string topic;
  std::int64_t seen = 0;                    ///< How many of its messages were seen.
  std::chrono::microseconds oldest_wait{};  ///< How long the oldest of them has been due.
};

class QueueStore {
 public:
  virtual ~QueueStore() = default;

  /// Stores a message unless its id or its unique key is there already; answers what is there.
  virtual Enqueued enqueue(WriteSession& session, const NewMessage& message,
                           Announcement announcement) = 0;

  /// The same for many, by the engine's bulk path. With `repeated`, ids may be there already
  /// although they are fresh.
  virtual std::vector<Enqueued> enqueue_many(WriteSession& session,
                                             std::span<const NewMessage> messages, bool repeated,
                                             Announcement announcement) = 0;

  /// By priority, then by the time they became ready.
  virtual Claimed claim(WriteSession& session, const ClaimOrder& order) = 0;

  /// The dispatcher's step: settles what is finished and claims the next, in one round trip where
  /// there is one.
  virtual WorkAnswer work(WriteSession& session, const WorkOrder& order) = 0;

  /// The claims that can be settled without waiting for a lock, in the order of their ids. They
  /// stay locked until the transaction ends. An engine without row locks answers all of them.
  virtual std::vector<Claim> settleable(WriteSession& session, OwnerToken owner,
                                        std::span<const Claim> claims) = 0;

  /// Forgets the lost leases of messages whose owner is alive: they did not kill it.
  virtual void absolve(WriteSession& session, std::span<const MessageId> ids) = 0;

  // Claims in the order of their ids. Each answers how many took effect.
  virtual std::size_t ack(WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
                          bool keep) = 0;
  virtual std::size_t abandon(WriteSession& session, OwnerToken owner,
                              std::span<const Claim> claims, std::string_view error,
                              std::optional<std::chrono::microseconds> delay, int max_attempts) = 0;
  virtual std::size_t fail(WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
                           std::string_view error, int charge) = 0;
  virtual std::size_t snooze(WriteSession& session, OwnerToken owner, std::span<const Claim> claims,
                             std::optional<std::chrono::microseconds> delay) = 0;
  /// Answers which are still held.
  virtual std::vector<MessageId> renew(WriteSession& session, OwnerToken owner,
                                       std::span<const Claim> claims,
                                       std::chrono::microseconds lease) = 0;

  // These handle up to `most` at a time and answer how many it were.
  /// With `look_at`, only so many messages at the front of the queue are looked at, where an engine
  /// has to look. Without `max_attempts`, they are only given back.
  virtual std::size_t reap_expired(WriteSession& session, std::optional<int> max_attempts, int most,
                                   std::optional<int> look_at) = 0;
  virtual std::size_t replay(WriteSession& session, std::optional<std::span<const MessageId>> ids,
                             const DeadLetterFilter& filter, int most) = 0;
  virtual std::size_t purge_failed(WriteSession& session,
                                   std::optional<std::span<const MessageId>> ids,
                                   const DeadLetterFilter& filter, int most) = 0;
  virtual std::size_t purge_done(WriteSession& session, std::chrono::microseconds age,
                                 int most) = 0;

  virtual bool pause(WriteSession& session, std::string_view topic) = 0;
  virtual bool resume(WriteSession& session, std::string_view topic) = 0;
  /// Lets messages of a resumed topic (without one: of all topics that are not paused) back into
  /// the queue.
  virtual std::size_t unpark(WriteSession& session, std::optional<std::string_view> topic,
                             int most) = 0;

  /// The time that decides.
  virtual WallTime now(ReadSession& session) = 0;
  virtual QueueCounts counts(ReadSession& session) = 0;
  /// Whether a message of these topics is due or in progress.
  virtual bool has_work(ReadSession& session, std::span<const std::string> topics) = 0;
  /// Topics whose messages have been due for at least `waiting`, among the first `look_at` messages
  /// of each priority. Paused topics are left out. In no particular order.
  virtual std::vector<DueTopic> due_topics(ReadSession& session, std::chrono::microseconds waiting,
                                           int look_at) = 0;
  virtual std::optional<StoredMessage> find(ReadSession& session, MessageId id) = 0;
  virtual std::vector<StoredMessage> dead_letters(ReadSession& session,
                                                  const DeadLetterFilter& filter,
                                                  const DeadLetterPage& page) = 0;
  virtual DeadLetterSummary dead_letter_summary(ReadSession& session,
                                                const DeadLetterFilter& filter,
                                                const DeadLetterSummaryLimits& limits) = 0;
  virtual std::vector<PausedTopic> paused(ReadSession& session) = 0;
};

}  // namespace dovetail::storage
