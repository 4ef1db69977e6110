// The deduplicating inbox: a message that is delivered several times takes effect once.
//
//   const auto outcome = platform.inbox().process(
//       "payments", delivery.id, [&](Transaction& transaction) {
//         transaction.execute("update accounts set …");  // commits together with the mark
//       });
//   if (outcome != ProcessOutcome::in_progress) delivery.acknowledge();  // it was handled
//
// The key of a message is its source (a broker, a partner, a topic) and its id at that source.
// There are two ways to use the inbox. Both share the same record of known messages.
//   * The guard handles a message where it arrives: process(), or try_begin() and mark_processed()
//     for effects outside this database.
//   * The queue handles a message later: enqueue() stores it unless it is known. The handlers of
//     Platform::on_inbox() receive it with the leases, retries and dead letters of the outbox.
//
// Guarantees
//   * When several callers call try_begin() for a message at the same time, exactly one gets
//     `started`. Another caller may start when the lease expires without a mark. A ticket whose
//     lease is lost marks nothing.
//   * Writes through the transaction of process() take effect exactly once.
//   * A message is stored in the queue once and handled like a message of the outbox: writes
//     through ctx.transaction() take effect exactly once.
//   * The guard does not start a message that is in the queue, and the queue does not store a
//     message that the guard has started.
//   * A known id with a different hash is logged, never processed.
//   * A message that kills its processes becomes a dead letter after max_attempts attempts, in the
//     guard and in the queue. An attempt of try_begin() or mark_processing() with a transaction
//     does not count if the process ends before the commit.
// Not guaranteed
//   * Deduplication after InboxOptions::remember: older messages are purged and count as new.
//   * Exact sighting counts: a retried call may count a sighting twice.
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

/// A hash of the content, such as a SHA-256. You decide what it covers. Empty: no hash.
using ContentHash = std::span<const std::byte>;

enum class InboxStatus : std::uint8_t {
  seen = 0,        ///< Not started, or every caller that started it released it.
  processing = 1,  ///< Started by a caller.
  processed = 2,
  dead_letter = 3,  ///< Given up after the last attempt, or by a caller; see replay().
  queued = 4,       ///< In the inbox's queue: waiting, or with a handler.
};

[[nodiscard]] std::string_view to_string(InboxStatus status);

enum class BeginOutcome : std::uint8_t {
  started,        ///< The caller processes it until the ticket's lease expires.
  in_progress,    ///< Another caller processes it, or it is in the queue.
  processed,      ///< It was processed before.
  dead_letter,    ///< It was given up before.
  hash_mismatch,  ///< The id is known with different content.
};

[[nodiscard]] std::string_view to_string(BeginOutcome outcome);

/// The right to process one message. It ends when the lease expires, or when another caller marks
/// the message without a ticket.
struct InboxTicket {
  std::string source{};
  std::string message_id{};
  OwnerToken owner{};
  /// Increases with every start while the message is known: a fencing token.
  std::int64_t epoch = 0;
  WallTime lease_until{};  ///< By the database's clock.
  int attempts = 0;        ///< The number of starts, including this one.
};

struct Begun {
  BeginOutcome outcome = BeginOutcome::in_progress;
  InboxTicket ticket{};  ///< Valid only when started() is true.

  [[nodiscard]] bool started() const { return outcome == BeginOutcome::started; }
};

struct BeginOptions {
  ContentHash hash{};
  /// 10 ms to 24 h. Absent: InboxOptions::lease.
  std::optional<std::chrono::milliseconds> lease{};
  /// The message becomes a dead letter when the lease of this attempt, or of a later one, expires.
  /// Absent: QueueOptions::max_attempts of InboxOptions::queue.
  std::optional<int> max_attempts{};
};

struct ProcessOptions {
  ContentHash hash{};
  /// The number of failed attempts after which the message becomes a dead letter. Absent:
  /// QueueOptions::max_attempts of InboxOptions::queue. An attempt also fails when the process ends
  /// during it.
  std::optional<int> max_attempts{};
};

enum class ProcessOutcome : std::uint8_t {
  handled,        ///< This call handled it.
  in_progress,    ///< Another caller processes it. Let the source deliver it again.
  processed,      ///< It was processed before.
  dead_letter,    ///< It was given up before.
  hash_mismatch,  ///< The id is known with different content.
};

