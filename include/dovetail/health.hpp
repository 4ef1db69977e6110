// The health of a database and of the services that work on it.
//
//   const auto report = platform.health();
//   if (report.status != HealthStatus::healthy) page(report.findings.front().message);
//
// Checks and their names:
//   * `database`: the database answers. If it does not, the other checks are left out.
//   * `clock`: the database's clock was not set back; see docs/operations.md.
//   * `topics`: no topic has due messages that no live instance handles; see instance.hpp.
//   * `streams`: no stream is blocked; see stream.hpp.
//   * `subscriptions`: no subscription is stopped, has parked events, or is too far behind; see
//     subscription.hpp.
//   * `service.NAME`: the background service NAME of this started Platform succeeds.
// A check for which the role lacks the right to read a table is left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail {

/// Ordered: a greater value is worse.
enum class HealthStatus : std::uint8_t {
  healthy,
  degraded,   ///< It works, and something needs attention.
  unhealthy,  ///< It does not work.
};

[[nodiscard]] std::string_view to_string(HealthStatus status);

/// A check that found something.
struct HealthFinding {
  std::string name{};  ///< Of the check.
  HealthStatus status = HealthStatus::healthy;
  std::string message{};  ///< For people. It contains no payloads.
};

struct HealthReport {
  HealthStatus status = HealthStatus::healthy;  ///< The worst of the findings.
  std::vector<HealthFinding> findings{};        ///< Empty when healthy.
};

}  // namespace dovetail
