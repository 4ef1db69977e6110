// Messages of Dovetail as messages of AMQP 1.0, by the AMQP binding of CloudEvents.
#pragma once

#include <proton/message.hpp>
#include <string_view>

#include "dovetail/transport.hpp"

namespace dovetail::transport::amqp {

/// The payload is the body, as binary data. The attributes of CloudEvents and the headers of the
/// message are application properties; a header `content-type` is the content type.
[[nodiscard]] proton::message to_amqp(const Message& message, std::string_view source);

/// Also reads messages that are no CloudEvents: the id is then the `message-id`, the topic is the
/// `subject`, and the stream is the `group-id`.
[[nodiscard]] IncomingMessage from_amqp(const proton::message& message);

}  // namespace dovetail::transport::amqp
