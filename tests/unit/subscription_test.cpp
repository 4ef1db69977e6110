// When, how many and from which position a dispatcher claims.
#include "runtime/subscription.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr PollPace pace{milliseconds{500}, milliseconds{5'000}};

void ignore(const Message& /*message*/, HandlerContext& /*context*/) {}

WallTime wall(int second) {
  return WallTime{seconds{1'000'000 + second}};
}

storage::ClaimedEntry entry_at(int second) {
  storage::ClaimedEntry entry;
  entry.ready_at = wall(second);
  entry.claimed.claim.id = MessageId::generate();
  return entry;
}

/// The mark of messages with the default priority.
std::optional<WallTime> mark_of(const PlannedClaim& claim) {
  if (!claim.after) return std::nullopt;
  const auto& mark = (*claim.after)[static_cast<std::size_t>(-storage::lowest_priority)];
  return mark ? std::optional{mark->ready_at} : std::nullopt;
}

class SubscriptionTest : public ::testing::Test {
 protected:
  PlannedClaim begin() { return shared.begin_claim(10, ++trips, now); }
  /// A claim because a message may have arrived.
  PlannedClaim rung() {
    shared.ring();
    return begin();
  }
  void end(const PlannedClaim& claim, const storage::Claimed& claimed,
           milliseconds took = milliseconds{0}) {
    const auto sent_at = now;
    now += took;
    shared.end_claim(claim, claimed, pace, sent_at, now);
  }
  static storage::Claimed claimed_at(const std::vector<int>& times) {
    storage::Claimed claimed;
    for (const int second : times) claimed.entries.push_back(entry_at(second));
    return claimed;
  }
  static storage::Claimed passed_at(int second) {
    storage::Claimed claimed;
    for (auto& mark : claimed.passed) mark = storage::QueueMark{.ready_at = wall(second), .id = {}};
    return claimed;
  }

  Subscription shared{storage::TopicFilter{.topics = {"a"}}, nullptr, 10};
  MonoTime now = MonoTime{} + std::chrono::hours{1};
  std::uint64_t trips = 0;
};

TEST_F(SubscriptionTest, TheFirstClaimBeginsAtTheStartAndTheNextWhereItFoundMessages) {
  auto claim = begin();
  EXPECT_TRUE(claim.scans);
  EXPECT_EQ(claim.after, std::nullopt);
  end(claim, claimed_at({5, 6}));
  shared.ring();
  claim = begin();
  EXPECT_FALSE(claim.scans);
  EXPECT_EQ(mark_of(claim), wall(5));
}

TEST_F(SubscriptionTest, OneClaimFromTheStartThatWaitedDoesNotPostponeTheNext) {
  end(begin(), claimed_at({5}), milliseconds{1});
  now += seconds{2};
  const auto behind_a_lock = begin();
  ASSERT_TRUE(behind_a_lock.scans);
  end(behind_a_lock, claimed_at({5}), seconds{4});
  now += seconds{2};
  EXPECT_TRUE(begin().scans);
}

TEST_F(SubscriptionTest, AFirstClaimFromTheStartThatWaitedPostponesTheNextForSecondsOnly) {
  end(begin(), claimed_at({5}), seconds{4});
  now += seconds{6};
  EXPECT_TRUE(begin().scans);
}

TEST_F(SubscriptionTest, ClaimsFromTheStartAreMadeOnceASecondOrMoreRarelyWhenTheyTakeLong) {
  end(begin(), claimed_at({5}), milliseconds{100});
  now += seconds{2};
  EXPECT_FALSE(begin().scans) << "100 ms are a fiftieth of 5 s";
  now += seconds{4};
  EXPECT_TRUE(begin().scans);
}

TEST_F(SubscriptionTest, ANewMessageDoesNotWaitForAClaimFromTheStartThatTakesLong) {
  end(begin(), claimed_at({5}), milliseconds{100});
  now += seconds{60};
  shared.ring();
  const auto urgent = begin();
  EXPECT_FALSE(urgent.scans);
  end(urgent, claimed_at({70}));
  EXPECT_TRUE(shared.is_due(now));
  EXPECT_TRUE(begin().scans) << "it follows";
}

