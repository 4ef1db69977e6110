// When a dispatcher makes a round trip, how many messages it claims, and when it claims again.
#include "runtime/claim_planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const MonoTime start = MonoTime{} + std::chrono::hours{1};

HandlerRegistry two_handlers() {
  HandlerRegistry handlers(10);
  handlers.add("a", [](const Message&, HandlerContext&) {}, {});
  handlers.add("limited", [](const Message&, HandlerContext&) {}, {.concurrency = 2});
  return handlers;
}

WorkerOptions options_of(int batch) {
  WorkerOptions options;
  options.batch_size = batch;
  options.max_bytes = 1'000;
  return options;
}

/// A planner whose first claims, from the start of the queue, found nothing.
class PlannerTest : public ::testing::Test {
 protected:
  PlannerTest() {
    while (const auto trip = planner.plan({}, now)) {
      for (const auto& claim : trip->claims) end(claim, 0);
    }
  }
  void end(const TripClaim& claim, std::size_t count) {
    storage::Claimed claimed;
    claimed.entries.resize(count);
    planner.end_claim(claim, claimed, {milliseconds{500}, milliseconds{500}}, now, now);
    planner.take_in(claim);
  }
  std::size_t claimed_by(const TripPlan& trip) {
    std::size_t wanted = 0;
    for (const auto& claim : trip.claims) wanted += claim.plan.wanted;
    return wanted;
  }

  HandlerRegistry handlers = two_handlers();
  ClaimPlanner planner{handlers, options_of(10), 4};
  MonoTime now = start;
};

struct Decision {
  const char* name;
  Load load;
  bool rung = false;
  milliseconds later{0};  // since the load was measured
  bool trips = false;
  bool claims = false;
};

class PlannerDecision : public PlannerTest, public ::testing::WithParamInterface<Decision> {};

TEST_P(PlannerDecision, FollowsTheTable) {
  const auto& row = GetParam();
  if (row.rung) planner.ring();
  now += row.later;
  const auto trip = planner.plan(row.load, now);
  EXPECT_EQ(trip.has_value(), row.trips);
  EXPECT_EQ(trip && !trip->claims.empty(), row.claims);
}

