#include "dovetail/clock.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/testing/manual_clock.hpp"

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using dovetail::testing::ManualClock;

void wait_for_sleepers(const ManualClock& clock, int count) {
  while (clock.sleepers() != count) std::this_thread::yield();
}

std::future<bool> sleep_in_background(Clock& clock, MonoDuration duration,
                                      std::stop_token stop = {}) {
  return std::async(std::launch::async,
                    [&clock, duration, stop] { return clock.sleep_for(duration, stop); });
}

TEST(ManualClock, StandsStillUntilItIsMoved) {
  const WallTime start{5s};
  ManualClock clock{start};
  const auto mono = clock.mono();
  EXPECT_EQ(clock.wall(), start);
  EXPECT_EQ(clock.mono(), mono);
}

TEST(ManualClock, AdvanceMovesBothTimes) {
  ManualClock clock{WallTime{5s}};
  const auto mono = clock.mono();
  clock.advance(1500us);
  EXPECT_EQ(clock.wall(), WallTime{5s + 1500us});
  EXPECT_EQ(clock.mono(), mono + 1500us);
}

TEST(ManualClock, JumpWallMovesTheWallAloneInEitherDirection) {
  ManualClock clock{WallTime{100s}};
  const auto mono = clock.mono();
  clock.jump_wall(1h);
  EXPECT_EQ(clock.wall(), WallTime{100s + 1h});
  clock.jump_wall(-2h);
  EXPECT_EQ(clock.wall(), WallTime{100s - 1h});
  EXPECT_EQ(clock.mono(), mono);
}

TEST(ManualClock, AdvanceWakesEverySleeperItReached) {
  ManualClock clock;
  std::vector<std::future<bool>> sleepers;
  for (int i = 1; i <= 3; ++i) sleepers.push_back(sleep_in_background(clock, i * 1s));
  wait_for_sleepers(clock, 3);
  clock.advance(3s);
  for (auto& sleeper : sleepers) EXPECT_TRUE(sleeper.get());
  EXPECT_EQ(clock.sleepers(), 0);
}

TEST(ManualClock, AdvanceLeavesSleepersItDidNotReachAsleep) {
  ManualClock clock;
  std::stop_source stop;
  auto reached = sleep_in_background(clock, 1s);
  auto beyond = sleep_in_background(clock, 2s, stop.get_token());
  wait_for_sleepers(clock, 2);
  clock.advance(1999ms);
  EXPECT_TRUE(reached.get());
  EXPECT_EQ(clock.sleepers(), 1);
  stop.request_stop();
  EXPECT_FALSE(beyond.get());
}

TEST(ManualClock, JumpWallWakesNobody) {
  ManualClock clock;
  std::stop_source stop;
  auto sleeper = sleep_in_background(clock, 1s, stop.get_token());
  wait_for_sleepers(clock, 1);
  clock.jump_wall(24h);
  EXPECT_EQ(clock.sleepers(), 1);
  stop.request_stop();
  EXPECT_FALSE(sleeper.get());
}

/// The guarantees of every clock about waiting.
class SleepUntil : public ::testing::TestWithParam<std::string> {
 protected:
  ManualClock manual;
  Clock& clock = GetParam() == "Manual" ? manual : *system_clock();
};

TEST_P(SleepUntil, ReturnsAtOnceForADeadlineThatIsPast) {
  EXPECT_TRUE(clock.sleep_until(clock.mono(), {}));
  EXPECT_TRUE(clock.sleep_for(-1h));
}

TEST_P(SleepUntil, ReturnsFalseWhenStopWasRequestedBefore) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(clock.sleep_for(1h, stop.get_token()));
}

TEST_P(SleepUntil, ReturnsFalseWhenStopIsRequestedMeanwhile) {
  std::stop_source stop;
  auto sleeper = sleep_in_background(clock, 1h, stop.get_token());
  stop.request_stop();
  EXPECT_FALSE(sleeper.get());
}

INSTANTIATE_TEST_SUITE_P(Clocks, SleepUntil, ::testing::Values("Manual", "System"),
                         [](const auto& test) { return test.param; });

TEST(SystemClock, DoesNotReturnBeforeTheDeadline) {
  const auto clock = system_clock();
  const auto deadline = clock->mono() + 1ms;
  EXPECT_TRUE(clock->sleep_until(deadline, {}));
  EXPECT_GE(clock->mono(), deadline);
}

TEST(MonoDeadline, CountsDownToZeroAndNeverBelow) {
  ManualClock clock;
  const MonoDeadline deadline{clock, 10s};
  EXPECT_EQ(deadline.remaining(), 10s);
  clock.advance(4s);
  EXPECT_EQ(deadline.remaining(), 6s);
  clock.advance(6s);
  EXPECT_EQ(deadline.remaining(), 0s);
  clock.advance(1h);
  EXPECT_EQ(deadline.remaining(), 0s);
}

TEST(MonoDeadline, ExpiresExactlyWhenNothingRemains) {
  ManualClock clock;
  const MonoDeadline deadline{clock, 1s};
  clock.advance(1s - 1us);
  EXPECT_FALSE(deadline.expired());
  clock.advance(1us);
  EXPECT_TRUE(deadline.expired());
}

TEST(MonoDeadline, InThePastIsExpiredAndNotNegative) {
  const ManualClock clock;
  const MonoDeadline deadline{clock, -5s};
  EXPECT_TRUE(deadline.expired());
  EXPECT_EQ(deadline.remaining(), 0s);
  EXPECT_EQ(deadline.at(), clock.mono() - 5s);
}

TEST(MonoDeadline, IsNotMovedByTheWallClock) {
  ManualClock clock;
  const MonoDeadline deadline{clock, 1s};
  clock.jump_wall(24h);
  EXPECT_FALSE(deadline.expired());
  EXPECT_EQ(deadline.remaining(), 1s);
}

WallTime midnight(int year, unsigned month, unsigned day) {
  return std::chrono::sys_days{std::chrono::year{year} / std::chrono::month{month} /
                               std::chrono::day{day}};
}

TEST(WallTimeToString, IsIso8601WithSixDecimals) {
  EXPECT_EQ(to_string(WallTime{}), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(to_string(WallTime{1us}), "1970-01-01T00:00:00.000001Z");
  EXPECT_EQ(to_string(WallTime{1'769'851'800s}), "2026-01-31T09:30:00.000000Z");
  EXPECT_EQ(to_string(WallTime{1'700'000'000'123'456us}), "2023-11-14T22:13:20.123456Z");
  EXPECT_EQ(to_string(midnight(2024, 2, 29) + 86'399s), "2024-02-29T23:59:59.000000Z");
}

TEST(WallTimeToString, CountsForwardsWithinDaysBefore1970) {
  EXPECT_EQ(to_string(WallTime{-1us}), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(to_string(WallTime{-24h}), "1969-12-31T00:00:00.000000Z");
  EXPECT_EQ(to_string(midnight(1900, 1, 1) + 1s + 5us), "1900-01-01T00:00:01.000005Z");
  EXPECT_EQ(to_string(midnight(987, 6, 5)), "0987-06-05T00:00:00.000000Z");
}

}  // namespace
