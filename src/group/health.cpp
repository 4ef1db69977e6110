#include "group/health.hpp"

#include <algorithm>
#include <iterator>

#include "runtime/health_grades.hpp"

namespace dovetail::group {
namespace {

using Scope = observe::HealthSource::Scope;

constexpr std::size_t most_failing = 100;  // that have a check of their own

/// A group works on the other databases while one fails.
HealthCheck check_of_databases(std::size_t total, std::size_t failing,
                               const HealthOptions& options) {
  HealthCheck check{.name = "databases", .tags = {"group", "database"}};
  check.data = {{"databases", std::to_string(total)}, {"failing", std::to_string(failing)}};
  if (failing == 0) return check;
  // Rounded up, so that one of a thousand is more than none.
  const auto percent = static_cast<std::int64_t>((failing * 100 + total - 1) / total);
  check.status = runtime::grade(failing < total ? std::min<std::int64_t>(percent, 99) : 100,
                                options.failing_databases_percent);
  check.description = std::to_string(failing) + " of " + std::to_string(total) + " databases fail";
  return check;
}

HealthCheck check_of_discovery(const GroupStatus& status) {
  HealthCheck check{.name = "discovery", .tags = {"group"}};
  if (status.discovery_failures > 0) {
    check.status = HealthStatus::degraded;
    check.description = "the discovery fails: " + status.discovery_error;
  } else if (!status.bad_entries.empty()) {
    check.status = HealthStatus::degraded;
    check.description = "bad entry: " + status.bad_entries.front();
  }
  check.data = {{"failures", std::to_string(status.discovery_failures)},
                {"bad_entries", std::to_string(status.bad_entries.size())}};
  return check;
}

}  // namespace

std::vector<HealthCheck> checks_of(const GroupStatus& status, const HealthOptions& options,
                                   Scope scope) {
  std::vector<HealthCheck> failing;
  std::size_t total = 0;
  std::size_t fails = 0;
  for (const auto& database : status.databases) {
    if (database.state == GroupDatabaseState::leaving) continue;
    ++total;
    if (database.failures == 0) continue;
    if (++fails > most_failing) continue;
    failing.push_back({.name = "database." + database.key,
                       .status = HealthStatus::degraded,
                       .description = database.last_error,
                       .data = {{"failures", std::to_string(database.failures)}},
                       .tags = {"group", "database"}});
  }
  std::vector<HealthCheck> checks{check_of_databases(total, fails, options)};
  // A part of the databases fails: the process can do its work.
  if (scope == Scope::ready && checks.front().status == HealthStatus::degraded) {
    checks.front().status = HealthStatus::healthy;
  }
  if (scope == Scope::ready) return checks;
  checks.push_back(check_of_discovery(status));
  std::ranges::move(failing, std::back_inserter(checks));
  return checks;
}

std::vector<HealthCheck> GroupHealth::quick(Scope scope) {
  std::vector<HealthCheck> checks{runtime::check_started(parts_.state)};
  std::ranges::move(parts_.supervisor.loops(), std::back_inserter(checks));
  std::ranges::move(checks_of(parts_.status(), parts_.options, scope), std::back_inserter(checks));
  return checks;
}

}  // namespace dovetail::group
