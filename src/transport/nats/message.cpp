#include "transport/nats/message.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/text.hpp"
#include "transport/cloud_events.hpp"

namespace dovetail::transport::nats {
namespace {

constexpr auto message_id_header = "Nats-Msg-Id";
constexpr std::size_t max_id_characters = 255;

/// The broker obeys headers that begin with `Nats-`. A header of the user must not be one of them.
bool is_the_brokers(std::string_view name) {
  constexpr std::string_view prefix = "nats-";
  return name.size() >= prefix.size() &&
         std::ranges::equal(name.substr(0, prefix.size()), prefix, [](char a, char b) {
           return std::tolower(static_cast<unsigned char>(a)) == b;
         });
}

/// `%4Eats-Rollup`: the consumer decodes it, and the broker does not see it.
std::string hidden(std::string_view name) {
  return (name.front() == 'N' ? "%4E" : "%6E") + std::string{name.substr(1)};
}

Headers headers_of(natsMsg* message) {
  Headers headers;
  const char** names = nullptr;
  int count = 0;
  if (natsMsgHeader_Keys(message, &names, &count) != NATS_OK) return headers;
  const std::unique_ptr<const char*, decltype(&std::free)> owned{names, &std::free};
  for (int i = 0; i < count; ++i) {
    if (auto value = header_of(message, names[i])) headers.emplace(names[i], std::move(*value));
  }
  return headers;
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto dot = text.find('.');
    parts.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    text.remove_prefix(dot + 1);
  }
}

/// Why the message cannot be stored.
std::optional<std::string> problem_of(const IncomingMessage& message) {
  if (!core::utf8_length(message.payload)) return "the payload is not UTF-8 text";
  for (const auto& [name, value] : message.headers) {
    if (!core::utf8_length(name) || !core::utf8_length(value)) {
      return "a header is not UTF-8 text";
    }
  }
  return std::nullopt;
}

bool is_usable_id(const std::string& id) {
  const auto length = core::utf8_length(id);
  return length && *length > 0 && *length <= max_id_characters;
}

}  // namespace

MessagePtr outgoing_message(const Message& message, const Envelope& envelope) {
  natsMsg* created = nullptr;
  require(natsMsg_Create(&created, envelope.subject.c_str(), envelope.reply.c_str(),
                         message.payload.data(), static_cast<int>(message.payload.size())),
          "a message");
  MessagePtr owned{created};
  require(natsMsgHeader_Set(created, message_id_header, message.id.to_string().c_str()),
          "a header");
  const auto source = envelope.source.empty() ? "dovetail" : envelope.source;
  for (const auto& [name, value] : cloud_event_headers(message, source)) {
    const auto safe = is_the_brokers(name) ? hidden(name) : name;
    require(natsMsgHeader_Set(created, safe.c_str(), value.c_str()), "a header");
  }
  return owned;
}

std::optional<StreamPlace> place_of(const std::string& reply) {
  // $JS.ACK.STREAM.CONSUMER.DELIVERIES.SEQUENCE.…, or with a domain and an account before STREAM.
  const auto parts = parts_of(reply);
  if (parts.size() < 9 || parts[0] != "$JS" || parts[1] != "ACK") return std::nullopt;
  const std::size_t stream = parts.size() >= 11 ? 4 : 2;
  StreamPlace place{.stream = std::string{parts[stream]}};
  const auto digits = parts[stream + 3];
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), place.sequence);
  if (parsed.ec != std::errc{}) return std::nullopt;
  return place;
}

std::optional<std::string> header_of(natsMsg* message, const char* name) {
  const char* value = nullptr;
  if (natsMsgHeader_Get(message, name, &value) != NATS_OK || value == nullptr) return std::nullopt;
  return value;
}

IncomingMessage incoming_message(natsMsg* message, const std::optional<StreamPlace>& place) {
  IncomingMessage incoming;
  incoming.payload.assign(natsMsg_GetData(message),
                          static_cast<std::size_t>(natsMsg_GetDataLength(message)));
  auto headers = headers_of(message);
  const auto own_id = headers.extract(message_id_header);
  std::erase_if(headers, [](const auto& header) { return is_the_brokers(header.first); });
  const bool is_event = read_cloud_event(headers, incoming);
  if (is_event && incoming.topic.empty() && !incoming.problem) {
    incoming.problem = "the CloudEvent has no type";
  }
  if (incoming.id.empty() && own_id) incoming.id = own_id.mapped();
  if (!incoming.id.empty() && !is_usable_id(incoming.id)) {
    incoming.problem = "the id must have 1 to 255 characters";
    incoming.id.clear();
  }
  if (incoming.id.empty() && place) {
    incoming.id = place->stream + ":" + std::to_string(place->sequence);
  }
  if (!incoming.problem) incoming.problem = problem_of(incoming);
  return incoming;
}

}  // namespace dovetail::transport::nats
