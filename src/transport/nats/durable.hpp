// The durable consumer in the broker.
#pragma once

#include "transport/nats/connection.hpp"

namespace dovetail::transport::nats {

/// Creates the durable consumer if it is missing, and returns its ack_wait. Throws
/// std::runtime_error with the broker's words, or if the consumer is of another kind.
std::chrono::milliseconds ensure_durable(Connection& connection, const NatsConsumerOptions& options,
                                         const TransportCall& call);

}  // namespace dovetail::transport::nats
