// Platform::health(), on both engines.
#include "support/eventually.hpp"
#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HealthContract : public OutboxTest {
 protected:
  /// The only finding.
  HealthFinding found() {
    const auto report = platform.health();
    EXPECT_EQ(report.findings.size(), 1U);
    if (report.findings.empty()) return {};
    EXPECT_EQ(report.status, report.findings.front().status);
    return report.findings.front();
  }
  void expect_healthy() {
    const auto report = platform.health();
    EXPECT_EQ(report.status, HealthStatus::healthy);
    EXPECT_THAT(report.findings, IsEmpty());
  }
};
DOVETAIL_CONTRACT(HealthContract);

TEST_P(HealthContract, ANewDatabaseIsHealthy) {
  expect_healthy();
  platform.on("t", [](const Message&, HandlerContext&) {});
  platform.start();
  expect_healthy();
}

TEST_P(HealthContract, AClockThatWasSetBackIsAFinding) {
  outbox.enqueue({.topic = "t"});
  backend.advance(-hours{3});
  const auto finding = found();
  EXPECT_EQ(finding.name, "clock");
  EXPECT_EQ(finding.status, HealthStatus::degraded);
  EXPECT_THAT(finding.message, HasSubstr("set back by 1"));  // 10,800 s, or a little less
}

TEST_P(HealthContract, ADueTopicThatNobodyHandlesIsAFinding) {
  outbox.enqueue({.topic = "orders"});
  outbox.enqueue({.topic = "orders"});
  expect_healthy();
  backend.advance(seconds{70});
  const auto finding = found();
  EXPECT_EQ(finding.name, "topics");
  EXPECT_EQ(finding.status, HealthStatus::degraded);
  EXPECT_THAT(finding.message, HasSubstr("outbox orders (2 due"));
  outbox.pause("orders");
  expect_healthy();
}

TEST_P(HealthContract, ABlockedStreamIsAFindingUntilItIsResumed) {
  outbox.enqueue({.topic = "t", .stream = "customer-1"});
  const auto claimed = outbox.claim_streams({.owner = owner});
  ASSERT_EQ(claimed.size(), 1U);
  outbox.fail(owner, {{claimed[0].claim}}, "broken");
  const auto finding = found();
  EXPECT_EQ(finding.name, "streams");
  EXPECT_THAT(finding.message, HasSubstr("outbox customer-1"));
  outbox.skip_stream("customer-1");
  expect_healthy();
}

TEST_P(HealthContract, AServiceThatFailsIsAFindingWithItsLastError) {
  auto options = backend.options();
  options.worker.lease = milliseconds{200};  // housekeeping runs every second
  auto worker = Platform::open(backend.url(), options);
  worker.on("t", [](const Message&, HandlerContext&) {});
  worker.start();
  backend.sql("drop table " + backend.table("lease") + (backend.is_postgres() ? " cascade" : ""));
  std::string message;
  EXPECT_TRUE(eventually([&] {
    for (const auto& finding : worker.health().findings) {
      if (finding.name == "service.housekeeper") message = finding.message;
    }
    return !message.empty();
  }));
  EXPECT_THAT(message, HasSubstr("lease"));
}

}  // namespace
}  // namespace dovetail::testing