[[nodiscard]] std::string_view to_string(ProcessOutcome outcome);

/// Thrown by already_processed(): the id is known with different content.
class HashMismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A message for the inbox's queue. Texts are UTF-8 without NUL. The limits are those of
/// EnqueueRequest.
struct InboxRequest {
  std::string topic{};
  std::string source{};      ///< 1 to 64 characters.
  std::string message_id{};  ///< The id at the source: 1 to 255 characters.
  std::string payload{};
  Bytes hash{};  ///< 32 bytes, or empty.
  std::optional<WallTime> due_at{};
  std::optional<std::string> correlation_id{};
  Headers headers{};  ///< Names that begin with `dovetail-` are reserved.
  std::optional<WallTime> expires_at{};
  int priority = 0;
  std::optional<std::string> stream{};
};

enum class InboxEnqueueOutcome : std::uint8_t { stored, duplicate, hash_mismatch };

[[nodiscard]] std::string_view to_string(InboxEnqueueOutcome outcome);

struct InboxEnqueued {
  InboxEnqueueOutcome outcome = InboxEnqueueOutcome::stored;
  /// The id in the queue, also when the message was stored before. Absent if it never was there.
  std::optional<MessageId> id{};

  [[nodiscard]] bool stored() const { return outcome == InboxEnqueueOutcome::stored; }
};

/// A message as a handler receives it.
struct InboxMessage {
  MessageId id{};  ///< The id in the queue.
  std::string source{};
  std::string message_id{};  ///< The id at the source.
  std::string topic{};
  std::string payload{};
  std::optional<std::string> correlation_id{};
  Headers headers{};
  WallTime received_at{};  ///< By the database's clock.
  std::optional<WallTime> due_at{};
  int priority = 0;
  int attempts = 0;  ///< The number of failed attempts.
  std::optional<std::string> stream{};
  Stages stages{};

  /// For your own workers: converts a message that Inbox::queue() returned.
  [[nodiscard]] static InboxMessage from(const Message& message);
};

/// The record of a known message.
struct InboxEntry {
  std::string source{};
  std::string message_id{};
  InboxStatus status = InboxStatus::seen;
  Bytes hash{};
  WallTime first_seen_at{};
  WallTime last_seen_at{};
  std::optional<WallTime> processed_at{};  ///< Or when it was given up.
  std::int64_t sightings = 0;              ///< The number of deliveries.
  int attempts = 0;  ///< Guard: the number of starts. Queue: the number of failed attempts.
  std::optional<std::string> last_error{};
  /// Present for a message of the queue, while the queue keeps it.
  std::optional<std::string> topic{};
  std::optional<MessageId> id{};          ///< The id in the queue.
  std::optional<WallTime> lease_until{};  ///< While a caller of the guard processes it.
};

/// Selects dead letters. A dead letter must match every field that is set.
struct InboxDeadLetterFilter {
  std::optional<std::string> source{};
  std::optional<std::string> message_id{};
  std::optional<std::string> topic{};
  std::optional<WallTime> failed_after{};   ///< Inclusive.
  std::optional<WallTime> failed_before{};  ///< Exclusive.
};

struct ReplayOptions {
  /// Replaces the last error, unless it is empty. Truncated to 2 KiB.
  std::string reason{};
  /// The delay of messages of the queue: zero to ten years. Messages of the guard start when they
  /// are delivered again.
  std::chrono::milliseconds delay{0};
};

struct InboxPage {
  std::optional<std::string> after_source{};  ///< Of the last entry of the previous page.
  std::string after_message_id{};             ///< The message id of that entry.
  int size = 100;                             ///< 1 to 10,000.
};

/// The number of messages by status. Counting stops at `counted_up_to`.
struct InboxCounts {
  std::int64_t seen = 0;
  std::int64_t processing = 0;
  std::int64_t overdue = 0;  ///< Messages in `processing` whose lease has expired.
  std::int64_t processed = 0;
  std::int64_t dead_letters = 0;  ///< Of the guard and of the queue.
  QueueCounts queue{};
  std::int64_t counted_up_to = 0;
};

