// Opens connections to RabbitMQ.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dovetail/rabbitmq.hpp"
#include "transport/rabbitmq/library.hpp"

namespace dovetail::transport::rabbitmq {

struct StateDeleter {
  void operator()(amqp_connection_state_t state) const { amqp_destroy_connection(state); }
};
using StatePtr = std::unique_ptr<amqp_connection_state_t_, StateDeleter>;

/// The channel that every connection uses.
constexpr amqp_channel_t channel = 1;

/// Connects to the URL, logs in and opens the channel. Throws std::runtime_error without secrets
/// in its text.
StatePtr log_in(const RabbitMqOptions& options, const std::string& url);

/// Throws std::invalid_argument if no connection can be made with the options.
void require_valid(const RabbitMqOptions& options);

/// The addresses of the options without secrets, separated by commas.
std::string address_of(const RabbitMqOptions& options);

/// How long a Link waits for one attempt.
std::chrono::milliseconds patience(const RabbitMqOptions& options);

}  // namespace dovetail::transport::rabbitmq
