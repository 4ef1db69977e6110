#include "event/rules.hpp"

#include <set>
#include <stdexcept>

#include "core/require.hpp"
#include "core/text.hpp"
#include "queue/new_messages.hpp"

namespace dovetail::event {
namespace {

constexpr std::size_t max_word_characters = 255;
constexpr std::size_t most_events = 10'000;
constexpr std::size_t largest_data_limit = std::size_t{64} << 20;
constexpr int largest_scan = 1'000'000;

void require_word(const char* what, std::string_view text) {
  if (text.empty()) throw std::invalid_argument(std::string{what} + " must not be empty");
  core::require_length(what, text, max_word_characters);
}

/// An empty text means none.
std::optional<std::string_view> optional_word(const char* what,
                                              const std::optional<std::string>& text) {
  if (!text || text->empty()) return std::nullopt;
  core::require_length(what, *text, max_word_characters);
  return *text;
}

void require_data(const char* what, std::string_view text, const EventOptions& options) {
  if (text.size() > options.max_data_bytes) {
    throw std::invalid_argument(std::string{what} + " must not exceed " +
                                std::to_string(options.max_data_bytes) + " bytes, got " +
                                std::to_string(text.size()));
  }
  core::require_text(what, text);
}

storage::StoredEvent checked(const NewEvent& event, const EventOptions& options) {
  require_word("type", event.type);
  require_data("data", event.data, options);
  if (event.metadata) require_data("metadata", *event.metadata, options);
  return {.id = event.id ? event.id->uuid() : EventId::generate().uuid(),
          .type = event.type,
          .data = event.data,
          .metadata = core::view_of(event.metadata),
          .correlation_id = optional_word("correlation_id", event.correlation_id),
          .causation_id = optional_word("causation_id", event.causation_id)};
}

}  // namespace

void require_stream_key(std::string_view stream) {
  require_word("stream", stream);
}

void require_snapshot_name(std::string_view name) {
  require_word("name", name);
}

storage::EventAppend checked(std::string_view stream, ExpectedVersion expected,
                             std::span<const NewEvent> events, const EventOptions& options) {
  require_stream_key(stream);
  if (events.empty() || events.size() > most_events) {
    throw std::invalid_argument("an append must have 1 to " + std::to_string(most_events) +
                                " events, got " + std::to_string(events.size()));
  }
  storage::EventAppend order{.stream = stream, .expected = expected};
  std::set<Uuid> ids;
  for (const auto& event : events) {
    order.events.push_back(checked(event, options));
    if (!event.id) continue;
    order.fresh = false;
    if (!ids.insert(event.id->uuid()).second)
      throw std::invalid_argument("two events have the same id");
  }
  return order;
}

std::vector<storage::EventAppend> checked(std::span<const StreamAppend> appends,
                                          const EventOptions& options) {
  std::vector<storage::EventAppend> orders;
  std::set<std::string_view> streams;
  std::set<Uuid> ids;
  for (const auto& each : appends) {
    orders.push_back(checked(each.stream, each.expected, each.events, options));
    if (!streams.insert(each.stream).second)
      throw std::invalid_argument("two appends have the same stream: " + each.stream);
    for (const auto& event : orders.back().events) {
      if (!ids.insert(event.id).second) throw std::invalid_argument("two events have the same id");
    }
  }
  return orders;
}

void require_subscription_name(std::string_view name) {
  require_word("name", name);
}

Registration checked(std::string_view name, SubscriptionOptions options,
                     SubscriptionHandler handler) {
  constexpr std::chrono::milliseconds shortest_lease{100};
  require_subscription_name(name);
  core::require_batch_size("batch_size", options.batch_size);
  queue::require_max_attempts(options.max_attempts);
  if (options.parts < 1 || options.parts > 256)
    throw std::out_of_range("parts must be 1 to 256, got " + std::to_string(options.parts));
  if (options.lease < shortest_lease || options.lease > std::chrono::hours{24})
    throw std::out_of_range("lease must be 100 ms to 24 h");
  for (const auto& type : options.types) require_word("types", type);
  for (const auto& prefix : options.prefixes) require_word("prefixes", prefix);
  if (!handler) throw std::invalid_argument("handler must not be empty");
  return {std::string{name}, std::move(options), std::move(handler)};
}

void require_event_options(const EventOptions& options) {
  if (options.max_data_bytes > largest_data_limit) {
    throw std::out_of_range("max_data_bytes must not exceed " + std::to_string(largest_data_limit));
  }
  if (options.max_lag < std::chrono::seconds{1})
    throw std::out_of_range("max_lag must be 1 s or more");
}

void require_page(const FeedPage& page) {
  core::require_batch_size("size", page.size);
  if (page.after < 0) throw std::out_of_range("after must not be negative");
  if (page.scan < 1 || page.scan > largest_scan)
    throw std::out_of_range("scan must be 1 to " + std::to_string(largest_scan));
  for (const auto& type : page.types) require_word("types", type);
  for (const auto& prefix : page.prefixes) require_word("prefixes", prefix);
}

PublishedMessages::PublishedMessages(const storage::EventAppend& order, std::int64_t version,
                                     const QueueOptions& options) {
  auto next = version - static_cast<std::int64_t>(order.events.size());
  for (const auto& event : order.events) {
    Headers headers{{"event-stream", std::string{order.stream}},
                    {"event-version", std::to_string(++next)}};
    const std::optional<std::string> no_correlation;
    auto message = queue::checked({.topic = event.type,
                                   .payload = event.data,
                                   .correlation_id = no_correlation,
                                   .due_at = std::nullopt,
                                   .headers = headers,
                                   .expires_at = std::nullopt},
                                  options);
    message.id = MessageId{event.id};
    message.fresh = order.fresh;
    message.correlation_id = event.correlation_id;
    message.stream = order.stream;
    messages_.push_back(std::move(message));
  }
}

}  // namespace dovetail::event
