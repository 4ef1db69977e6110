// The transactional outbox: messages that are stored with your own rows and handled later.
//
// Most services need two calls of it: enqueue() here, and Platform::on() for the handlers
// (platform.hpp), which claim, ack and retry by themselves. How a message lives on, workers of your
// own, and operating it: queue.hpp.
//
// Guarantees
//   * A message enqueued through a Transaction exists exactly if that transaction commits. One
//   enqueued
//     without is durable when the call returns.
//   * Bad arguments are refused before any I/O, with the limit in the text.
//
// Threads: an Outbox may be shared between threads.
#pragma once

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

// The names that the specification uses for the types of every queue.
using OutboxMessage = Message;
using OutboxMessageId = MessageId;
using OutboxWorkItemId = MessageId;
using OutboxStatus = MessageStatus;
using OutboxOptions = QueueOptions;
using OutboxCounts = QueueCounts;

/// What to enqueue. Texts are UTF-8 without NUL.
struct EnqueueRequest {
  std::string topic{};    ///< 1 to 255 characters, case-sensitive.
  std::string payload{};  ///< Any text, also empty; up to QueueOptions::max_payload_bytes.
  std::optional<WallTime> due_at{};  ///< Not claimed before; absent or past means at once.
  /// Instead of due_at: so much later than now, by the database's clock. Zero to 100 years.
  std::optional<std::chrono::milliseconds> delay{};
  std::optional<std::string> correlation_id{};  ///< Up to 255 characters; empty means none.
  /// Your own id makes a repeated enqueue harmless: the second one stores nothing, for as long as
  /// the first is kept.
  std::optional<MessageId> message_id{};
  Headers headers{};  ///< Up to 64 of them, 16 KiB together.
  std::optional<WallTime>
      expires_at{};  ///< From then on it is failed as expired instead of delivered.
  int priority = 0;  ///< -5 to 5; higher ones are claimed first.
  /// While a message with the same key waits or is in progress, a second one is not stored:
  /// enqueue() answers the first one's id. Up to 255 characters, one space of keys for all topics;
  /// empty means none.
  std::optional<std::string> unique_key{};
  /// The message becomes a step of these joins (join.hpp), in the same transaction.
  /// InvalidOperation when one of them does not exist.
  std::vector<JoinId> joins{};
};

/// What enqueue() answers: the id of the message, and whether this call stored it.
class Enqueued : public MessageId {
 public:
  Enqueued() = default;
  Enqueued(MessageId id, bool stored) : MessageId(id), stored_(stored) {}

  /// False when a message with this message_id, or a live one with this unique_key, was there
  /// already.
  [[nodiscard]] bool stored() const { return stored_; }

 private:
  bool stored_ = true;
};

class Outbox : public WorkQueue {
 public:
  Outbox(storage::Database& database, QueueOptions options, Logger log, Metrics metrics);

  /// Stores a message in a transaction of its own; durable on return.
  ///
  /// Safe to repeat with the same `message_id` after an Error that is_in_doubt().
  Enqueued enqueue(const EnqueueRequest& request);

  /// Stores a message in your transaction.
  Enqueued enqueue(Transaction& transaction, const EnqueueRequest& request);

  /// Stores many at once over the engine's bulk path, all or none; answers in the order of the
  /// requests.
  std::vector<Enqueued> enqueue_many(std::span<const EnqueueRequest> requests);
  std::vector<Enqueued> enqueue_many(Transaction& transaction,
                                     std::span<const EnqueueRequest> requests);

 private:
  friend class Joins;
  void note_enqueued(const storage::NewMessage& message, bool stored) const;
  void note_enqueued_many(std::span<const EnqueueRequest> requests,
                          std::span<const Enqueued> answers) const;

  storage::QueueProducer* producer_;
};

}  // namespace dovetail
