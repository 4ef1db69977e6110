#include "runtime/health.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/database_checks.hpp"
#include "runtime/health_grades.hpp"

namespace dovetail::runtime {
namespace {

/// Failures in a row after which a service that the work needs is not ready.
constexpr int too_many_failures = 5;

std::string failures_text(const component::ServiceHealth& health) {
  return "failed " + std::to_string(health.failures) + " times in a row: " + health.last_error;
}

std::vector<HealthCheck> service_checks(const std::vector<NamedHealth>& services,
                                        const HealthOptions& options) {
  std::vector<HealthCheck> checks;
  const NamedHealth* worst = nullptr;
  for (const auto& service : services) {
    auto result = counted("failures", service.health.failures, options.service_failures,
                          failures_text(service.health));
    checks.push_back(as_check("service." + service.name, {"runtime"}, std::move(result)));
    if (!service.renewals) continue;
    if (worst == nullptr || worst->renewals->failures < service.renewals->failures) {
      worst = &service;
    }
  }
  if (worst == nullptr) return checks;
  auto renewals = counted("failures", worst->renewals->failures, options.lease_renewal_failures,
                          "renewals of " + worst->name + " " + failures_text(*worst->renewals));
  checks.push_back(as_check("leases", {"lease"}, std::move(renewals)));
  return checks;
}

/// Of services that connect to other systems. An outage does not stop the others.
std::optional<HealthCheck> transports_check(const std::vector<NamedHealth>& services) {
  std::vector<std::string> outages;
  bool connects = false;
  for (const auto& service : services) {
    connects = connects || service.connects;
    if (service.outage) outages.push_back(*service.outage);
  }
  if (!connects) return std::nullopt;
  return as_check("transports", {"transport"},
                  counted("unavailable", static_cast<std::int64_t>(outages.size()), {.degraded = 0},
                          listed(outages)));
}

/// A process whose claims or heartbeats fail again and again cannot work, though its database
/// answers: it may lack rights, or the database is read-only.
std::vector<HealthCheck> failing_checks(const std::vector<NamedHealth>& services) {
  std::vector<HealthCheck> checks;
  for (const auto& service : services) {
    if (!service.essential || service.health.failures < too_many_failures) continue;
    checks.push_back({.name = "service." + service.name,
                      .status = HealthStatus::unhealthy,
                      .description = failures_text(service.health),
                      .tags = {"runtime"}});
  }
  return checks;
}

}  // namespace

HealthCheck check_started(RunState state) {
  HealthCheck check{.name = "started", .tags = {"runtime"}};
  switch (state) {
    case RunState::running:
      return check;
    case RunState::unused:
      check.description = "not started: there are no background loops to check";
      return check;
    case RunState::prepared:
      check.description = "not started yet: handlers are registered, but start() was not called";
      break;
    case RunState::starting:
      check.description = "starting";
      break;
    case RunState::stopping:
      check.description = "stopping";
      break;
    case RunState::stopped:
      check.description = "stopped";
      break;
  }
  check.status = HealthStatus::unhealthy;
  return check;
}

void PlatformHealth::require_process() const {
  node_()->process().require();
}

int PlatformHealth::phase() const {
  return runtime_ != nullptr ? static_cast<int>(runtime_->state()) : 0;
}

HealthCheck PlatformHealth::live() {
  if (runtime_ != nullptr) return runtime_->supervisor().live();
  return {.name = "supervisor",
          .description = "the group of this database has the background threads",
          .tags = {"runtime"}};
}

std::vector<HealthCheck> PlatformHealth::quick(Scope scope) {
  if (runtime_ == nullptr) return {};
  std::vector<HealthCheck> checks{check_started(runtime_->state())};
  std::ranges::move(runtime_->supervisor().loops(), std::back_inserter(checks));
  if (scope == Scope::ready) {
    std::ranges::move(failing_checks(runtime_->health()), std::back_inserter(checks));
    return checks;
  }
  const auto services = runtime_->health();
  std::ranges::move(service_checks(services, node_()->options().health),
                    std::back_inserter(checks));
  if (auto check = transports_check(services)) checks.push_back(std::move(*check));
  return checks;
}

void PlatformHealth::read(Scope scope, const std::stop_token& stop,
                          observe::HealthRecorder& recorder) {
  check_database(*node_(), scope, stop, recorder);
}

}  // namespace dovetail::runtime