INSTANTIATE_TEST_SUITE_P(
    Table, PlannerDecision,
    ::testing::Values(
        Decision{.name = "nothing_to_do", .load = {}},
        Decision{.name = "a_bell_claims", .load = {}, .rung = true, .trips = true, .claims = true},
        Decision{.name = "a_poll_claims",
                 .load = {},
                 .later = seconds{1},
                 .trips = true,
                 .claims = true},
        Decision{.name = "a_full_window_does_not_claim",
                 .load = {.held = 1, .running = 1},
                 .rung = true},
        Decision{.name = "too_many_bytes_do_not_claim",
                 .load = {.held = 0, .bytes = 1'000},
                 .rung = true},
        Decision{.name = "without_threads_nothing_is_claimed",
                 .load = {.has_threads = false},
                 .rung = true},
        Decision{.name = "a_stop_does_not_claim", .load = {.stopping = true}, .rung = true},
        Decision{.name = "nothing_else_to_handle_settles_at_once",
                 .load = {.finished = 1, .first_finished = start},
                 .trips = true},
        Decision{.name = "a_stop_settles_at_once",
                 .load = {.finished = 1, .first_finished = start, .stopping = true},
                 .trips = true},
        Decision{.name = "a_blocked_settlement_waits",
                 .load = {.retry_aside = start + milliseconds{200}}},
        Decision{.name = "a_blocked_settlement_is_retried",
                 .load = {.retry_aside = start + milliseconds{200}},
                 .later = milliseconds{200},
                 .trips = true},
        Decision{
            .name = "lost_leases_are_reset", .load = {.resets_lost_leases = true}, .trips = true}),
    [](const auto& row) { return row.param.name; });

TEST_F(PlannerTest, SettlementsWaitForOthersWhileThereIsMoreToHandle) {
  planner.ring();
  const auto trip = planner.plan({}, now);
  planner.add(*trip->claims.front().subscription);
  end(trip->claims.front(), 1);
  const Load one{.held = 1, .finished = 1, .first_finished = now};
  EXPECT_EQ(planner.plan(one, now), std::nullopt);
  EXPECT_EQ(planner.next_wake(one, now), now + milliseconds{5});
  EXPECT_NE(planner.plan(one, now + milliseconds{5}), std::nullopt);
  EXPECT_NE(planner.plan({.held = 1, .finished = 10, .first_finished = now}, now), std::nullopt)
      << "a batch does not wait";
}

TEST_F(PlannerTest, TheWindowStartsWithOneMessageAndDoublesWhileHandlersReturn) {
  std::vector<std::size_t> windows;
  for (int i = 0; i < 8; ++i) {
    windows.push_back(planner.window());
    planner.note_settled(1, true);
  }
  EXPECT_THAT(windows, ::testing::ElementsAre(1, 2, 4, 8, 16, 32, 40, 40))
      << "four batches at most";
  planner.note_settled(1, false);
  planner.shrink(3, now);
  EXPECT_EQ(planner.window(), 6U) << "twice what runs";
}

TEST_F(PlannerTest, HandlersThatTakeTheirTimeLetTheWindowGrowSlowly) {
  const Load busy{.held = 1, .running = 1};
  EXPECT_EQ(planner.plan(busy, now), std::nullopt);
  EXPECT_EQ(planner.next_wake(busy, now), now + milliseconds{250});
  EXPECT_EQ(planner.plan(busy, now + milliseconds{249}), std::nullopt);
  EXPECT_EQ(planner.window(), 1U);
  EXPECT_EQ(planner.plan(busy, now + milliseconds{250}), std::nullopt);
  EXPECT_EQ(planner.window(), 2U);
}

TEST_F(PlannerTest, MessagesUnderWayCountAgainstTheWindow) {
  planner.note_settled(1, true);  // two
  planner.ring();
  const auto first = planner.plan({}, now);
  EXPECT_EQ(claimed_by(*first), 2U) << "of all subscriptions together";
  planner.ring();
  EXPECT_EQ(planner.plan({}, now), std::nullopt);
  for (const auto& claim : first->claims) end(claim, 0);
  EXPECT_NE(planner.plan({}, now), std::nullopt);
}

TEST_F(PlannerTest, ASuspectIsHandledAlone) {
  const auto suspect = MessageId::generate();
  planner.note_settled(1, true);
  planner.isolate(suspect);
  EXPECT_TRUE(planner.is_suspect(suspect));
  EXPECT_FALSE(planner.is_suspect(MessageId::generate()));
  EXPECT_EQ(planner.window(), 1U);
  planner.ring();
  EXPECT_EQ(planner.plan({}, now), std::nullopt);
  planner.release(MessageId::generate());
  EXPECT_TRUE(planner.has_suspect());
  planner.release(suspect);
  EXPECT_NE(planner.plan({}, now), std::nullopt);
}

TEST_F(PlannerTest, AFailedRoundTripIsFollowedByAPauseThatGrows) {
  planner.ring();
  auto trip = planner.plan({}, now);
  planner.note_failure(*trip, 0.0, now);
  EXPECT_TRUE(planner.is_failing(now));
  const auto wake = planner.next_wake({}, now);
  EXPECT_GT(wake, now);
  EXPECT_EQ(planner.plan({}, now), std::nullopt);
  trip = planner.plan({}, wake);
  ASSERT_NE(trip, std::nullopt);
  EXPECT_FALSE(trip->claims.empty()) << "its messages were never claimed";
  planner.note_failure(*trip, 0.0, wake);
  EXPECT_GT(planner.next_wake({}, wake) - wake, wake - now);
}

TEST_F(PlannerTest, ALimitedHandlerIsClaimedForByItsRoom) {
  for (int i = 0; i < 5; ++i) planner.note_settled(1, true);
  planner.ring();
  const auto trip = planner.plan({}, now);
  ASSERT_EQ(trip->claims.size(), 2U);
  std::size_t of_limited = 0;
  for (const auto& claim : trip->claims) {
    if (claim.subscription->limited() != nullptr) of_limited = claim.plan.wanted;
  }
  EXPECT_LE(of_limited, 4U) << "two that run, and two that wait";
}

TEST_F(PlannerTest, TheBytesLeftAreSharedByThoseWhoMayClaimAtTheSameTime) {
  planner.ring();
  const auto trip = planner.plan({.held = 0, .bytes = 200}, now);
  ASSERT_EQ(trip->claims.size(), 1U) << "the window is one message";
  EXPECT_EQ(trip->max_bytes, 400) << "800 bytes, two fetchers";
}

TEST_F(PlannerTest, AMessageIsClaimedAtItsExpectedDueTime) {
  planner.ring();
  const auto trip = planner.plan({}, now);
  auto& subscription = *trip->claims.front().subscription;
  for (const auto& claim : trip->claims) end(claim, 0);
  while (const auto more = planner.plan({}, now)) {
    for (const auto& claim : more->claims) end(claim, 0);
  }
  planner.note_due_at(subscription, now + milliseconds{50});
  EXPECT_EQ(planner.plan({}, now), std::nullopt);
  EXPECT_EQ(planner.next_wake({}, now), now + milliseconds{50});
  EXPECT_NE(planner.plan({}, now + milliseconds{50}), std::nullopt);
}

TEST_F(PlannerTest, AFetcherChecksWhenNoDeliveryIsLeftToBeginAndForEachWithALimit) {
  for (int i = 0; i < 5; ++i) planner.note_settled(1, true);
  planner.ring();
  const auto trip = planner.plan({}, now);
  for (const auto& claim : trip->claims) {
    const bool limited = claim.subscription->limited() != nullptr;
    planner.add(*claim.subscription);
    planner.add(*claim.subscription);
    EXPECT_EQ(planner.begin(*claim.subscription), limited);
    EXPECT_TRUE(planner.begin(*claim.subscription));
  }
}

TEST_F(PlannerTest, AQuestionDoesNotLetTheWindowGrow) {
  const Load busy{.held = 1, .running = 1};
  const auto later = now + seconds{10};
  EXPECT_FALSE(planner.needs(busy, later).has_room);
  EXPECT_EQ(planner.window(), 1U);
  planner.grow(busy, later);
  EXPECT_EQ(planner.window(), 2U);
  EXPECT_TRUE(planner.needs(busy, later).has_room);
}

}  // namespace
}  // namespace dovetail::runtime
