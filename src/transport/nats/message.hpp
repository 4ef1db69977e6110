// Messages of NATS, to and from messages of Dovetail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dovetail/transport.hpp"
#include "transport/nats/library.hpp"

namespace dovetail::transport::nats {

struct Envelope {
  const std::string& subject;
  const std::string& reply;
  std::string_view source;  ///< Of the CloudEvent. Empty: `dovetail`.
};

/// Throws std::runtime_error only without memory.
MessagePtr outgoing_message(const Message& message, const Envelope& envelope);

/// The place of a message in its stream, which the reply subject of a delivery names.
struct StreamPlace {
  std::string stream{};
  std::uint64_t sequence = 0;
};
[[nodiscard]] std::optional<StreamPlace> place_of(const std::string& reply);

/// The message without its tag. Messages without an id get `STREAM:SEQUENCE`.
IncomingMessage incoming_message(natsMsg* message, const std::optional<StreamPlace>& place);

/// The value of the header, or nothing.
std::optional<std::string> header_of(natsMsg* message, const char* name);

}  // namespace dovetail::transport::nats
