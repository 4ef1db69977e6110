// The leases that a process has: what counts as a violation of the order.
#include "coordinator/holdings.hpp"

#include <gtest/gtest.h>

#include "dovetail/testing/manual_clock.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::seconds;

class CoordinatorHoldings : public ::testing::Test {
 protected:
  static Work work(const std::string& stream, std::int64_t epoch) {
    Work each{.queue = WorkKind::outbox};
    each.message.id = MessageId::generate();
    each.message.stream = stream;
    each.claim = {each.message.id, epoch};
    return each;
  }
  std::size_t claim(const Work& each) {
    WorkResult result;
    result.work.push_back(each);
    return holdings.note(instance, {}, result, seconds{30});
  }

  const InstanceId instance = InstanceId::generate();
  ManualClock clock;
  coordinator::Holdings holdings{clock};
};

TEST_F(CoordinatorHoldings, AStreamThatIsClaimedTwiceIsAViolation) {
  EXPECT_EQ(claim(work("s", 1)), 0U);
  EXPECT_EQ(claim(work("other", 1)), 0U);
  EXPECT_EQ(claim(work("s", 2)), 1U) << "the first claim is neither settled nor expired";
}

TEST_F(CoordinatorHoldings, AnExpiredLeaseIsNoViolation) {
  EXPECT_EQ(claim(work("s", 1)), 0U);
  clock.advance(seconds{31});
  EXPECT_EQ(claim(work("s", 2)), 0U);
}

TEST_F(CoordinatorHoldings, ASettledClaimIsNoViolation) {
  const auto first = work("s", 1);
  EXPECT_EQ(claim(first), 0U);
  const WorkBatch done{.completions = {{.queue = WorkKind::outbox, .claim = first.claim}}};
  EXPECT_EQ(holdings.note(instance, done, {}, seconds{30}), 0U);
  EXPECT_EQ(claim(work("s", 2)), 0U);
}

}  // namespace
}  // namespace dovetail::testing
