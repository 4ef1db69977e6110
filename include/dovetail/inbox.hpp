// The deduplicating inbox: what is delivered to you several times takes effect once.
//
//   const auto outcome = platform.inbox().process("payments", delivery.id, [&](Transaction&
//   transaction) {
//     transaction.execute("update accounts set …");  // commits together with the mark that it was
//     processed
//   });
//   if (outcome != ProcessOutcome::in_progress) delivery.acknowledge();  // it was handled, now or
//   before
//
// A message is known by its source (a broker, a partner, a topic) and the id that it has there.
// There are two ways to use it, and both remember in the same place:
//   * The guard, when the message is handled where it arrives: process(), or try_begin() and
//   mark_processed() for effects
//     that are not in this database.
//   * The queue, when it is to be handled later: enqueue() stores it unless it is known, and the
//   handlers of
//     Platform::on_inbox() get it with the leases, retries and dead letters of the outbox.
//
// Guarantees
//   * Of callers who try_begin() the same message at the same time, exactly one is told `started`;
//   another one after it, if
//     its lease ends without a mark. Who has lost a lease can mark nothing with its ticket.
//   * What process() calls takes effect exactly once, if all that it does is done through the
//   transaction that it is given.
//   * A message is stored in the queue once, and handled like one of the outbox: what its handler
//   writes through
//     ctx.transaction() takes effect exactly once.
//   * The guard never gives away what waits in the queue, nor the queue what the guard has begun.
//   * A known id that comes with another hash is reported and logged, never processed.
//   * A message that kills its process again and again is dead after max_attempts tries,
//     whichever way it is handled.
// Not guaranteed
//   * Anything about messages older than InboxOptions::remember: they are forgotten, and new when
//   they come again.
//   * That sightings are exact: one whose answer was lost may be counted twice.
//
// Threads: an Inbox may be shared between threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/queue.hpp"

namespace dovetail {

namespace storage {
class InboxStore;
struct BeginAnswer;
struct BeginOrder;
struct InboxArrival;
struct InboxFence;
struct InboxKey;
struct Sighting;
}  // namespace storage

/// What a hash is taken of is yours to decide; a SHA-256 of the content fits. Empty: none.
using ContentHash = std::span<const std::byte>;

enum class InboxStatus : std::uint8_t {
  seen = 0,        ///< Nobody has begun with it, or all who did have given it back.
  processing = 1,  ///< Somebody has begun.
  processed = 2,
  dead = 3,    ///< Given up; see replay().
  queued = 4,  ///< In the inbox's queue: waiting, or with a handler.
};

[[nodiscard]] std::string_view to_string(InboxStatus status);

enum class BeginOutcome : std::uint8_t {
  started,        ///< It is yours, until the ticket's lease ends.
  in_progress,    ///< Somebody else's, or in the queue.
  processed,      ///< Done before.
  dead,           ///< Given up before.
  hash_mismatch,  ///< The id is known, with another content.
};

[[nodiscard]] std::string_view to_string(BeginOutcome outcome);

/// The right to process one message: until the lease ends, or somebody marks it without a ticket.
struct InboxTicket {
  std::string source{};
  std::string message_id{};
  OwnerToken owner{};
  std::int64_t epoch =
      0;  ///< Grows with everyone who begins, while the message is known: a fencing token.
  WallTime lease_until{};  ///< By the database's clock.
  int attempts = 0;        ///< How often somebody has begun, this time included.
};

struct Begun {
  BeginOutcome outcome = BeginOutcome::in_progress;
  InboxTicket ticket{};  ///< Of use when it has started.

