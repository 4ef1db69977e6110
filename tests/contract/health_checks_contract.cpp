// Each check of Platform::health() that reads the database: healthy, degraded, unhealthy.
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/health_reports.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class HealthChecksContract : public BackendTest {
 protected:
  void open(HealthOptions health = {}) {
    auto options = backend.options();
    options.health = health;
    options.health.cache = 0ms;
    opened = std::make_unique<Platform>(Platform::open(backend.url(), options));
  }
  Platform& platform() { return *opened; }
  HealthCheck check(const std::string& name) {
    const auto report = platform().health().all();
    EXPECT_THAT(names_of(report), Contains(name));
    return check_named(report, name);
  }
  void expect(const std::string& name, HealthStatus status) {
    const auto found = check(name);
    EXPECT_EQ(found.status, status) << found.name << ": " << found.description;
  }
  void enqueue(int count, const std::string& topic = "t") {
    for (int i = 0; i < count; ++i) platform().outbox().enqueue({.topic = topic});
  }

  std::unique_ptr<Platform> opened;
};
DOVETAIL_CONTRACT(HealthChecksContract);

TEST_P(HealthChecksContract, TheOldestDueMessageMayWaitForTenMinutes) {
  open();
  enqueue(1);
  backend.advance(599s);
  expect("outbox.oldest_due", HealthStatus::healthy);
  backend.advance(10s);
  expect("outbox.oldest_due", HealthStatus::degraded);
  EXPECT_THAT(check("outbox.oldest_due").description, HasSubstr("topic t has been due for 6"));
  backend.advance(1h);
  expect("outbox.oldest_due", HealthStatus::unhealthy);
  EXPECT_EQ(platform().health().all().status, HealthStatus::unhealthy);
  platform().outbox().pause("t");
  expect("outbox.oldest_due", HealthStatus::healthy);
}

TEST_P(HealthChecksContract, FailedFutureAndClaimedMessagesDoNotWait) {
  open({.ready_messages = {0, 1}});
  const auto owner = OwnerToken::generate();
  enqueue(1);
  const auto claimed = platform().outbox().claim({.owner = owner, .lease = 10h});
  ASSERT_EQ(claimed.size(), 1U);
  backend.advance(2h);
  expect("outbox.oldest_due", HealthStatus::healthy);
  expect("outbox.ready", HealthStatus::healthy);
  EXPECT_EQ(platform().outbox().fail(owner, std::vector{claimed[0].claim}, "broken"), 1U);
  platform().outbox().enqueue({.topic = "later", .due_at = backend.now() + 24h});
  expect("outbox.oldest_due", HealthStatus::healthy);
  expect("outbox.ready", HealthStatus::healthy);
}

TEST_P(HealthChecksContract, TheInboxHasTheSameChecks) {
  open({.ready_messages = {0, 1}});
  const auto arrive = [&](const std::string& id) {
    platform().inbox().enqueue({.topic = "t", .source = "s", .message_id = id});
  };
  arrive("1");
  expect("inbox.ready", HealthStatus::degraded);
  arrive("2");
  expect("inbox.ready", HealthStatus::unhealthy);
  backend.advance(2h);
  expect("inbox.oldest_due", HealthStatus::unhealthy);
  expect("outbox.ready", HealthStatus::healthy);
}

TEST_P(HealthChecksContract, MessagesThatWaitAreCountedUpToTheLimit) {
  open({.ready_messages = {2, 4}});
  enqueue(2);
  expect("outbox.ready", HealthStatus::healthy);
  EXPECT_EQ(check("outbox.ready").data.at("ready"), "2");
  enqueue(1);
  expect("outbox.ready", HealthStatus::degraded);
  EXPECT_EQ(check("outbox.ready").description, "3 messages wait for workers");
  enqueue(10);
  expect("outbox.ready", HealthStatus::unhealthy);
  EXPECT_EQ(check("outbox.ready").data.at("ready"), "5+");
}

