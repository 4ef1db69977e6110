#include "transport/amqp/mapping.hpp"

#include <map>
#include <proton/binary.hpp>
#include <proton/codec/map.hpp>
#include <proton/map.hpp>
#include <proton/message_id.hpp>
#include <proton/scalar.hpp>
#include <proton/symbol.hpp>
#include <proton/timestamp.hpp>
#include <proton/uuid.hpp>
#include <proton/value.hpp>
#include <sstream>
#include <string>

#include "transport/cloud_events.hpp"

namespace dovetail::transport::amqp {
namespace {

constexpr const char* content_type_header = "content-type";
/// The binding allows both prefixes. The second is for clients whose names have no colons.
const HeaderRules with_colon{.prefix = "cloudEvents:", .percent_encode = false};
const HeaderRules with_underscore{.prefix = "cloudEvents_", .percent_encode = false};

proton::timestamp timestamp_of(WallTime time) {
  return proton::timestamp(
      std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count());
}

std::string text_of(const proton::scalar_base& value) {
  if (value.empty()) return {};
  if (value.type() == proton::BOOLEAN) return proton::internal::get<bool>(value) ? "true" : "false";
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string text_of(const proton::binary& bytes) {
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const proton::message_id& id) {
  if (id.type() == proton::STRING) return proton::get<std::string>(id);
  if (id.type() == proton::BINARY) return text_of(proton::get<proton::binary>(id));
  return text_of(static_cast<const proton::scalar_base&>(id));
}

Headers properties_of(const proton::message& message) {
  Headers headers;
  if (message.properties().empty()) return headers;
  using Properties = std::map<std::string, proton::scalar>;
  for (const auto& [name, value] : proton::get<Properties>(message.properties().value())) {
    headers.emplace(
        name, value.type() == proton::STRING ? proton::get<std::string>(value) : text_of(value));
  }
  return headers;
}

void read_body(const proton::value& body, IncomingMessage& message) {
  if (body.empty()) return;
  switch (body.type()) {
    case proton::BINARY:
      message.payload = text_of(proton::get<proton::binary>(body));
      return;
    case proton::STRING:
      message.payload = proton::get<std::string>(body);
      return;
    case proton::SYMBOL:
      message.payload = proton::get<proton::symbol>(body);
      return;
    default:
      message.problem = "the body is neither data nor text";
  }
}

/// What a message has in its own properties, if no CloudEvent says it.
void read_properties(const proton::message& given, IncomingMessage& message) {
  const auto fill = [](std::optional<std::string>& target, std::string text) {
    if (!target && !text.empty()) target = std::move(text);
  };
  if (message.id.empty()) message.id = text_of(given.id());
  if (message.topic.empty()) message.topic = given.subject();
  fill(message.correlation_id, text_of(given.correlation_id()));
  fill(message.stream, given.group_id());
  if (const auto type = given.content_type(); !type.empty())
    message.headers.insert_or_assign(content_type_header, type);
}

}  // namespace

proton::message to_amqp(const Message& message, std::string_view source) {
  proton::message result;
  result.id(message.id.to_string());
  result.subject(message.topic);
  result.creation_time(timestamp_of(message.created_at));
  if (message.correlation_id) result.correlation_id(*message.correlation_id);
  if (message.stream) result.group_id(*message.stream);
  if (message.expires_at) result.expiry_time(timestamp_of(*message.expires_at));
  result.durable(true);
  for (const auto& [name, value] : cloud_event_headers(message, source, with_colon)) {
    if (name == content_type_header) {
      result.content_type(value);
    } else {
      result.properties().put(name, value);
    }
  }
  result.body(proton::binary(message.payload.begin(), message.payload.end()));
  result.inferred(true);  // a section of data, not a value
  return result;
}

IncomingMessage from_amqp(const proton::message& given) {
  IncomingMessage message;
  try {
    const auto headers = properties_of(given);
    if (!read_cloud_event(headers, message, with_colon)) {
      message = {};
      read_cloud_event(headers, message, with_underscore);
    }
    read_body(given.body(), message);
    read_properties(given, message);
  } catch (const std::exception& error) {  // such as a property that is a list
    message.problem = std::string{"the message cannot be read: "} + error.what();
  }
  return message;
}

}  // namespace dovetail::transport::amqp