  [[nodiscard]] bool started() const { return outcome == BeginOutcome::started; }
};

struct BeginOptions {
  ContentHash hash{};
  std::optional<std::chrono::milliseconds>
      lease{};  ///< 10 ms to 24 h; absent: InboxOptions::lease.
  /// A message whose lease ran out at this attempt, or later, is dead. Absent:
  /// QueueOptions::max_attempts of InboxOptions::queue.
  std::optional<int> max_attempts{};
};

struct ProcessOptions {
  ContentHash hash{};
  /// After how many failed tries it is dead; absent: QueueOptions::max_attempts of
  /// InboxOptions::queue. A try during which the process ended has failed.
  std::optional<int> max_attempts{};
};

enum class ProcessOutcome : std::uint8_t {
  handled,        ///< By this call.
  in_progress,    ///< Somebody else has begun: it is theirs. Let it be delivered again.
  processed,      ///< Before.
  dead,           ///< Given up before.
  hash_mismatch,  ///< The id is known, with another content.
};

[[nodiscard]] std::string_view to_string(ProcessOutcome outcome);

/// Thrown by already_processed(): the id is known, with another content.
class HashMismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What to store in the inbox's queue. Texts are UTF-8 without NUL; the limits are those of
/// EnqueueRequest.
struct InboxRequest {
  std::string topic{};
  std::string source{};      ///< 1 to 64 characters.
  std::string message_id{};  ///< As the source calls it: 1 to 255 characters.
  std::string payload{};
  Bytes hash{};  ///< 32 of them, or none.
  std::optional<WallTime> due_at{};
  std::optional<std::string> correlation_id{};
  Headers headers{};  ///< Names that begin with `dovetail-` are taken.
  std::optional<WallTime> expires_at{};
  int priority = 0;
};

enum class InboxEnqueueOutcome : std::uint8_t { stored, duplicate, hash_mismatch };

[[nodiscard]] std::string_view to_string(InboxEnqueueOutcome outcome);

struct InboxEnqueued {
  InboxEnqueueOutcome outcome = InboxEnqueueOutcome::stored;
  /// Of the message in the queue, also of one that was there before; absent when it never was.
  std::optional<MessageId> id{};

  [[nodiscard]] bool stored() const { return outcome == InboxEnqueueOutcome::stored; }
};

/// A message as a handler gets it.
struct InboxMessage {
  MessageId id{};  ///< In the queue.
  std::string source{};
  std::string message_id{};  ///< As the source calls it.
  std::string topic{};
  std::string payload{};
  std::optional<std::string> correlation_id{};
  Headers headers{};
  WallTime received_at{};  ///< By the database's clock.
  std::optional<WallTime> due_at{};
  int priority = 0;
  int attempts = 0;  ///< Tries that have failed so far.

  /// For workers of your own, of what Inbox::queue() gave them.
  [[nodiscard]] static InboxMessage from(const Message& message);
};

/// What is known of a message.
struct InboxEntry {
  std::string source{};
  std::string message_id{};
  InboxStatus status = InboxStatus::seen;
  Bytes hash{};
  WallTime first_seen_at{};
  WallTime last_seen_at{};
  std::optional<WallTime> processed_at{};  ///< Or when it was given up.
  std::int64_t sightings = 0;              ///< How often it has come.
  int attempts = 0;  ///< Guard: how often somebody began. Queue: how many tries have failed.
  std::optional<std::string> last_error{};
  std::optional<std::string>
      topic{};                    ///< Of one that passed through the queue, while that keeps it.
  std::optional<MessageId> id{};  ///< In the queue.
  std::optional<WallTime> lease_until{};  ///< While it is being processed by a caller of the guard.
};

/// Which dead messages are meant. Every field that is set narrows it down.
struct InboxDeadLetterFilter {
  std::optional<std::string> source{};
  std::optional<std::string> message_id{};
  std::optional<std::string> topic{};
  std::optional<WallTime> failed_after{};   ///< Inclusive.
  std::optional<WallTime> failed_before{};  ///< Exclusive.
};

struct ReplayOptions {
  std::string
      reason{};  ///< Stored in place of the last error, unless it is empty; up to 2 KiB are kept.
  /// Messages of the queue are ready after this time: zero to ten years. The others begin when they
  /// are delivered again.
  std::chrono::milliseconds delay{0};
};

struct InboxPage {
  std::optional<std::string> after_source{};  ///< The last entry of the page before …
  std::string after_message_id{};             ///< … and its id.
  int size = 100;                             ///< 1 to 10,000.
};

/// Counting stops at `counted_up_to`.
struct InboxCounts {
  std::int64_t seen = 0;
  std::int64_t processing = 0;
  std::int64_t overdue = 0;  ///< Of those, the ones whose lease has ended.
  std::int64_t processed = 0;
  std::int64_t dead = 0;  ///< Of the guard and of the queue.
  QueueCounts queue{};
  std::int64_t counted_up_to = 0;
};

struct InboxOptions {
  QueueOptions queue{};  ///< Sizes, attempts and history of the queue.
  /// How long a message is known after it was processed, given up or last seen.
  std::chrono::seconds remember = std::chrono::hours{24 * 30};
  /// Of those who begin without saying how long: 10 ms to 24 h. A process() that has crashed keeps
  /// others waiting for as long, but for 10 s at most.
  std::chrono::milliseconds lease = std::chrono::minutes{5};
  /// A started Platform warns of messages whose processing was to end so long ago, and nobody
  /// followed.
  std::chrono::milliseconds stuck_after = std::chrono::hours{1};
};

class Inbox {
 public:
  Inbox(storage::Database& database, InboxOptions options, Logger log, Metrics metrics);

