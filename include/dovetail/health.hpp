// The health of a Platform or of a PlatformGroup, for people, load balancers and orchestrators.
//
//   const auto report = platform.health().all();
//   for (const auto& check : report.checks) {
//     if (check.status != HealthStatus::healthy) page(check.name, check.description);
//   }
//   platform.health().add("payments", {"upstream"}, [&] { return ping(payments); });
//
// Three questions
//   * live(): does this process still run? A supervisor thread moves. Reads no database, and is
//     healthy while the process drains: an orchestrator restarts a process that is not live.
//   * ready(): can this process do its work? It was started, it is not stopping, the database
//     answers, the schema is the right one, and each background loop makes progress.
//   * all(): everything, also what needs attention soon. docs/observability.md lists the checks,
//     their tags and their thresholds (HealthOptions).
//
// Guarantees
//   * A check changes nothing, and reads a bounded number of rows.
//   * ready() and all() return within HealthOptions::time_limit, and a little more. A check that
//   has
//     not ended by then is unhealthy. Its query is cancelled. A check is not started again while it
//     hangs: checks use one connection, and one thread for each check that hangs.
//   * ready() and all() make one computation at a time each; callers at the same time share its
//     report. A report is kept for HealthOptions::cache, unless the Platform is started or stopped.
//   * Descriptions contain neither payloads nor secrets of a URL.
//   * Dead letters alone never make a report worse.
//
// A Platform that was never started has no loops, and reports the database alone. If it has
// handlers, it is not ready. A check for which the role lacks the right to read a table is left
// out.
//
// Threads: from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail {

namespace observe {
class HealthSource;
}  // namespace observe
class Clock;

/// Ordered: a greater value is worse.
enum class HealthStatus : std::uint8_t {
  healthy,
  degraded,   ///< It works, and something needs attention.
  unhealthy,  ///< It does not work.
};

[[nodiscard]] std::string_view to_string(HealthStatus status);

/// The answer of a check.
struct HealthResult {
  HealthStatus status = HealthStatus::healthy;
  std::string description{};  ///< For people. Often empty if healthy.
  /// Figures for programs. Names and units do not change between versions.
  std::map<std::string, std::string> data{};
};

/// A check that ran.
struct HealthCheck {
  std::string name{};
  HealthStatus status = HealthStatus::healthy;
  std::chrono::microseconds duration{};
  std::string description{};
  std::map<std::string, std::string> data{};
  std::vector<std::string> tags{};
};

struct HealthReport {
  HealthStatus status = HealthStatus::healthy;  ///< The worst status of the checks.
  std::vector<HealthCheck> checks{};            ///< All that ran, also the healthy ones.
  std::chrono::microseconds total_duration{};   ///< Of the computation.
};

/// The checks that have one of these tags, or all without tags, and their worst status.
[[nodiscard]] HealthReport with_tags(const HealthReport& report,
                                     const std::vector<std::string>& tags);

/// A check of a user. May take up to HealthOptions::time_limit. An exception makes it unhealthy,
/// with the message of the exception.
using HealthFunction = std::function<HealthResult()>;

/// A check is degraded above the first value, and unhealthy above the second.
struct HealthCounts {
  static constexpr std::int64_t never = INT64_MAX;
  std::int64_t degraded = never;
  std::int64_t unhealthy = never;
};
struct HealthTimes {
  std::chrono::milliseconds degraded{};
  std::chrono::milliseconds unhealthy{};
};

struct HealthOptions {
  std::chrono::milliseconds cache{5'000};       ///< How long a report is reused: 0 to 1 h.
  std::chrono::milliseconds time_limit{2'000};  ///< Of a report: 10 ms to 1 min.

  /// How long the oldest message of a queue has been due, without paused topics.
  HealthTimes oldest_due{std::chrono::minutes{10}, std::chrono::hours{1}};
  /// Messages of a queue that are due and wait for a worker, without paused topics.
  HealthCounts ready_messages{10'000, 50'000};
  /// Timers that are late by more than `timer_lateness`.
  HealthCounts late_timers{10, 100};
  std::chrono::milliseconds timer_lateness{std::chrono::minutes{5}};
  HealthCounts stuck_inbox_messages{0, 100};
  /// Renewals of this process that have failed in a row.
  HealthCounts lease_renewal_failures{0, 3};
  HealthCounts unhandled_topics{0, HealthCounts::never};
  HealthCounts silent_instances{0, HealthCounts::never};
  HealthCounts blocked_streams{0, HealthCounts::never};
  /// Subscriptions that are stopped, have parked events, or are too far behind.
  HealthCounts failing_subscriptions{0, HealthCounts::never};
  /// Failures in a row of a background service.
  HealthCounts service_failures{0, HealthCounts::never};
  /// The share of the databases of a group that fail, in percent.
  HealthCounts failing_databases_percent{0, 99};
};

class HealthService {
 public:
  HealthService(std::unique_ptr<observe::HealthSource> source, const HealthOptions& options,
                std::shared_ptr<Clock> clock);
  HealthService(const HealthService&) = delete;
  HealthService& operator=(const HealthService&) = delete;
  /// Waits for reads of the database, which it cancels. Does not wait for a check of a user that
  /// hangs: its thread ends when the function returns.
  ~HealthService();

  /// Adds a check to all(). `function` is called from a thread of its own, from one at a time.
  /// Throws std::invalid_argument for an empty name or function, and InvalidOperation for a name
  /// that was added before.
  void add(std::string name, std::vector<std::string> tags, HealthFunction function);

  [[nodiscard]] HealthReport live();
  [[nodiscard]] HealthReport ready();
  [[nodiscard]] HealthReport all();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail
