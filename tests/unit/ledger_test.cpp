// The messages that a dispatcher holds, and the settlements that wait for a round trip.
#include "runtime/ledger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const MonoTime start = MonoTime{} + std::chrono::hours{1};

DeliveryPtr delivery_of(MessageId id, std::size_t bytes, std::int64_t epoch = 1) {
  auto delivery = std::make_shared<Delivery>();
  delivery->claimed.claim = {id, epoch};
  delivery->claimed.message.payload.assign(bytes, 'x');
  delivery->lease_end = start + std::chrono::seconds{30};
  return delivery;
}

Finished finished(MonoTime lease_end = start + std::chrono::seconds{30}) {
  Finished each;
  each.settlement.claim.id = MessageId::generate();
  each.lease_end = lease_end;
  return each;
}

TEST(Ledger, HoldsOneDeliveryOfAMessage) {
  Ledger ledger;
  const auto first = delivery_of(MessageId::generate(), 10);
  const auto second = delivery_of(first->claimed.claim.id, 10, 2);
  EXPECT_EQ(ledger.add(first), nullptr);
  EXPECT_EQ(ledger.add(second), first);
  EXPECT_EQ(ledger.load().bytes, 10U);
  EXPECT_EQ(ledger.find(first->claimed.claim), first);
  EXPECT_EQ(ledger.find(second->claimed.claim), nullptr);
  EXPECT_FALSE(ledger.remove(second));
  EXPECT_TRUE(ledger.remove(first));
  EXPECT_FALSE(ledger.remove(first));
  EXPECT_EQ(ledger.load().bytes, 0U);
}

TEST(Ledger, KnowsSinceWhenSettlementsWait) {
  Ledger ledger;
  EXPECT_EQ(ledger.load().first_finished, MonoTime::max());
  ledger.finish(finished(), start);
  ledger.finish(finished(), start + milliseconds{3});
  EXPECT_EQ(ledger.load().first_finished, start);
  auto taken = ledger.take(false, start);
  EXPECT_THAT(taken, SizeIs(2));
  EXPECT_EQ(ledger.load().finished, 0U);
  ledger.put_back(std::move(taken), start + milliseconds{9});
  EXPECT_EQ(ledger.load().finished, 2U);
  EXPECT_EQ(ledger.load().first_finished, start + milliseconds{9});
}

TEST(Ledger, ABlockedSettlementIsTakenAgainAfterAWhile) {
  Ledger ledger;
  std::vector<Finished> some{finished(), finished()};
  const auto free = some.front().settlement.claim.id;
  ledger.put_aside(some, {free}, start);
  ASSERT_THAT(some, SizeIs(1));
  EXPECT_EQ(some.front().settlement.claim.id, free);
  const auto retry = ledger.load().retry_aside;
  EXPECT_GT(retry, start);
  EXPECT_THAT(ledger.take(false, start), IsEmpty());
  EXPECT_THAT(ledger.take(false, retry), SizeIs(1));
  EXPECT_THAT(ledger.take(false, retry), IsEmpty());
}

TEST(Ledger, AStopTakesBlockedSettlementsAtOnce) {
  Ledger ledger;
  std::vector<Finished> some{finished()};
  ledger.put_aside(some, {}, start);
  EXPECT_THAT(ledger.take(true, start), SizeIs(1));
}

TEST(Ledger, ABlockedSettlementWhoseLeaseEndedIsNotKept) {
  Ledger ledger;
  std::vector<Finished> some{finished(start)};
  ledger.put_aside(some, {}, start);
  EXPECT_THAT(some, SizeIs(1)) << "it counts as lost";
  EXPECT_THAT(ledger.aside(), IsEmpty());
}

}  // namespace
}  // namespace dovetail::runtime
