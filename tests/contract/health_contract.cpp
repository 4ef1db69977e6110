// Platform::health(), on both engines.
#include <algorithm>

#include "support/eventually.hpp"
#include "support/health_reports.hpp"
#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

class HealthContract : public BackendTest {
 protected:
  /// Reports are not cached.
  PlatformOptions options() {
    auto options = backend.options();
    options.health.cache = milliseconds{0};
    return options;
  }
  /// The only check that is not healthy.
  HealthCheck found() {
    const auto report = platform.health().all();
    const auto complaints = complaints_of(report);
    EXPECT_EQ(complaints.size(), 1U) << in_words(report);
    if (complaints.empty()) return {};
    EXPECT_EQ(report.status, complaints.front().status);
    return complaints.front();
  }
  void expect_healthy() {
    const auto report = platform.health().all();
    EXPECT_EQ(report.status, HealthStatus::healthy) << in_words(report);
  }

  Platform platform = Platform::open(backend.url(), options());
  Outbox& outbox = platform.outbox();
  OwnerToken owner = OwnerToken::generate();
};
DOVETAIL_CONTRACT(HealthContract);

TEST_P(HealthContract, ANewDatabaseIsHealthy) {
  expect_healthy();
  const auto ready = platform.health().ready();
  EXPECT_EQ(ready.status, HealthStatus::healthy) << in_words(ready);
  EXPECT_THAT(names_of(ready), ElementsAre("database", "schema", "started"));
  EXPECT_THAT(check_named(ready, "started").description, HasSubstr("not started"));
  EXPECT_THAT(names_of(platform.health().live()), ElementsAre("supervisor"));
}

TEST_P(HealthContract, AProcessWhoseClaimsFailIsNotReadyThoughItsDatabaseAnswers) {
  auto given = options();
  given.worker.poll_interval = given.worker.idle_poll_interval = milliseconds{10};
  auto worker = Platform::open(backend.url(), given);
  worker.on("t", [](const Message&, HandlerContext&) {});
  worker.start();
  EXPECT_EQ(worker.health().ready().status, HealthStatus::healthy);
  backend.sql("alter table " + backend.table("outbox") + " rename to outbox_elsewhere");
  const auto fails = [&] {
    if (!backend.is_postgres()) backend.advance(seconds{1});
    const auto report = worker.health().ready();
    return std::ranges::any_of(report.checks, [](const HealthCheck& check) {
      return check.name.starts_with("service.") && check.status == HealthStatus::unhealthy;
    });
  };
  EXPECT_TRUE(eventually(fails)) << in_words(worker.health().ready());
}

TEST_P(HealthContract, AStartedPlatformReportsItsLoopsAndServices) {
  platform.on("t", [](const Message&, HandlerContext&) {});
  EXPECT_EQ(check_named(platform.health().ready(), "started").status, HealthStatus::unhealthy)
      << "it has handlers";
  platform.start();
  const auto ready = platform.health().ready();
  EXPECT_EQ(ready.status, HealthStatus::healthy) << in_words(ready);
  EXPECT_THAT(names_of(ready),
              IsSupersetOf({"database", "schema", "started", "loop.outbox.fetchers",
                            "loop.outbox.renewer", "loop.outbox.timekeeper", "loop.scheduler",
                            "loop.housekeeper", "loop.instance"}));
  EXPECT_THAT(names_of(ready), Not(Contains("service.housekeeper")));
  EXPECT_THAT(names_of(platform.health().all()), Contains("service.housekeeper"));
  EXPECT_EQ(platform.health().live().status, HealthStatus::healthy);
  platform.stop();
  const auto stopped = platform.health().ready();
  EXPECT_EQ(complaints_of(stopped).size(), 1U);
  EXPECT_EQ(check_named(stopped, "started").description, "stopped");
  EXPECT_EQ(platform.health().live().status, HealthStatus::healthy);
}

TEST_P(HealthContract, AProcessThatDrainsIsLiveAndNotReady) {
  std::atomic<bool> running{false};
  std::atomic<bool> may_end{false};
  platform.on("t", [&](const Message&, HandlerContext&) {
    running = true;
    EXPECT_TRUE(eventually([&] { return may_end.load(); }));
  });
  platform.start();
  outbox.enqueue({.topic = "t"});
  EXPECT_TRUE(eventually([&] { return running.load(); }));
  EXPECT_FALSE(platform.stop(milliseconds{1}));
  EXPECT_EQ(check_named(platform.health().ready(), "started").description, "stopping");
  EXPECT_EQ(platform.health().live().status, HealthStatus::healthy);
  may_end = true;
  EXPECT_TRUE(platform.stop());
}

