// LoopProgress: when a background loop counts as late.
#include "core/loop_progress.hpp"

#include <gtest/gtest.h>

#include "dovetail/testing/manual_clock.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;

class LoopProgressTest : public ::testing::Test {
 protected:
  [[nodiscard]] MonoDuration overdue() const { return progress.look().overdue; }
  ManualClock clock;
  core::LoopProgress progress{clock};
};

TEST_F(LoopProgressTest, ALoopThatRestsOnTimeIsNotLate) {
  clock.advance(1h);
  EXPECT_EQ(overdue(), 0s) << "it has not begun";
  progress.begin();
  progress.rest(clock.mono() + 10s);
  clock.advance(10s);
  EXPECT_EQ(overdue(), 0s);
  EXPECT_EQ(progress.look().last, clock.mono());
  clock.advance(5s);
  EXPECT_EQ(overdue(), 5s);
  EXPECT_EQ(progress.look().last, clock.mono() - 15s);
}

TEST_F(LoopProgressTest, ARoundIsLateFromItsBeginning) {
  progress.begin();
  clock.advance(7s);
  EXPECT_EQ(overdue(), 7s);
  core::LoopProgress::note_current();
  EXPECT_EQ(overdue(), 0s) << "a call of the database has succeeded";
  clock.advance(2s);
  EXPECT_EQ(overdue(), 2s);
  progress.rest(MonoTime::max());
  clock.advance(1h);
  EXPECT_EQ(overdue(), 0s);
  core::LoopProgress::note_current();  // no round is under way
}

TEST_F(LoopProgressTest, ACallMakesTheNextRoundDueEarlier) {
  progress.rest(MonoTime::max());
  clock.advance(10s);
  progress.due_by(MonoTime::min());
  EXPECT_EQ(overdue(), 0s) << "not before now";
  clock.advance(4s);
  EXPECT_EQ(overdue(), 4s);
  progress.rest(clock.mono() + 1s);
  progress.due_by(clock.mono() + 5s);
  clock.advance(2s);
  EXPECT_EQ(overdue(), 1s);
}

TEST_F(LoopProgressTest, TheCodeOfAUserMayTakeAnyTime) {
  progress.begin();
  {
    const core::LoopProgress::Aside aside(progress);
    clock.advance(1h);
    EXPECT_EQ(overdue(), 0s);
  }
  clock.advance(3s);
  EXPECT_EQ(overdue(), 3s);
  progress.rest(MonoTime::max());
  {
    const core::LoopProgress::Aside aside(progress);  // not in a round: changes nothing
  }
  clock.advance(3s);
  EXPECT_EQ(overdue(), 0s);
}

}  // namespace
}  // namespace dovetail::testing
