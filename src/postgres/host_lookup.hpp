// Looks up the host names of a connection string before libpq does. The look-up of libpq has no
// time limit, and reports a failure only as text.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace dovetail::postgres {

class ConnectionSettings;

struct LookupFailure {
  std::string reason;
  bool name_is_unknown = false;  // the name service answered that there is no such name
};

/// The addresses of a name, in the order in which to try them.
struct Addresses {
  int error = 0;  // a code of getaddrinfo(); 0: success
  std::vector<std::string> addresses{};
};
/// Asks the name service of the system.
[[nodiscard]] Addresses resolve_host(const std::string& host);

struct HostLookup {
  /// Empty when libpq can go on: at least one host has an address, or no name has to be looked up.
  /// Also empty when `stop` was requested.
  std::optional<LookupFailure> failure{};
  /// If there is only one host, and it is a name: its addresses.
  std::vector<std::string> addresses{};
};

[[nodiscard]] HostLookup look_up_hosts(
    const ConnectionSettings& settings, std::chrono::steady_clock::time_point give_up_at,
    const std::stop_token& stop,
    const std::function<Addresses(const std::string& host)>& resolve = resolve_host);

}  // namespace dovetail::postgres
