// The producer's role of a queue: it stores messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/outbox.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// A checked message on its way into the store.
struct NewMessage {
  MessageId id;
  bool fresh = true;  ///< The id was generated for this run: no stored message can have it.
  /// The message and the texts that it refers to outlive the transaction.
  bool lasts = false;
  std::string_view topic;
  std::string_view payload;
  std::optional<std::string_view> correlation_id;
  std::optional<WallTime> due_at;
  std::optional<std::string> headers;  ///< As JSON.
  std::optional<WallTime> expires_at;
  int priority = 0;
  std::optional<std::string_view> unique_key;
  /// Instead of due_at: the delay from the database's current time.
  std::optional<std::chrono::milliseconds> delay{};
  std::optional<std::string_view> stream{};
};

class QueueProducer {
 public:
  virtual ~QueueProducer() = default;

  /// Stores a message unless its id or its unique key exists. Returns the id of the stored message.
  /// A stored message wakes the queue's workers when the transaction commits.
  virtual Enqueued enqueue(WriteSession& session, const NewMessage& message) = 0;

  /// Stores many messages over the engine's bulk path. With `repeated`, an earlier run of the call
  /// may have stored them, although their ids are fresh.
  virtual std::vector<Enqueued> enqueue_many(WriteSession& session,
                                             std::span<const NewMessage> messages,
                                             bool repeated) = 0;
};

}  // namespace dovetail::storage
