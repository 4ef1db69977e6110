#include "transport/incoming.hpp"

#include <cstdint>
#include <string_view>
#include <utility>

#include "core/text.hpp"

namespace dovetail::transport {
namespace {

constexpr std::string_view reserved_headers = "dovetail-";
constexpr std::string_view unreadable_topic = "unreadable";
constexpr std::size_t most_id_bytes = 255;  // as many characters at most
constexpr std::size_t most_reason_bytes = 2048;
/// What a dead letter keeps of the headers.
constexpr std::size_t most_headers_kept = 32;
constexpr std::size_t most_header_bytes_kept = std::size_t{8} << 10;

std::string storable(std::string_view text, std::size_t limit) {
  return std::string{core::trimmed(core::printable(text), limit)};
}

/// FNV-1a.
std::uint64_t hash_of(std::string_view text, std::uint64_t hash) {
  for (const char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 1099511628211ULL;
  return hash;
}

/// Of a message without an id that the inbox can store. A repeated delivery has the same.
std::string id_from_content(const IncomingMessage& message) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string id = "content-";
  for (const std::uint64_t seed : {14695981039346656037ULL, 1099511628211ULL}) {
    auto hash = hash_of(message.payload, hash_of(message.topic, hash_of(message.id, seed)));
    for (int i = 0; i < 16; ++i, hash >>= 4U) id += digits[hash & 0xFU];
  }
  return id;
}

Headers storable_headers(const Headers& headers) {
  Headers kept;
  std::size_t bytes = 0;
  for (const auto& [name, value] : headers) {
    auto storable_name = core::printable(name);
    auto storable_value = core::printable(value);
    bytes += storable_name.size() + storable_value.size();
    if (kept.size() == most_headers_kept || bytes > most_header_bytes_kept) break;
    if (!storable_name.empty()) kept.insert_or_assign(storable_name, storable_value);
  }
  return kept;
}

/// The rest of a message that cannot be stored as it is.
InboxRequest storable_request(const Inbox& inbox, const ConsumeOptions& options,
                              const IncomingMessage& message) {
  const auto length = core::utf8_length(message.id);
  const bool has_id = length && *length >= 1 && *length <= most_id_bytes;
  InboxRequest request{
      .topic = storable(message.topic, most_id_bytes),
      .source = options.source,
      .message_id = has_id ? message.id : id_from_content(message),
      .payload = storable(message.payload, inbox.options().queue.max_payload_bytes),
      .headers = storable_headers(message.headers)};
  if (message.correlation_id) request.correlation_id = storable(*message.correlation_id, 64);
  if (request.topic.empty()) request.topic = options.topic.value_or(std::string{unreadable_topic});
  return request;
}

std::optional<std::string> problem_of(const IncomingMessage& message) {
  if (message.problem) return message.problem;
  if (message.topic.empty()) return "the message has no topic";
  if (message.id.empty()) return "the message has no id";
  return std::nullopt;
}

}  // namespace

inbox::Arrival arrival_of(const Inbox& inbox, const ConsumeOptions& options,
                          IncomingMessage message) {
  std::erase_if(message.headers, [](const auto& header) {
    return std::string_view{header.first}.starts_with(reserved_headers);
  });
  if (message.topic.empty() && options.topic) message.topic = *options.topic;
  inbox::Arrival arrival{.problem = problem_of(message)};
  if (!arrival.problem) {
    arrival.request = {.topic = message.topic,
                       .source = options.source,
                       .message_id = message.id,
                       .payload = message.payload,
                       .correlation_id = message.correlation_id,
                       .headers = message.headers,
                       .stream = message.stream};
    arrival.problem = InboxAccess::refusal(inbox, arrival.request);
  }
  if (!arrival.problem) return arrival;
  arrival.problem = storable(*arrival.problem, most_reason_bytes);
  arrival.request = storable_request(inbox, options, message);
  return arrival;
}

}  // namespace dovetail::transport
