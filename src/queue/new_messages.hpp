// The rules that a new message must meet, in every queue.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "dovetail/outbox.hpp"
#include "dovetail/transaction.hpp"
#include "storage/queue_store.hpp"
#include "storage/write_body.hpp"

namespace dovetail::queue {

/// Throws std::invalid_argument, with the limit in the text.
void require_topic(std::string_view topic);

/// Throws std::invalid_argument, with the limit in the text.
void require_stream(std::string_view stream);

/// Throws std::out_of_range.
void require_delay(std::chrono::milliseconds delay);

/// Throws std::out_of_range.
void require_max_attempts(int attempts);

/// The parts of a message that every queue has.
struct MessageParts {
  std::string_view topic;
  std::string_view payload;
  const std::optional<std::string>& correlation_id;
  std::optional<WallTime> due_at;
  const Headers& headers;
  std::optional<WallTime> expires_at;
  int priority = 0;
};

/// Checks every limit. The message has a new id and points into `parts`.
storage::NewMessage checked(const MessageParts& parts, const QueueOptions& options);

/// The options for a check of a message that is not enqueued: without spans.
QueueOptions limits_of(QueueOptions options);

/// Checks and sets the stream. An empty text means no stream. The message points to the text.
void set_stream(storage::NewMessage& message, const std::optional<std::string>& stream);

/// Checks every limit. The message points into `request`.
storage::NewMessage checked(const EnqueueRequest& request, const QueueOptions& options);
std::vector<storage::NewMessage> checked(std::span<const EnqueueRequest> requests,
                                         const QueueOptions& options);

/// After a run in doubt, messages with fresh ids may exist. They count as stored: that run of this
/// call has stored them.
void count_own_as_stored(std::span<Enqueued> answers, std::span<const storage::NewMessage> messages,
                         const storage::Attempt& attempt);

}  // namespace dovetail::queue
