#include "transport/rabbitmq/message.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "transport/cloud_events.hpp"

namespace dovetail::transport::rabbitmq {
namespace {

constexpr std::size_t most_name_bytes = 255;
constexpr std::size_t most_id_characters = 255;
constexpr std::uint8_t persistent = 2;

/// The names of AMQP 1.0, which RabbitMQ passes on as they are.
const HeaderRules rules{.prefix = "cloudEvents_", .percent_encode = false};
const HeaderRules other_rules{.prefix = "cloudEvents:", .percent_encode = false};

/// The broker sends a message to the queues that these headers name. Headers of the user must not
/// do that.
constexpr std::string_view hiding = "dovetail-header-";

bool is_the_brokers(std::string_view name) {
  return name == "CC" || name == "BCC" || name.starts_with(hiding);
}

/// Undoes what OutgoingProperties does to the names of headers.
Headers revealed(const Headers& headers) {
  Headers all;
  for (const auto& [name, value] : headers) {
    all.insert_or_assign(name.starts_with(hiding) ? name.substr(hiding.size()) : name, value);
  }
  return all;
}

std::optional<std::string> problem_of(const IncomingMessage& message) {
  if (message.id.empty()) return "the message has no message-id";
  const auto length = core::utf8_length(message.id);
  if (!length || *length > most_id_characters) return "the id must have 1 to 255 characters";
  if (!core::utf8_length(message.payload)) return "the payload is not UTF-8 text";
  for (const auto& [name, value] : message.headers) {
    if (!core::utf8_length(name) || !core::utf8_length(value)) return "a header is not UTF-8 text";
  }
  return std::nullopt;
}

}  // namespace

OutgoingProperties::OutgoingProperties(const Message& message, std::string_view source)
    : id_(message.id.to_string()) {
  const auto from = source.empty() ? "dovetail" : source;
  for (auto& [name, value] : cloud_event_headers(message, from, rules)) {
    headers_.emplace(is_the_brokers(name) ? std::string{hiding} + name : name, std::move(value));
  }
  for (const auto& [name, value] : headers_) {
    amqp_table_entry_t entry{};
    entry.key = bytes_of(name);
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = bytes_of(value);
    entries_.push_back(entry);
  }
  properties_._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                       AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_HEADERS_FLAG;
  properties_.delivery_mode = persistent;
  properties_.message_id = bytes_of(id_);
  properties_.timestamp = static_cast<std::uint64_t>(
      std::chrono::floor<std::chrono::seconds>(message.created_at).time_since_epoch().count());
  properties_.headers = {.num_entries = static_cast<int>(entries_.size()),
                         .entries = entries_.data()};
  if (message.correlation_id && message.correlation_id->size() <= most_name_bytes) {
    properties_._flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
    properties_.correlation_id = bytes_of(*message.correlation_id);
  }
}

std::optional<std::string> OutgoingProperties::problem() const {
  const auto too_long = std::ranges::find_if(
      headers_, [](const auto& header) { return header.first.size() > most_name_bytes; });
  if (too_long == headers_.end()) return std::nullopt;
  return "the name of a header must not exceed 255 bytes: " + too_long->first.substr(0, 60) + "…";
}

IncomingMessage incoming_message(Content content) {
  IncomingMessage incoming;
  incoming.payload = std::move(content.body);
  const auto headers = revealed(content.headers);
  const bool is_event =
      read_cloud_event(headers, incoming, rules) ||
      (incoming.headers.clear(), read_cloud_event(headers, incoming, other_rules));
  if (is_event && incoming.topic.empty() && !incoming.problem) {
    incoming.problem = "the CloudEvent has no type";
  }
  if (incoming.id.empty()) incoming.id = std::move(content.message_id);
  if (!incoming.correlation_id && !content.correlation_id.empty()) {
    incoming.correlation_id = std::move(content.correlation_id);
  }
  if (!incoming.problem) incoming.problem = problem_of(incoming);
  return incoming;
}

}  // namespace dovetail::transport::rabbitmq