TEST_P(HealthChecksContract, TimersMayBeLateForFiveMinutes) {
  open({.late_timers = {1, 2}});
  for (int i = 0; i < 3; ++i) platform().timers().schedule({.topic = "t", .delay = 0ms});
  backend.advance(4min);
  expect("timers.late", HealthStatus::healthy);
  backend.advance(2min);
  expect("timers.late", HealthStatus::unhealthy);
  EXPECT_THAT(check("timers.late").description, HasSubstr("late by more than 300 s"));
  open({.late_timers = {1, 10}});
  expect("timers.late", HealthStatus::degraded);
}

TEST_P(HealthChecksContract, StuckMessagesOfTheInboxAreNamed) {
  open({.stuck_inbox_messages = {0, 1}});
  EXPECT_TRUE(platform().inbox().try_begin("bank", "m-1", {.lease = 1s}).started());
  expect("inbox.stuck", HealthStatus::healthy);
  backend.advance(2h);
  expect("inbox.stuck", HealthStatus::degraded);
  EXPECT_THAT(check("inbox.stuck").description, HasSubstr("bank/m-1"));
  EXPECT_TRUE(platform().inbox().try_begin("bank", "m-2", {.lease = 1s}).started());
  backend.advance(2h);
  expect("inbox.stuck", HealthStatus::unhealthy);
}

TEST_P(HealthChecksContract, APeerWithoutAHeartbeatIsNamed) {
  open({.silent_instances = {0, 1}});
  expect("instances", HealthStatus::healthy);
  auto peer = backend.open();
  peer.start();
  ASSERT_TRUE(eventually([&] { return platform().instances().list().size() == 1; }));
  expect("instances", HealthStatus::healthy);
  backend.advance(100s);
  const auto silent = check("instances");
  EXPECT_EQ(silent.status, HealthStatus::degraded);
  EXPECT_THAT(silent.description, HasSubstr("pid " + std::to_string(::getpid())));
  EXPECT_EQ(silent.data.at("instances"), "1");
}

TEST_P(HealthChecksContract, ThresholdsOfTopicsAndStreamsAreOptions) {
  open({.unhandled_topics = {1, 2}, .blocked_streams = {HealthCounts::never, 0}});
  enqueue(1, "a");
  backend.advance(2min);
  expect("topics", HealthStatus::healthy);
  enqueue(1, "b");
  backend.advance(2min);
  expect("topics", HealthStatus::degraded);
  enqueue(1, "c");
  backend.advance(2min);
  expect("topics", HealthStatus::unhealthy);
  const auto owner = OwnerToken::generate();
  platform().outbox().enqueue({.topic = "s", .stream = "x"});
  const auto claimed = platform().outbox().claim_streams({.owner = owner});
  ASSERT_EQ(claimed.size(), 1U);
  platform().outbox().fail(owner, {{claimed[0].claim}}, "broken");
  expect("streams", HealthStatus::unhealthy);
}

TEST_P(HealthChecksContract, DeadLettersAloneDoNotMatter) {
  open();
  const auto owner = OwnerToken::generate();
  enqueue(50);
  for (const auto& each : platform().outbox().claim({.owner = owner, .batch_size = 50})) {
    platform().outbox().fail(owner, {{each.claim}}, "broken");
  }
  const auto report = platform().health().all();
  EXPECT_EQ(report.status, HealthStatus::healthy) << in_words(report);
}

TEST_P(HealthChecksContract, ChecksChangeNothing) {
  open();
  enqueue(3);
  backend.advance(2h);
  for (int i = 0; i < 3; ++i) static_cast<void>(platform().health().all());
  const auto claimed = platform().outbox().claim({.owner = OwnerToken::generate()});
  ASSERT_EQ(claimed.size(), 3U);
  for (const auto& each : claimed) {
    EXPECT_EQ(each.message.attempts, 0);
    EXPECT_EQ(each.claim.epoch, 1);
  }
}

}  // namespace
}  // namespace dovetail::testing
