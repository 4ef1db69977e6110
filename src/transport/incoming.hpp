// A message of a broker on its way into the inbox.
#pragma once

#include "dovetail/transport.hpp"
#include "inbox/access.hpp"

namespace dovetail::transport {

/// The message as the inbox stores it. A message that the inbox cannot store, or without a topic or
/// an id, becomes a dead letter that keeps as much of the message as can be stored.
[[nodiscard]] inbox::Arrival arrival_of(const Inbox& inbox, const ConsumeOptions& options,
                                        IncomingMessage message);

}  // namespace dovetail::transport
