// The options of a connection, as libnats takes them.
#pragma once

#include <string>

#include "dovetail/nats.hpp"
#include "transport/nats/library.hpp"
#include "transport/nats/mailbox.hpp"

namespace dovetail::transport::nats {

/// Reads the files of secrets. Throws std::runtime_error if one cannot be read.
OptionsPtr connection_options(const NatsOptions& options, const std::string& url, Mailbox& mailbox);

/// The address of a URL without secrets.
std::string address_of(const std::string& url);

}  // namespace dovetail::transport::nats
