// The answers of JetStream to a published message.
#pragma once

#include <string_view>

#include "dovetail/transport.hpp"

namespace dovetail::transport::nats {

/// The outcome that the JSON text of a PubAck means.
PublishOutcome outcome_of(std::string_view pub_ack);

}  // namespace dovetail::transport::nats
