// Looks up the host names of a connection string before libpq does. The look-up of libpq has no
// time limit, and reports a failure only as text.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>

namespace dovetail::postgres {

class ConnectionSettings;

struct LookupFailure {
  std::string reason;
  bool name_is_unknown = false;  // the name service answered that there is no such name
};

/// Returns nothing when libpq can go on: at least one host has an address, or no name has to be
/// looked up. Also returns nothing when `stop` was requested.
[[nodiscard]] std::optional<LookupFailure> look_up_hosts(
    const ConnectionSettings& settings, std::chrono::steady_clock::time_point give_up_at,
    const std::stop_token& stop);

}  // namespace dovetail::postgres