TEST_P(HealthContract, AClockThatWasSetBackIsDegraded) {
  outbox.enqueue({.topic = "t"});
  backend.advance(-hours{3});
  const auto check = found();
  EXPECT_EQ(check.name, "clock");
  EXPECT_EQ(check.status, HealthStatus::degraded);
  EXPECT_THAT(check.description, HasSubstr("set back by 1"));  // 10,800 s, or a little less
}

TEST_P(HealthContract, ADueTopicThatNobodyHandlesIsDegraded) {
  outbox.enqueue({.topic = "orders"});
  outbox.enqueue({.topic = "orders"});
  expect_healthy();
  backend.advance(seconds{70});
  const auto check = found();
  EXPECT_EQ(check.name, "topics");
  EXPECT_EQ(check.status, HealthStatus::degraded);
  EXPECT_THAT(check.description, HasSubstr("outbox orders (2 due"));
  outbox.pause("orders");
  expect_healthy();
}

TEST_P(HealthContract, ABlockedStreamIsDegradedUntilItIsResumed) {
  outbox.enqueue({.topic = "t", .stream = "customer-1"});
  const auto claimed = outbox.claim_streams({.owner = owner});
  ASSERT_EQ(claimed.size(), 1U);
  outbox.fail(owner, {{claimed[0].claim}}, "broken");
  const auto check = found();
  EXPECT_EQ(check.name, "streams");
  EXPECT_THAT(check.description, HasSubstr("outbox customer-1"));
  EXPECT_THAT(check.tags, Contains("queue"));
  outbox.skip_stream("customer-1");
  expect_healthy();
}

TEST_P(HealthContract, AServiceThatFailsIsDegradedWithItsLastError) {
  auto options = this->options();
  options.worker.lease = milliseconds{200};  // housekeeping runs every second
  auto worker = Platform::open(backend.url(), options);
  worker.on("t", [](const Message&, HandlerContext&) {});
  worker.start();
  backend.sql("drop table " + backend.table("lease") + (backend.is_postgres() ? " cascade" : ""));
  HealthCheck check;
  EXPECT_TRUE(eventually([&] {
    check = check_named(worker.health().all(), "service.housekeeper");
    return check.status != HealthStatus::healthy;
  }));
  EXPECT_EQ(check.status, HealthStatus::degraded);
  EXPECT_THAT(check.description, HasSubstr("lease"));
}

TEST_P(HealthContract, AForeignSchemaIsNotReady) {
  backend.sql("delete from " + backend.table("schema_migrations") + " where number > 3");
  const auto ready = platform.health().ready();
  EXPECT_EQ(check_named(ready, "database").status, HealthStatus::healthy);
  EXPECT_EQ(check_named(ready, "schema").status, HealthStatus::unhealthy);
  EXPECT_THAT(check_named(ready, "schema").description, HasSubstr("dovetail migrate"));
}

TEST_P(HealthContract, AFrozenLoopIsNamed) {
  auto options = this->options();
  options.clock = {std::shared_ptr<void>{}, &backend.clock()};  // the backend owns it
  auto worker = Platform::open(backend.url(), options);
  worker.start();
  expect_ready(worker);
  UserConnection other(backend);  // keeps the heartbeat waiting
  other.execute(backend.is_postgres() ? "begin; lock table " + backend.table("instance")
                                      : "begin immediate");
  HealthReport report;
  EXPECT_TRUE(eventually([&] {
    backend.clock().advance(seconds{5});
    report = worker.health().ready();
    return check_named(report, "loop.instance").status == HealthStatus::unhealthy;
  })) << in_words(report);
  EXPECT_THAT(check_named(report, "loop.instance").description, HasSubstr("no progress for"));
  EXPECT_TRUE(eventually([&] { return worker.health().live().status == HealthStatus::healthy; }));
  other.execute("rollback");
  EXPECT_TRUE(eventually([&] {
    backend.clock().advance(milliseconds{100});
    return worker.health().ready().status == HealthStatus::healthy;
  })) << in_words(worker.health().ready());
}

TEST_P(HealthContract, TheLastProgressOfEachLoopIsAGauge) {
  platform.start();
  const auto has_gauge = [&] {
    return std::ranges::any_of(platform.metrics().gauges, [](const auto& gauge) {
      return gauge.name == "dovetail_last_progress_timestamp_seconds" && gauge.value > 1e9;
    });
  };
  EXPECT_TRUE(eventually(has_gauge));
}

}  // namespace
}  // namespace dovetail::testing
