// Clocks: the time that Dovetail uses.
//
// Dovetail takes the time from a Clock, so that a test can control it. The following use the
// system's monotonic clock, because a test's clock must not block them, or would measure nothing:
//   * A thread that only waits for another thread: for a free connection, for the turn of its
//     message in a group commit.
//   * Time limits of I/O: of a connection attempt, of a call, of the lock of a file.
//   * Measured times of I/O that adapt pauses and the size of batches: the time of a commit, of a
//     portion of housekeeping.
//
// The wall clock gives instants in UTC. It may jump. The monotonic clock measures durations and
// never goes back. Every local deadline uses the monotonic clock.
//
// Threads: a Clock may be shared between threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

namespace dovetail {

/// An instant in UTC with microsecond precision, the finest that both engines store.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;
using MonoTime = std::chrono::steady_clock::time_point;
using MonoDuration = std::chrono::steady_clock::duration;

/// ISO 8601 in UTC with six decimals: `2026-01-31T09:30:00.000000Z`.
[[nodiscard]] std::string to_string(WallTime time);

class Clock {
 public:
  virtual ~Clock() = default;

  [[nodiscard]] virtual WallTime wall() const = 0;
  [[nodiscard]] virtual MonoTime mono() const = 0;

  /// Blocks until the monotonic clock reaches `deadline` (returns true) or `stop` is requested
  /// (returns false).
  virtual bool sleep_until(MonoTime deadline, const std::stop_token& stop) = 0;

  /// Waits until `condition` is notified or the monotonic clock reaches `deadline`. Like every wait
  /// on a condition variable, it may return earlier.
  virtual void wait_until(std::condition_variable_any& condition,
                          std::unique_lock<std::mutex>& lock, MonoTime deadline);

  bool sleep_for(MonoDuration duration, const std::stop_token& stop = {}) {
    return sleep_until(mono() + duration, stop);
  }
};

/// The operating system's clocks.
[[nodiscard]] std::shared_ptr<Clock> system_clock();

/// A deadline on the monotonic clock. A plain value; the clock must outlive it.
class MonoDeadline {
 public:
  MonoDeadline(const Clock& clock, MonoDuration from_now)
      : clock_(&clock), at_(clock.mono() + from_now) {}

  [[nodiscard]] MonoTime at() const { return at_; }
  [[nodiscard]] bool expired() const { return clock_->mono() >= at_; }
  /// Never negative.
  [[nodiscard]] MonoDuration remaining() const {
    auto left = at_ - clock_->mono();
    return left > MonoDuration::zero() ? left : MonoDuration::zero();
  }

 private:
  const Clock* clock_;
  MonoTime at_;
};

}  // namespace dovetail
