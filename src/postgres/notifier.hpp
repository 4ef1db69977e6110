// Tells the workers of other processes that messages have come, by NOTIFY.
//
// Inside an enqueuer's transaction it would be there soonest, but it makes all such commits of the server
// queue up behind each other. So that is for the first message after a quiet time only (take_turn); else one
// thread sends it after the commits, once for all that came meanwhile, and at most every few milliseconds.
//
// Threads: from any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace dovetail::postgres {

class Notifier {
 public:
  /// `send` may throw; it is then left to polling.
  explicit Notifier(std::function<void(const std::stop_token&)> send) : send_(std::move(send)) {}
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  /// True, after a quiet time, to one caller: its transaction does it.
  [[nodiscard]] bool take_turn();
  /// Returns at once. The thread is started by the first call.
  void announce();

 private:
  void run(const std::stop_token& stop);

  std::function<void(const std::stop_token&)> send_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool pending_ = false;
  std::chrono::steady_clock::time_point last_{};
  std::jthread thread_;  // last: it must not outlive what it uses
};

}  // namespace dovetail::postgres
