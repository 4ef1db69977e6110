#include "group/health.hpp"

#include <algorithm>
#include <iterator>

#include "runtime/health_grades.hpp"

namespace dovetail::group {
namespace {

using Scope = observe::HealthSource::Scope;

constexpr std::size_t most_failing = 100;  // that have a check of their own
/// A sample of /metrics or of the events is used, too.
constexpr std::chrono::seconds oldest_sample{15};

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

HealthResult check_oldest_due(const Sample& sample, std::string_view queue,
                              const HealthOptions& options) {
  std::chrono::microseconds oldest{0};
  std::string store;
  for (const auto& each : sample.stores) {
    const auto found = std::ranges::find(each.queues, queue, &QueueSample::queue);
    if (found == each.queues.end() || found->counts.oldest_due.value_or(oldest) <= oldest) continue;
    oldest = *found->counts.oldest_due;
    store = each.store;
  }
  HealthResult result{.status = runtime::grade(oldest, options.oldest_due)};
  if (store.empty()) return result;
  result.data = {{"oldest_due_seconds", runtime::in_seconds(oldest)}, {"database", store}};
  if (result.status != HealthStatus::healthy) {
    result.description = "a message in the database " + store + " has been due for " +
                         runtime::in_seconds(oldest) + " s";
  }
  return result;
}

/// The checks begin after the sample: a database that hangs is no reason to be unhealthy.
void GroupHealth::read(Scope scope, const std::stop_token& stop,
                       observe::HealthRecorder& recorder) {
  if (scope != Scope::all) return;
  const auto sample = parts_.sampler.get(oldest_sample);
  for (const std::string queue : {"outbox", "inbox"}) {
    if (stop.stop_requested()) return;
    recorder.begin(queue + ".oldest_due", {queue == "inbox" ? "inbox" : "queue"});
    recorder.end(check_oldest_due(*sample, queue, parts_.options));
  }
}

}  // namespace dovetail::group
