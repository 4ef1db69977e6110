#include "dovetail/backoff.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace {

using namespace dovetail;
using namespace std::chrono_literals;

constexpr int huge = std::numeric_limits<int>::max();
constexpr double almost_one = 1.0 - 1e-12;

/// The formula of the specification, in milliseconds.
std::chrono::milliseconds specified(int attempt) {
  return std::chrono::milliseconds{
      static_cast<long>(std::min(std::pow(2.0, attempt), 60.0) * 1'000)};
}

TEST(ExponentialBackoff, OBX_062_DefaultDelayDoublesUpToOneMinute) {
  const ExponentialBackoff backoff;
  for (int attempt = 0; attempt <= 40; ++attempt) {
    EXPECT_EQ(backoff.delay(attempt, 0.0), specified(attempt)) << attempt;
    EXPECT_GE(backoff.delay(attempt, almost_one), specified(attempt) * 9 / 10) << attempt;
    EXPECT_LT(backoff.delay(attempt, 0.5), specified(attempt)) << attempt;
  }
}

TEST(ExponentialBackoff, TakesTheWholeJitterAwayAtMost) {
  const ExponentialBackoff backoff{.initial = 10s, .cap = 60s, .jitter = 0.5};
  EXPECT_EQ(backoff.delay(0, 0.0), 10s);
  EXPECT_EQ(backoff.delay(0, 0.5), 7500ms);
  EXPECT_NEAR(static_cast<double>(backoff.delay(0, almost_one).count()), 5'000, 1);
}

TEST(ExponentialBackoff, WithoutJitterIgnoresTheRandomNumber) {
  const ExponentialBackoff backoff{.jitter = 0.0};
  EXPECT_EQ(backoff.delay(3, 0.0), 8s);
  EXPECT_EQ(backoff.delay(3, almost_one), 8s);
}

TEST(ExponentialBackoff, CountsANegativeAttemptAsNone) {
  const ExponentialBackoff backoff;
  EXPECT_EQ(backoff.delay(-1, 0.0), 1s);
  EXPECT_EQ(backoff.delay(std::numeric_limits<int>::min(), 0.0), 1s);
}

TEST(ExponentialBackoff, StaysAtTheCapForHugeAttempts) {
  EXPECT_EQ(ExponentialBackoff{}.delay(64, 0.0), 60s);
  EXPECT_EQ(ExponentialBackoff{}.delay(huge, 0.0), 60s);
  const ExponentialBackoff years{
      .initial = 1ms, .cap = std::chrono::hours{24 * 365 * 100}, .jitter = 0.0};
  EXPECT_EQ(years.delay(huge, 0.0), years.cap);
}

TEST(ExponentialBackoff, NeverExceedsACapBelowTheInitialDelay) {
  const ExponentialBackoff backoff{.initial = 10s, .cap = 3s};
  EXPECT_EQ(backoff.delay(0, 0.0), 3s);
  EXPECT_EQ(backoff.delay(5, 0.0), 3s);
}

TEST(ExponentialBackoff, ReachesACapThatIsNoPowerOfTwo) {
  const ExponentialBackoff backoff{.initial = 1ms, .cap = 3ms, .jitter = 0.0};
  EXPECT_EQ(backoff.delay(0, 0.0), 1ms);
  EXPECT_EQ(backoff.delay(1, 0.0), 2ms);
  EXPECT_EQ(backoff.delay(2, 0.0), 3ms);
  EXPECT_EQ(backoff.delay(3, 0.0), 3ms);
}

TEST(FullJitterBackoff, SpreadsFromZeroToTheDoubledDelay) {
  const FullJitterBackoff backoff;
  for (int attempt = 0; attempt < 6; ++attempt) {
    const auto whole = 50ms * (1 << attempt);
    EXPECT_EQ(backoff.delay(attempt, 0.0), 0ms) << attempt;
    EXPECT_EQ(backoff.delay(attempt, 0.5), whole / 2) << attempt;
    EXPECT_GE(backoff.delay(attempt, almost_one), whole - 1ms) << attempt;
    EXPECT_LE(backoff.delay(attempt, almost_one), whole) << attempt;
  }
}

TEST(FullJitterBackoff, NeverWaitsLongerThanFiveSeconds) {
  const FullJitterBackoff backoff;
  for (const int attempt : {7, 8, 31, 32, 63, 64, 1'000, huge}) {
    EXPECT_LE(backoff.delay(attempt, almost_one), 5s) << attempt;
    EXPECT_EQ(backoff.delay(attempt, 0.5), 2500ms) << attempt;
  }
}

TEST(FullJitterBackoff, CountsANegativeAttemptAsNone) {
  EXPECT_EQ(FullJitterBackoff{}.delay(-7, 0.5), 25ms);
  EXPECT_EQ(FullJitterBackoff{}.delay(std::numeric_limits<int>::min(), 0.5), 25ms);
}

TEST(FullJitterBackoff, OfZeroDoesNotWait) {
  const FullJitterBackoff none{.initial = 0ms, .cap = 0ms};
  EXPECT_EQ(none.delay(0, almost_one), 0ms);
  EXPECT_EQ(none.delay(huge, almost_one), 0ms);
}

}  // namespace
