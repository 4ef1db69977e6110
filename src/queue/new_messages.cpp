#include "queue/new_messages.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/headers.hpp"
#include "core/require.hpp"
#include "queue/trace_headers.hpp"

namespace dovetail::queue {
namespace {

using core::require_length;
using core::require_text;
using core::require_time;

constexpr std::size_t max_topic_characters = 255;
constexpr std::size_t max_correlation_id_characters = 255;
constexpr std::size_t max_unique_key_characters = 255;
constexpr std::size_t max_stream_characters = 255;
constexpr std::size_t max_headers = 64;
constexpr int largest_max_attempts = 1'000;
constexpr std::chrono::hours longest_delay{24 * 36525};
constexpr std::size_t max_header_bytes = std::size_t{16} << 10;

void require_headers(const Headers& headers) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : headers) {
    if (name.empty()) throw std::invalid_argument("headers must not have an empty name");
    require_text("headers", name);
    require_text("headers", value);
    bytes += name.size() + value.size();
  }
  if (headers.size() > max_headers || bytes > max_header_bytes) {
    throw std::invalid_argument("headers must not exceed " + std::to_string(max_headers) +
                                " entries and " + std::to_string(max_header_bytes) +
                                " bytes together, got " + std::to_string(headers.size()) + " and " +
                                std::to_string(bytes));
  }
}

}  // namespace

void require_topic(std::string_view topic) {
  if (topic.empty()) throw std::invalid_argument("topic must not be empty");
  require_length("topic", topic, max_topic_characters);
}

void require_delay(std::chrono::milliseconds delay) {
  if (delay < std::chrono::milliseconds::zero() || delay > longest_delay) {
    throw std::out_of_range("delay must be zero to 100 years");
  }
}

void require_max_attempts(int attempts) {
  if (attempts < 1 || attempts > largest_max_attempts) {
    throw std::out_of_range("max_attempts must be 1 to " + std::to_string(largest_max_attempts) +
                            ", got " + std::to_string(attempts));
  }
}

void set_stream(storage::NewMessage& message, const std::optional<std::string>& stream) {
  if (!stream || stream->empty()) return;
  require_stream(*stream);
  message.stream = *stream;
}

void require_stream(std::string_view stream) {
  if (stream.empty()) throw std::invalid_argument("stream must not be empty");
  require_length("stream", stream, max_stream_characters);
}

storage::NewMessage checked(const MessageParts& parts, const QueueOptions& options) {
  require_topic(parts.topic);
  if (parts.payload.size() > options.max_payload_bytes) {
    throw std::invalid_argument("payload must not exceed " +
                                std::to_string(options.max_payload_bytes) + " bytes, got " +
                                std::to_string(parts.payload.size()));
  }
  require_text("payload", parts.payload);
  if (parts.due_at) require_time("due_at", *parts.due_at);
  if (parts.expires_at) require_time("expires_at", *parts.expires_at);
  if (parts.priority < storage::lowest_priority || parts.priority > storage::highest_priority) {
    throw std::out_of_range("priority must be -5 to 5, got " + std::to_string(parts.priority));
  }
  storage::NewMessage message{.id = MessageId::generate(),
                              .fresh = true,
                              .topic = parts.topic,
                              .payload = parts.payload,
                              .correlation_id = std::nullopt,
                              .due_at = parts.due_at,
                              .headers = std::nullopt,
                              .expires_at = parts.expires_at,
                              .priority = parts.priority,
                              .unique_key = std::nullopt};
  if (parts.correlation_id && !parts.correlation_id->empty()) {
    require_length("correlation_id", *parts.correlation_id, max_correlation_id_characters);
    message.correlation_id = *parts.correlation_id;
  }
  if (!parts.headers.empty()) require_headers(parts.headers);
  if (const auto traced = traced_headers(parts.topic, parts.headers, options)) {
    message.headers = core::to_json(*traced);
  } else if (!parts.headers.empty()) {
    message.headers = core::to_json(parts.headers);
  }
  return message;
}

QueueOptions limits_of(QueueOptions options) {
  options.trace_sink = nullptr;
  return options;
}

storage::NewMessage checked(const EnqueueRequest& request, const QueueOptions& options) {
  auto message =
      checked(MessageParts{request.topic, request.payload, request.correlation_id, request.due_at,
                           request.headers, request.expires_at, request.priority},
              options);
  if (request.delay) {
    if (request.due_at) throw std::invalid_argument("due_at and delay exclude each other");
    require_delay(*request.delay);
    message.delay = request.delay;
  }
  if (request.message_id) {
    if (request.message_id->is_nil())
      throw std::invalid_argument("message_id must not be the nil UUID");
    message.id = *request.message_id;
    message.fresh = false;
  }
  if (request.unique_key && !request.unique_key->empty()) {
    require_length("unique_key", *request.unique_key, max_unique_key_characters);
    message.unique_key = *request.unique_key;
  }
  set_stream(message, request.stream);
  if (std::ranges::any_of(request.joins, &JoinId::is_nil)) {
    throw std::invalid_argument("joins must not hold the nil UUID");
  }
  return message;
}

std::vector<storage::NewMessage> checked(std::span<const EnqueueRequest> requests,
                                         const QueueOptions& options) {
  std::vector<storage::NewMessage> messages;
  messages.reserve(requests.size());
  for (const auto& request : requests) messages.push_back(checked(request, options));
  return messages;
}

void count_own_as_stored(std::span<Enqueued> answers, std::span<const storage::NewMessage> messages,
                         const storage::Attempt& attempt) {
  if (!attempt.after_doubt) return;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].fresh && answers[i] == messages[i].id) answers[i] = {messages[i].id, true};
  }
}

}  // namespace dovetail::queue