struct InboxOptions {
  QueueOptions queue{};  ///< Limits, attempts and retention of the queue.
  /// How long a message stays known after it was processed, given up or last seen.
  std::chrono::seconds remember = std::chrono::hours{24 * 30};
  /// The default lease: 10 ms to 24 h. After a crash in process(), other callers wait for this
  /// time, but at most 10 s.
  std::chrono::milliseconds lease = std::chrono::minutes{5};
  /// A started Platform warns about messages whose lease expired this long ago and that no caller
  /// started again.
  std::chrono::milliseconds stuck_after = std::chrono::hours{1};
};

class Inbox {
 public:
  Inbox(storage::Database& database, InboxOptions options, Logger log, Metrics metrics);

  // Sources have 1 to 64 characters of UTF-8, ids 1 to 255, hashes 32 bytes or none. Values out of
  // range are rejected before any I/O. A call with a Transaction takes effect when the transaction
  // commits. Until then, other callers of the same message wait, including the handlers of the
  // queue. Keep the transaction short. If it uses several messages, use them in the order of their
  // keys.

  // --- the guard

  /// Calls `handler` and marks the message as processed in one transaction, unless it was processed
  /// before. A short transaction records the attempt first, so that it counts even if the process
  /// ends inside the handler.
  ///
  /// A concurrent process() of the same message waits for this one, and may hold a connection while
  /// it waits. If the process of this call ends, the other call waits until the lease of the
  /// attempt expires (see InboxOptions::lease), and then starts the message.
  ///
  /// If the handler throws, the transaction is rolled back, the failed attempt is recorded, and the
  /// exception is rethrown. After PermanentFailure or the last attempt, the message becomes a dead
  /// letter. After a deadlock or a lost connection the handler is called again, and no attempt is
  /// charged. The handler must not commit.
  ProcessOutcome process(std::string_view source, std::string_view message_id,
                         const std::function<void(Transaction& transaction)>& handler,
                         const ProcessOptions& options = {});

  /// Starts the message: the caller becomes the only one that processes it. Mark it before the
  /// lease expires, or call renew(). Each start is an attempt. The message becomes a dead letter
  /// when the lease of the last attempt (BeginOptions::max_attempts) expires.
  [[nodiscard]] Begun try_begin(std::string_view source, std::string_view message_id,
                                const BeginOptions& options = {});
  [[nodiscard]] Begun try_begin(Transaction& transaction, std::string_view source,
                                std::string_view message_id, const BeginOptions& options = {});

  // With a ticket, these calls change nothing and return false when the lease was lost. Roll back
  // your transaction in that case.

  [[nodiscard]] bool mark_processed(const InboxTicket& ticket);
  [[nodiscard]] bool mark_processed(Transaction& transaction, const InboxTicket& ticket);
  /// Gives the message up: it becomes a dead letter.
  bool mark_dead(const InboxTicket& ticket, std::string_view reason);
  bool mark_dead(Transaction& transaction, const InboxTicket& ticket, std::string_view reason);
  /// Gives the message back: the next caller may start it at once.
  bool release(const InboxTicket& ticket, std::string_view error = {});
  /// Renews the lease until `lease` from now, but never shortens it. Returns the new expiry, or
  /// nullopt when the lease was lost.
  std::optional<WallTime> renew(const InboxTicket& ticket, std::chrono::milliseconds lease);

  // The calls of the specification, without tickets.

  /// Records the delivery and returns whether the message was processed before. Several concurrent
  /// callers may get false; use try_begin() to avoid that. Throws HashMismatch.
  bool already_processed(std::string_view source, std::string_view message_id,
                         ContentHash hash = {});
  bool already_processed(Transaction& transaction, std::string_view source,
                         std::string_view message_id, ContentHash hash = {});
  /// Charges an attempt. Until InboxOptions::lease expires, try_begin() returns `in_progress` to
  /// all callers. Returns false when the message was processed, is a dead letter (also when the
  /// lease of its last attempt has expired), is in the queue, or is held by a ticket.
  bool mark_processing(std::string_view source, std::string_view message_id);
  bool mark_processing(Transaction& transaction, std::string_view source,
                       std::string_view message_id);
  /// Returns false when it was already processed, or belongs to the queue.
  bool mark_processed(std::string_view source, std::string_view message_id);
  bool mark_processed(Transaction& transaction, std::string_view source,
                      std::string_view message_id);
  /// Returns false when it was processed, is already a dead letter, or belongs to the queue.
  bool mark_dead(std::string_view source, std::string_view message_id,
                 std::string_view reason = {});
  bool mark_dead(Transaction& transaction, std::string_view source, std::string_view message_id,
                 std::string_view reason = {});