TEST_F(SubscriptionTest, AStreamOfNewMessagesDoesNotKeepAScanFromItsTurn) {
  end(begin(), claimed_at({5}), milliseconds{100});
  now += seconds{60};
  end(rung(), claimed_at({70, 71, 72, 73, 74, 75, 76, 77, 78, 79}));
  EXPECT_TRUE(rung().scans);
}

TEST_F(SubscriptionTest, AClaimThatWasCutShortIsFollowedByAnotherAtOnce) {
  auto cut = claimed_at({5});
  cut.cut = true;
  end(begin(), cut);
  EXPECT_TRUE(shared.is_due(now));
}

TEST_F(SubscriptionTest, AClaimBesideOneThatWasCutShortDoesNotMoveTheMarkPastItsMessages) {
  end(begin(), claimed_at({1}));
  for (const bool cut_ends_first : {true, false}) {
    const auto cut = rung();
    const auto overlapping = rung();
    auto few = claimed_at({5});
    few.cut = true;  // it had also locked the messages 6 to 19
    if (cut_ends_first) end(cut, few);
    end(overlapping, claimed_at({20}));
    if (!cut_ends_first) end(cut, few);
    EXPECT_LE(mark_of(rung()), wall(5));
  }
}

TEST_F(SubscriptionTest, AClaimThatFoundNoMoreMovesTheMarkForwardOnly) {
  end(begin(), claimed_at({50}), milliseconds{100});  // from the start: rarely
  end(rung(), passed_at(40));
  const auto claim = rung();
  EXPECT_EQ(mark_of(claim), wall(50));
  end(claim, passed_at(60));
  EXPECT_EQ(mark_of(rung()), wall(60));
}

TEST_F(SubscriptionTest, AClaimBesideAnotherHasNotSeenAll) {
  end(begin(), claimed_at({50}), milliseconds{100});
  const auto first = rung();
  const auto second = rung();
  end(second, passed_at(60));
  end(first, passed_at(70));
  EXPECT_EQ(mark_of(rung()), wall(50));
}

TEST_F(SubscriptionTest, AMessageThatComesBackMovesTheMarkBack) {
  end(begin(), passed_at(60));
  shared.note_returned(0, {.ready_at = wall(55), .id = {}});
  EXPECT_EQ(mark_of(rung()), wall(55));
}

TEST_F(SubscriptionTest, AScanGoesOnWhereItStoppedAndNewMessagesAreClaimedInBetween) {
  end(begin(), claimed_at({50}));
  now += seconds{2};
  auto unfinished = passed_at(20);
  unfinished.unfinished = true;
  auto claim = begin();
  ASSERT_TRUE(claim.scans);
  end(claim, unfinished);
  EXPECT_TRUE(shared.is_due(now));
  shared.ring();
  claim = begin();
  EXPECT_EQ(mark_of(claim), wall(50)) << "a new message";
  end(claim, claimed_at({}));
  claim = begin();
  EXPECT_TRUE(claim.scans);
  EXPECT_EQ(mark_of(claim), wall(20));
  end(claim, claimed_at({}));
}

TEST_F(SubscriptionTest, AMessageThatCameDuringAPartOfAScanIsNotForgotten) {
  end(begin(), claimed_at({50}));
  now += seconds{2};
  auto unfinished = passed_at(20);
  unfinished.unfinished = true;
  end(begin(), unfinished);
  end(rung(), claimed_at({}));  // goes first
  const auto scan = rung();     // the scan's turn
  ASSERT_TRUE(scan.scans);
  end(scan, unfinished);
  const auto claim = begin();
  EXPECT_FALSE(claim.scans) << "the message that rang";
  EXPECT_EQ(mark_of(claim), wall(50));
}

TEST_F(SubscriptionTest, AWorkerWithoutOtherWorkExaminesMoreMessagesAtATime) {
  const auto first = begin();
  end(first, claimed_at({50}));
  EXPECT_GT(first.scan_limit, rung().scan_limit);
}

