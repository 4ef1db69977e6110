// The transactional outbox: messages that are stored together with your own rows and handled later.
//
// Most services need two calls: enqueue() here, and Platform::on() for the handlers (platform.hpp),
// which claim, ack and retry messages. queue.hpp describes the life of a message, your own workers,
// and operation.
//
// Guarantees
//   * A message enqueued through a Transaction exists if and only if the transaction commits. A
//     message enqueued without one is durable when the call returns.
//   * Bad arguments are rejected before any I/O. The text names the limit.
//   * Threads that enqueue without a Transaction at the same time share commits. A single caller
//     stores its message at once. Messages that other threads enqueue meanwhile are stored
//     together. Each caller returns after the commit that contains its message, or with its own
//     error. A message that cannot be stored does not fail the others.
//
// Threads: an Outbox may be shared between threads.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dovetail/queue.hpp"

namespace dovetail {

namespace storage {
class Database;
class QueueProducer;
struct NewMessage;
}  // namespace storage
namespace queue {
class GroupCommit;
}  // namespace queue

// The specification's names for the types of every queue.
using OutboxMessage = Message;
using OutboxMessageId = MessageId;
using OutboxWorkItemId = MessageId;
using OutboxStatus = MessageStatus;
using OutboxOptions = QueueOptions;
using OutboxCounts = QueueCounts;

/// A message to enqueue. Texts are UTF-8 without NUL.
struct EnqueueRequest {
  std::string topic{};    ///< 1 to 255 characters, case-sensitive.
  std::string payload{};  ///< Any text, also empty; up to QueueOptions::max_payload_bytes.
  std::optional<WallTime> due_at{};  ///< Not claimed earlier. Absent or past: due at once.
  /// Replaces due_at: a delay from now, by the database's clock. Zero to 100 years.
  std::optional<std::chrono::milliseconds> delay{};
  std::optional<std::string> correlation_id{};  ///< Up to 255 characters; empty means none.
  /// With your own id, a repeated enqueue stores nothing while the first message is kept.
  std::optional<MessageId> message_id{};
  Headers headers{};  ///< At most 64, and 16 KiB in total.
  /// From this time on, the message fails as expired instead of being delivered.
  std::optional<WallTime> expires_at{};
  int priority = 0;  ///< -5 to 5; higher priorities are claimed first.
  /// While a message with the same key is ready or in progress, a second one is not stored, and
  /// enqueue() returns the id of the first. Up to 255 characters; all topics share the keys. Empty
  /// means none.
  std::optional<std::string> unique_key{};
  /// The message becomes a step of these joins (join.hpp), in the same transaction. Throws
  /// InvalidOperation when a join does not exist.
  std::vector<JoinId> joins{};
  /// Messages of one stream are handled in order, by one owner at a time (stream.hpp). 1 to 255
  /// characters, case-sensitive; empty means none.
  std::optional<std::string> stream{};
};

/// The result of enqueue(): the id of the message, and whether this call stored it.
class Enqueued : public MessageId {
 public:
  Enqueued() = default;
  Enqueued(MessageId id, bool stored) : MessageId(id), stored_(stored) {}

  /// False when a message with this message_id, or a live message with this unique_key, already
  /// existed.
  [[nodiscard]] bool stored() const { return stored_; }

 private:
  bool stored_ = true;
};

class Outbox : public WorkQueue {
 public:
  Outbox(storage::Database& database, QueueOptions options, Logger log, Metrics metrics);

  /// Stores a message in its own transaction. Durable on return.
  ///
  /// Safe to repeat with the same `message_id` after an Error that is_in_doubt().
  Enqueued enqueue(const EnqueueRequest& request);

  /// Stores a message in your transaction.
  Enqueued enqueue(Transaction& transaction, const EnqueueRequest& request);

  /// Stores many messages with the engine's bulk path, all or none. Returns the results in the
  /// order of the requests.
  std::vector<Enqueued> enqueue_many(std::span<const EnqueueRequest> requests);
  std::vector<Enqueued> enqueue_many(Transaction& transaction,
                                     std::span<const EnqueueRequest> requests);

 private:
  friend class Joins;
  /// Stores a message in its own transaction. `in_doubt`: an earlier attempt may have stored it.
  Enqueued store_alone(storage::NewMessage& message, bool in_doubt,
                       std::chrono::steady_clock::time_point since);
  // Logs and metrics, after the commit.
  struct EnqueuedBatch;
  [[nodiscard]] EnqueuedBatch batch_of(std::span<const EnqueueRequest> requests,
                                       std::span<const Enqueued> answers) const;
  void note_enqueued(std::string_view topic, MessageId id, std::string_view correlation_id,
                     bool stored) const;
  void note_enqueued_many(const EnqueuedBatch& batch) const;

  storage::QueueProducer* producer_;
  std::shared_ptr<queue::GroupCommit> group_commit_;
};

}  // namespace dovetail
