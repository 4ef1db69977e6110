#include "dovetail/clock.hpp"

#include <array>
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "dovetail/testing/manual_clock.hpp"

namespace dovetail {
namespace {

class SystemClock final : public Clock {
 public:
  [[nodiscard]] WallTime wall() const override {
    return std::chrono::time_point_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now());
  }
  [[nodiscard]] MonoTime mono() const override { return std::chrono::steady_clock::now(); }

  bool sleep_until(MonoTime deadline, const std::stop_token& stop) override {
    std::mutex mutex;
    std::condition_variable_any never_notified;
    std::unique_lock lock(mutex);
    never_notified.wait_until(lock, stop, deadline, [] { return false; });
    return !stop.stop_requested();
  }
};

}  // namespace

void Clock::wait_until(std::condition_variable_any& condition, std::unique_lock<std::mutex>& lock,
                       MonoTime deadline) {
  condition.wait_until(lock, deadline);
}

std::string to_string(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{time - day};
  std::array<char, 40> text{};
  const int length = std::snprintf(
      text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ",
      static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
      static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
      static_cast<int>(clock.minutes().count()), static_cast<int>(clock.seconds().count()),
      static_cast<int>(clock.subseconds().count()));
  return {text.data(), static_cast<std::size_t>(length)};
}

std::shared_ptr<Clock> system_clock() {
  static const auto clock = std::make_shared<SystemClock>();
  return clock;
}

namespace testing {

WallTime ManualClock::wall() const {
  std::lock_guard lock(mutex_);
  return wall_;
}

MonoTime ManualClock::mono() const {
  std::lock_guard lock(mutex_);
  return mono_;
}

bool ManualClock::sleep_until(MonoTime deadline, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  ++sleepers_;
  moved_.wait(lock, stop, [&] { return mono_ >= deadline; });
  --sleepers_;
  return !stop.stop_requested();
}

void ManualClock::wait_until(std::condition_variable_any& condition,
                             std::unique_lock<std::mutex>& lock, MonoTime deadline) {
  // advance() cannot notify the caller's condition variable. So the wait is short, and the caller
  // checks again.
  if (mono() < deadline) condition.wait_for(lock, std::chrono::milliseconds{1});
}

void ManualClock::advance(std::chrono::microseconds by) {
  {
    std::lock_guard lock(mutex_);
    wall_ += by;
    mono_ += by;
  }
  moved_.notify_all();
}

void ManualClock::jump_wall(std::chrono::microseconds by) {
  std::lock_guard lock(mutex_);
  wall_ += by;
}

int ManualClock::sleepers() const {
  std::lock_guard lock(mutex_);
  return sleepers_;
}

}  // namespace testing
}  // namespace dovetail