  // --- the queue

  /// Stores a message for the handlers of Platform::on_inbox(), unless it is known. Safe to repeat.
  InboxEnqueued enqueue(const InboxRequest& request);
  InboxEnqueued enqueue(Transaction& transaction, const InboxRequest& request);
  /// Stores all or none. Returns the results in the order of the requests.
  std::vector<InboxEnqueued> enqueue_many(std::span<const InboxRequest> requests);
  std::vector<InboxEnqueued> enqueue_many(Transaction& transaction,
                                          std::span<const InboxRequest> requests);

  /// For your own workers and for operators. An ack or a failure marks the message in the same
  /// transaction.
  [[nodiscard]] WorkQueue& queue() { return queue_; }

  // --- operation

  [[nodiscard]] std::optional<InboxEntry> find(std::string_view source,
                                               std::string_view message_id);
  [[nodiscard]] InboxCounts counts();

  /// The dead letters of the guard and of the queue, in the order of their keys.
  [[nodiscard]] std::vector<InboxEntry> dead_letters(const InboxDeadLetterFilter& filter = {},
                                                     const InboxPage& page = {});
  /// Replays dead letters: messages of the queue become ready with zero attempts, and the others
  /// may start again. The last errors are kept, unless a reason is given. Returns the number of
  /// messages.
  std::size_t replay(const InboxDeadLetterFilter& filter, const ReplayOptions& options = {});
  /// Deletes dead letters of the guard and of the queue. When they are delivered again, they are
  /// new. Returns the number of messages.
  std::size_t purge_dead_letters(const InboxDeadLetterFilter& filter);

  /// Messages whose lease expired more than `overdue` ago and that no caller started again, oldest
  /// first.
  [[nodiscard]] std::vector<InboxEntry> stuck(std::chrono::milliseconds overdue, int most = 100,
                                              const std::stop_token& stop = {});

  /// Deletes messages that were processed, given up or last seen longer than `age` ago, but not the
  /// queue's dead letters. Works in small transactions and returns the number of messages. A
  /// started Platform calls it with InboxOptions::remember.
  std::size_t purge(std::chrono::seconds age, const std::stop_token& stop = {});

  [[nodiscard]] const InboxOptions& options() const { return options_; }

 private:
  friend struct InboxAccess;
  Begun begin(std::string_view source, std::string_view message_id, const BeginOptions& options,
              Transaction* transaction);
  void note_begun(const storage::InboxKey& key, BeginOutcome outcome, bool gave_up) const;
  storage::BeginAnswer begin_try(const storage::InboxKey& key, storage::BeginOrder order);
  ProcessOutcome process_once(const storage::InboxKey& key, const storage::InboxFence& fence,
                              const std::function<void(Transaction& transaction)>& handler);
  ProcessOutcome run_try(const storage::InboxKey& key, const storage::InboxFence& fence,
                         bool is_last,
                         const std::function<void(Transaction& transaction)>& handler);
  enum class TryEnd : std::uint8_t { failed, dead_letter, not_counted, cancelled };
  bool store_end(const storage::InboxKey& key, const storage::InboxFence& fence, TryEnd end,
                 std::string_view error);
  void end_try(const storage::InboxKey& key, const storage::InboxFence& fence, TryEnd end,
               std::string_view error) noexcept;
  bool answer_seen(const storage::Sighting& seen, std::string_view source,
                   std::string_view message_id) const;
  void note_given_up(std::string_view source, std::string_view message_id,
                     std::string_view reason) const;
  void note_given_up_at_commit(Transaction& transaction, const storage::InboxKey& key,
                               std::string_view reason) const;
  void note_mismatch(std::string_view source, std::string_view message_id) const;
  void note_enqueued(std::string_view topic, const storage::InboxKey& key, bool stored) const;
  void note_arrivals(std::span<const storage::InboxArrival> arrivals,
                     std::span<const InboxEnqueued> answers, Transaction* transaction) const;
  storage::Database* database_;
  storage::InboxStore* store_;
  InboxOptions options_;
  Logger log_;
  Metrics metrics_;
  WorkQueue queue_;
};

}  // namespace dovetail