  // Sources have 1 to 64 characters of UTF-8, ids 1 to 255, hashes 32 bytes or none. What is out of
  // range is refused before any I/O. With a Transaction, what is called takes effect when that
  // commits; others who ask for the same message wait for it, also the handlers of the queue: keep
  // it short, and take several messages in the order of their keys.

  // --- the guard

  /// Calls `handler` and marks the message as processed in one transaction, unless it was processed
  /// before. A short transaction before that one notes the attempt, so that it counts even if the
  /// process ends in the handler.
  ///
  /// Another call for the same message waits for this one, and holds a connection meanwhile. It
  /// answers in_progress when the process of this one has ended, until the lease of the attempt
  /// ends (see InboxOptions::lease).
  ///
  /// An exception of the handler rolls the transaction back, is noted as a failed attempt, and is
  /// thrown again. PermanentFailure, or the last attempt, gives the message up. The handler is
  /// called again when the transaction fell to a deadlock or a lost connection, at no cost of an
  /// attempt; it must not commit.
  ProcessOutcome process(std::string_view source, std::string_view message_id,
                         const std::function<void(Transaction& transaction)>& handler,
                         const ProcessOptions& options = {});

  /// Makes the caller the only one who processes the message. Mark it before the lease ends, or
  /// renew(). Each begin is an attempt; when the lease of the last attempt
  /// (BeginOptions::max_attempts) runs out, the message is dead.
  [[nodiscard]] Begun try_begin(std::string_view source, std::string_view message_id,
                                const BeginOptions& options = {});
  [[nodiscard]] Begun try_begin(Transaction& transaction, std::string_view source,
                                std::string_view message_id, const BeginOptions& options = {});

  // With a ticket, these answer false, and change nothing, when its lease was lost: roll your
  // transaction back then.

  [[nodiscard]] bool mark_processed(const InboxTicket& ticket);
  [[nodiscard]] bool mark_processed(Transaction& transaction, const InboxTicket& ticket);
  bool mark_dead(const InboxTicket& ticket, std::string_view reason);
  bool mark_dead(Transaction& transaction, const InboxTicket& ticket, std::string_view reason);
  /// Gives it back: the next caller may begin at once.
  bool release(const InboxTicket& ticket, std::string_view error = {});
  /// Lets the lease end `lease` from now, or when it would have, if that is later. Answers the
  /// time.
  std::optional<WallTime> renew(const InboxTicket& ticket, std::chrono::milliseconds lease);

  // The calls of the specification, without tickets.

  /// Notes that the message has come; answers whether it was processed before. Several callers may
  /// be told false at the same time: try_begin() is for that. Throws HashMismatch.
  bool already_processed(std::string_view source, std::string_view message_id,
                         ContentHash hash = {});
  bool already_processed(Transaction& transaction, std::string_view source,
                         std::string_view message_id, ContentHash hash = {});
  /// One more attempt, and for InboxOptions::lease nobody else is told to start. Answers false when
  /// it was processed, is dead, in the queue, or somebody holds a ticket for it.
  bool mark_processing(std::string_view source, std::string_view message_id);
  bool mark_processing(Transaction& transaction, std::string_view source,
                       std::string_view message_id);
  /// Answers false when it was marked so before, or belongs to the queue.
  bool mark_processed(std::string_view source, std::string_view message_id);
  bool mark_processed(Transaction& transaction, std::string_view source,
                      std::string_view message_id);
  /// Answers false when it was processed, is dead already, or belongs to the queue.
  bool mark_dead(std::string_view source, std::string_view message_id,
                 std::string_view reason = {});
  bool mark_dead(Transaction& transaction, std::string_view source, std::string_view message_id,
                 std::string_view reason = {});

