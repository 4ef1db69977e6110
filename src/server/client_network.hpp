// The network of a client, for limits per client.
#pragma once

#include <string>

namespace dovetail::server {

/// An IPv4 address as it is. Of an IPv6 address the first 64 bits: one client usually has all
/// addresses of such a network, and could use a new one for each request. An IPv4 address in the
/// form of an IPv6 address is an IPv4 address. A text that is no address is returned as it is.
[[nodiscard]] std::string client_network(const std::string& address);

}  // namespace dovetail::server