TEST_F(SubscriptionTest, WithNothingToDoItLooksLessAndLessOften) {
  shared.ring();
  std::vector<int> pauses;
  for (int i = 0; i < 6; ++i) {
    end(begin(), {});
    while (shared.next_poll() <= now) end(begin(), {});
    pauses.push_back(static_cast<int>(
        std::chrono::duration_cast<milliseconds>(shared.next_poll() - now).count()));
    now = shared.next_poll();
  }
  EXPECT_TRUE(std::ranges::is_sorted(pauses));
  EXPECT_EQ(pauses.back(), 5'000);
}

TEST_F(SubscriptionTest, AFailedClaimIsMadeAgainAtOnce) {
  const auto claim = begin();
  shared.cancel_claim(claim);
  EXPECT_EQ(shared.claiming(), 0U);
  EXPECT_TRUE(shared.is_due(now));
  EXPECT_TRUE(begin().scans);
}

TEST(SubscriptionRoom, ALimitedHandlerIsClaimedForAsItHasRoom) {
  HandlerRegistry handlers(10);
  handlers.add("t", ignore, {.concurrency = 2});
  auto subscriptions = subscriptions_of(handlers, UnknownTopics::leave);
  auto& limited = subscriptions.front();
  ASSERT_NE(limited.limited(), nullptr);
  EXPECT_EQ(limited.room(50), 4U)
      << "two at work and two that wait, until we know how long they take";
  limited.held = 4;
  EXPECT_EQ(limited.room(50), 0U);
  for (int i = 0; i < 100; ++i) limited.note_handled(milliseconds{10});
  EXPECT_EQ(limited.room(50), 18U) << "for 100 ms ahead";
  limited.waiting = 11;
  EXPECT_EQ(limited.room(50), 0U) << "half of that is enough";
  limited.waiting = 0;
  const auto claim = limited.begin_claim(18, 1, MonoTime{});
  EXPECT_EQ(limited.room(50), 0U) << "one claim at a time";
  limited.cancel_claim(claim);
  for (int i = 0; i < 100; ++i) limited.note_handled(std::chrono::microseconds{1});
  EXPECT_EQ(limited.room(50), 48U) << "a batch ahead at most";
}

/// The topics that each subscription claims.
std::vector<std::string> taken(const std::deque<Subscription>& subscriptions) {
  std::vector<std::string> all;
  for (const auto& each : subscriptions) {
    std::string topics = each.claims_streams() ? "streams of " : "";
    topics += each.limited() != nullptr ? "limited:" : "shared:";
    for (const auto* topic : {"a", "b", "limited", "unknown"}) {
      if (each.takes(topic)) topics += std::string{" "} + topic;
    }
    all.push_back(topics);
  }
  return all;
}

TEST(SubscriptionsOf, HandlersWithoutALimitShareOne) {
  HandlerRegistry handlers(10);
  handlers.add("a", ignore, {.max_attempts = 3});
  handlers.add("b", ignore, {.max_attempts = 50});
  handlers.add("limited", ignore, {.concurrency = 1, .max_attempts = 7});
  const auto subscriptions = subscriptions_of(handlers, UnknownTopics::leave);
  EXPECT_THAT(taken(subscriptions), ElementsAre("limited: limited", "streams of limited: limited",
                                                "shared: a b", "streams of shared: a b"));
  EXPECT_EQ(subscriptions[0].max_attempts(), 7);
  EXPECT_EQ(subscriptions[2].max_attempts(), 50);
  EXPECT_THAT(taken(subscriptions_of(handlers, UnknownTopics::abandon)),
              ElementsAre("limited: limited", "streams of limited: limited", "shared: a b unknown",
                          "streams of shared: a b unknown"));
}

TEST(SubscriptionsOf, AHandlerOfAllOtherTopicsTakesTheRest) {
  HandlerRegistry free(10);
  free.add("limited", ignore, {.concurrency = 1});
  free.add_fallback(ignore, {});
  EXPECT_THAT(taken(subscriptions_of(free, UnknownTopics::leave)),
              ElementsAre("limited: limited", "streams of limited: limited", "shared: a b unknown",
                          "streams of shared: a b unknown"));
  HandlerRegistry limited(10);
  limited.add("a", ignore, {});
  limited.add_fallback(ignore, {.concurrency = 2});
  EXPECT_THAT(taken(subscriptions_of(limited, UnknownTopics::leave)),
              ElementsAre("limited: b limited unknown", "streams of limited: b limited unknown",
                          "shared: a", "streams of shared: a"));
}

}  // namespace
}  // namespace dovetail::runtime