  // --- the queue

  /// Stores a message for the handlers of Platform::on_inbox(), unless it is known. Safe to repeat.
  InboxEnqueued enqueue(const InboxRequest& request);
  InboxEnqueued enqueue(Transaction& transaction, const InboxRequest& request);
  /// All or none; answers in the order of the requests.
  std::vector<InboxEnqueued> enqueue_many(std::span<const InboxRequest> requests);
  std::vector<InboxEnqueued> enqueue_many(Transaction& transaction,
                                          std::span<const InboxRequest> requests);

  /// For workers of your own, and for operating it. Its acks and failures mark the messages in the
  /// same transaction.
  [[nodiscard]] WorkQueue& queue() { return queue_; }

  // --- for operating it

  [[nodiscard]] std::optional<InboxEntry> find(std::string_view source,
                                               std::string_view message_id);
  [[nodiscard]] InboxCounts counts();

  /// Those that were given up, of the guard and of the queue, in the order of their keys.
  [[nodiscard]] std::vector<InboxEntry> dead_letters(const InboxDeadLetterFilter& filter = {},
                                                     const InboxPage& page = {});
  /// Lets them live again: those of the queue are ready with their attempts at zero, the others may
  /// be begun. Their last errors are kept, unless there is a reason. Answers how many.
  std::size_t replay(const InboxDeadLetterFilter& filter, const ReplayOptions& options = {});
  /// Deletes them, and the queue's dead letters with them: when they come again, they are new.
  /// Answers how many.
  std::size_t purge_dead_letters(const InboxDeadLetterFilter& filter);

  /// Those whose processing was to end longer than `overdue` ago, and nobody followed; the oldest
  /// first.
  [[nodiscard]] std::vector<InboxEntry> stuck(std::chrono::milliseconds overdue, int most = 100,
                                              const std::stop_token& stop = {});

  /// Forgets messages that were processed, given up (but not the queue's dead letters) or last seen
  /// longer than `age` ago, in small transactions; answers how many. A started Platform does it,
  /// with InboxOptions::remember.
  std::size_t purge(std::chrono::seconds age, const std::stop_token& stop = {});

  [[nodiscard]] const InboxOptions& options() const { return options_; }

 private:
  Begun begin(std::string_view source, std::string_view message_id, const BeginOptions& options,
              Transaction* transaction);
  storage::BeginAnswer begin_try(const storage::InboxKey& key, storage::BeginOrder order);
  ProcessOutcome process_once(const storage::InboxKey& key, const storage::InboxFence& fence,
                              const std::function<void(Transaction& transaction)>& handler);
  ProcessOutcome run_try(const storage::InboxKey& key, const storage::InboxFence& fence,
                         bool is_last,
                         const std::function<void(Transaction& transaction)>& handler);
  enum class TryEnd : std::uint8_t { failed, dead, not_counted, cancelled };
  void end_try(const storage::InboxKey& key, const storage::InboxFence& fence, TryEnd end,
               std::string_view error) noexcept;
  bool answer_seen(const storage::Sighting& seen, std::string_view source,
                   std::string_view message_id) const;
  void note_dead(std::string_view source, std::string_view message_id,
                 std::string_view reason) const;
  void note_dead_at_commit(Transaction& transaction, const storage::InboxKey& key,
                           std::string_view reason) const;
  void note_mismatch(std::string_view source, std::string_view message_id) const;
  void note_enqueued(const storage::InboxArrival& arrival, const InboxEnqueued& answer) const;

  storage::Database* database_;
  storage::InboxStore* store_;
  InboxOptions options_;
  Logger log_;
  Metrics metrics_;
  WorkQueue queue_;
};

}  // namespace dovetail
