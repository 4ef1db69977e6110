#include "group/agenda.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "dovetail/testing/manual_clock.hpp"
#include "support/eventually.hpp"

namespace dovetail::group {
namespace {

using namespace std::chrono_literals;
using testing::eventually;

/// The time advances only when a test moves it.
class AgendaTest : public ::testing::Test {
 protected:
  /// Moves the time until `condition` holds.
  bool passes_until(const std::function<bool()>& condition) {
    return eventually([&] {
      clock.advance(100ms);
      return condition();
    });
  }

  testing::ManualClock clock;
};

TEST_F(AgendaTest, AWakeUpDuringAStepIsNotLost) {
  Agenda agenda(clock, {.threads = 1});
  std::atomic<int> steps = 0;
  std::atomic<bool> go = false;
  const auto task = agenda.add(
      [&](const std::stop_token&) {
        if (++steps == 1) go.wait(false);
        return MonoTime::max();
      },
      MonoTime{});
  agenda.start();
  ASSERT_TRUE(eventually([&] { return steps == 1; }));
  agenda.wake_by(task, clock.mono());
  go = true;
  go.notify_all();
  EXPECT_TRUE(eventually([&] { return steps == 2; }));
  agenda.remove(task);
}

TEST_F(AgendaTest, StepsThatHangDoNotDelayTheOthers) {
  Agenda agenda(clock, {.threads = 1});
  std::atomic<bool> go = false;
  std::vector<Agenda::TaskPtr> tasks;
  for (int i = 0; i < 5; ++i) {
    tasks.push_back(agenda.add(
        [&](const std::stop_token&) {
          go.wait(false);
          return MonoTime::max();
        },
        MonoTime{}));
  }
  std::atomic<int> steps = 0;
  tasks.push_back(agenda.add(
      [&](const std::stop_token&) {
        ++steps;
        return clock.mono() + 100ms;
      },
      MonoTime{}));
  agenda.start();
  EXPECT_TRUE(passes_until([&] { return steps >= 10; }));
  go = true;
  go.notify_all();
  for (const auto& task : tasks) agenda.remove(task);
}

/// A step that ends when its stop is requested.
MonoTime until_stopped(const std::stop_token& stop) {
  eventually([&] { return stop.stop_requested(); });
  return MonoTime{};
}

TEST_F(AgendaTest, AStepIsToldToStopAtTheLimit) {
  Agenda agenda(clock, {.threads = 1, .step_limit = 5s});
  std::atomic<int> ended = 0;
  const auto task = agenda.add(
      [&](const std::stop_token& stop) {
        const auto next = until_stopped(stop);
        ++ended;
        return next;
      },
      MonoTime{});
  agenda.start();
  EXPECT_TRUE(passes_until([&] { return ended == 2; }));
  agenda.remove(task);
}

TEST_F(AgendaTest, ATaskMaySayWhenItsStepsAreOver) {
  Agenda agenda(clock, {.threads = 1, .step_limit = 5s});
  std::mutex mutex;
  std::vector<int> previous_stops;
  const auto task = agenda.add(until_stopped, MonoTime{}, [&](const Agenda::LongStep& step) {
    EXPECT_EQ(step.limit, MonoDuration{5s});
    if (step.took < 20s) return false;  // longer than the limit
    const std::lock_guard lock(mutex);
    previous_stops.push_back(step.previous_stops);
    return true;
  });
  agenda.start();
  EXPECT_TRUE(passes_until([&] {
    const std::lock_guard lock(mutex);
    return !previous_stops.empty() && previous_stops.back() == 2;
  })) << "it counts the steps that were told to stop";
  EXPECT_EQ(previous_stops.front(), 0);
  agenda.remove(task);
}

}  // namespace
}  // namespace dovetail::group
