// Tells the workers of other processes that messages have come, by NOTIFY.
//
// Inside an enqueuer's transaction it would be there soonest, but it makes all such commits of the
// server queue up behind each other. So that is for the first message after a quiet time only
// (take_turn); else one thread sends it after the commits, once for all that came meanwhile, and at
// most every few milliseconds.
//
// The destructor waits up to a second until the last announcement has been sent: a process that
// schedules a timer and ends wakes the workers, too.
//
// Threads: from any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "dovetail/log.hpp"

namespace dovetail::postgres {

class Notifier {
 public:
  using Send = std::function<void(const std::stop_token&)>;

  /// `send` may throw; workers then find the messages by polling. `store` is the database's name in
  /// logs.
  Notifier(Logger log, std::string store, Send send)
      : log_(std::move(log)), store_(std::move(store)), send_(std::move(send)) {}
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;
  ~Notifier();

  /// True, after a quiet time, to one caller: its transaction does it.
  [[nodiscard]] bool take_turn();
  /// Returns at once. The thread is started by the first call.
  void announce();

 private:
  void run(const std::stop_token& stop);
  void try_to_send(const std::stop_token& stop);

  Logger log_;
  std::string store_;
  Send send_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool pending_ = false;
  bool sending_ = false;
  bool failing_ = false;  // of the thread
  std::chrono::steady_clock::time_point last_{};
  std::jthread thread_;  // last: it must not outlive what it uses
};

}  // namespace dovetail::postgres
