// Where the broker is and how to log in: the checked options of a connection.
#pragma once

#include <proton/connection_options.hpp>
#include <string>

#include "dovetail/amqp.hpp"

namespace dovetail::transport::amqp {

/// The parts of a URL, decoded.
struct BrokerUrl {
  bool has_tls = false;
  std::string host{};
  std::string port{};
  std::string user{};
  std::string password{};

  /// As the library takes it, without the user.
  [[nodiscard]] std::string address() const;
  /// With our own scheme, without the user.
  [[nodiscard]] std::string shown() const;
};

/// Throws std::invalid_argument without secrets in its text.
[[nodiscard]] BrokerUrl parse_broker_url(const std::string& url);

/// Throws std::invalid_argument or std::out_of_range if no connection can be made with them.
void require_valid(const AmqpOptions& options);

/// Reads the file of the password. Throws std::runtime_error if it cannot be read.
[[nodiscard]] proton::connection_options connection_options(const AmqpOptions& options);

}  // namespace dovetail::transport::amqp
