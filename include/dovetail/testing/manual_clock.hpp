// A clock that moves only when a test moves it.
//
// Guarantees
//   * `advance` moves wall and monotonic time together and wakes every sleeper whose deadline has
//     passed.
//   * `jump_wall` moves the wall clock alone, in either direction, like an administrator or NTP.
//
// Threads: a ManualClock may be shared between threads.
#pragma once

#include <condition_variable>
#include <mutex>

#include "dovetail/clock.hpp"

namespace dovetail::testing {

class ManualClock final : public Clock {
 public:
  explicit ManualClock(WallTime start = WallTime{std::chrono::seconds{1'700'000'000}})
      : wall_(start) {}

  [[nodiscard]] WallTime wall() const override;
  [[nodiscard]] MonoTime mono() const override;
  bool sleep_until(MonoTime deadline, const std::stop_token& stop) override;
  void wait_until(std::condition_variable_any& condition, std::unique_lock<std::mutex>& lock,
                  MonoTime deadline) override;

  void advance(std::chrono::microseconds by);
  void jump_wall(std::chrono::microseconds by);

  /// The number of threads inside `sleep_until`.
  [[nodiscard]] int sleepers() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any moved_;
  WallTime wall_;
  MonoTime mono_{};
  int sleepers_ = 0;
};

}  // namespace dovetail::testing
