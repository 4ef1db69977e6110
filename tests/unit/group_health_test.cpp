// The health checks of a group: a group works while some of its databases fail.
#include "group/health.hpp"

#include <gmock/gmock.h>

#include "support/health_reports.hpp"

namespace dovetail::testing {
namespace {

using group::checks_of;
using observe::HealthSource;
using ::testing::ElementsAre;
using ::testing::SizeIs;

/// A group of `total` databases; the first `failing` of them fail.
GroupStatus group_of(std::size_t total, std::size_t failing) {
  GroupStatus status;
  for (std::size_t i = 0; i < total; ++i) {
    const bool fails = i < failing;
    status.databases.push_back(
        {.key = "d" + std::to_string(i),
         .state = fails ? GroupDatabaseState::failing : GroupDatabaseState::idle,
         .failures = fails ? 3 : 0,
         .last_error = fails ? "connection refused" : ""});
  }
  return status;
}

HealthReport report(const GroupStatus& status, HealthSource::Scope scope,
                    const HealthOptions& options = {}) {
  HealthReport report{.checks = checks_of(status, options, scope)};
  for (const auto& check : report.checks) report.status = std::max(report.status, check.status);
  return report;
}

TEST(GroupHealth, AGroupWithoutFailuresIsHealthy) {
  const auto all = report(group_of(200, 0), HealthSource::Scope::all);
  EXPECT_EQ(all.status, HealthStatus::healthy);
  EXPECT_THAT(names_of(all), ElementsAre("databases", "discovery"));
  EXPECT_EQ(check_named(all, "databases").data.at("databases"), "200");
}

TEST(GroupHealth, ADatabaseThatFailsHasACheckAndTheGroupStaysReady) {
  const auto status = group_of(200, 1);
  const auto all = report(status, HealthSource::Scope::all);
  EXPECT_EQ(all.status, HealthStatus::degraded);
  EXPECT_THAT(names_of(all), ElementsAre("databases", "discovery", "database.d0"));
  EXPECT_EQ(check_named(all, "database.d0").description, "connection refused");
  EXPECT_EQ(report(status, HealthSource::Scope::ready).status, HealthStatus::healthy);
}

TEST(GroupHealth, AGroupWhoseDatabasesAllFailIsNotReady) {
  const auto status = group_of(3, 3);
  EXPECT_EQ(report(status, HealthSource::Scope::all).status, HealthStatus::unhealthy);
  const auto ready = report(status, HealthSource::Scope::ready);
  EXPECT_EQ(ready.status, HealthStatus::unhealthy);
  EXPECT_EQ(check_named(ready, "databases").description, "3 of 3 databases fail");
}

TEST(GroupHealth, TheShareOfFailingDatabasesIsAnOption) {
  const HealthOptions options{.failing_databases_percent = {10, 50}};
  const auto status_of = [&](std::size_t failing) {
    return check_named(report(group_of(100, failing), HealthSource::Scope::all, options),
                       "databases")
        .status;
  };
  EXPECT_EQ(status_of(10), HealthStatus::healthy);
  EXPECT_EQ(status_of(11), HealthStatus::degraded);
  EXPECT_EQ(status_of(51), HealthStatus::unhealthy);
}

TEST(GroupHealth, TheNumberOfChecksIsBounded) {
  EXPECT_THAT(checks_of(group_of(1'000, 500), {}, HealthSource::Scope::all), SizeIs(102));
}

TEST(GroupHealth, AFailingDiscoveryIsDegraded) {
  auto status = group_of(1, 0);
  status.discovery_failures = 2;
  status.discovery_error = "no such file";
  const auto all = report(status, HealthSource::Scope::all);
  EXPECT_EQ(check_named(all, "discovery").status, HealthStatus::degraded);
  EXPECT_EQ(report(status, HealthSource::Scope::ready).status, HealthStatus::healthy);
  status.discovery_failures = 0;
  status.bad_entries = {"\"a\": no URL"};
  EXPECT_EQ(report(status, HealthSource::Scope::all).status, HealthStatus::degraded);
}

TEST(GroupHealth, TheDatabaseWithTheOldestDueMessageIsNamed) {
  const auto store = [](const std::string& key, std::chrono::minutes wait) {
    return StoreSample{.store = key,
                       .queues = {{.queue = "outbox", .counts = {.ready = 1, .oldest_due = wait}}}};
  };
  using std::chrono::minutes;
  Sample sample{.stores = {store("a", minutes{1}), store("b", minutes{9}), {.store = "closed"}}};
  const auto healthy = group::check_oldest_due(sample, "outbox", {});
  EXPECT_EQ(healthy.status, HealthStatus::healthy);
  EXPECT_EQ(healthy.data.at("database"), "b");
  sample.stores.push_back(store("c", minutes{11}));
  const auto degraded = group::check_oldest_due(sample, "outbox", {});
  EXPECT_EQ(degraded.status, HealthStatus::degraded);
  EXPECT_EQ(degraded.description, "a message in the database c has been due for 660 s");
  sample.stores.push_back(store("d", minutes{61}));
  EXPECT_EQ(group::check_oldest_due(sample, "outbox", {}).status, HealthStatus::unhealthy);
  EXPECT_EQ(group::check_oldest_due(sample, "inbox", {}).status, HealthStatus::healthy);
}

}  // namespace
}  // namespace dovetail::testing
