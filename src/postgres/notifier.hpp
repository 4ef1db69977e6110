// Tells the workers of other processes that messages of a queue may be due, by NOTIFY.
//
// A NOTIFY inside an enqueuer's transaction arrives soonest, but the server commits transactions
// with a NOTIFY one after the other. So only the first message after a quiet time is announced
// inside (take_turn). Otherwise a thread sends one NOTIFY per queue after the commits, for all
// messages that came meanwhile, and at most every few milliseconds.
//
// The destructor waits up to a second until the last announcement is sent, so that a process that
// schedules a timer and ends wakes the workers, too.
//
// Pauses and quiet times are measured by the system's clock: they limit the load of the server.
//
// Threads: from any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dovetail/log.hpp"

namespace dovetail::postgres {

class Notifier {
 public:
  using Queues = std::vector<std::string>;
  using Send = std::function<void(const Queues& queues, const std::stop_token& stop)>;

  /// `send` may throw; workers then find the messages by polling. `store` is the database's name in
  /// logs.
  Notifier(Logger log, std::string store, Send send)
      : log_(std::move(log)), store_(std::move(store)), send_(std::move(send)) {}
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;
  ~Notifier();

  /// Returns true to one caller after a quiet period of `queue`. That caller's transaction sends
  /// the NOTIFY.
  [[nodiscard]] bool take_turn(std::string_view queue);
  /// Returns at once. The first call starts the thread.
  void announce(std::string_view queue);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct State {
    bool pending = false;
    TimePoint last{};  ///< When it was last announced.
  };
  State& state_of(std::string_view queue);
  [[nodiscard]] Queues take_pending();
  void run(const std::stop_token& stop);
  void try_to_send(const Queues& queues, const std::stop_token& stop);

  Logger log_;
  std::string store_;
  Send send_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, State, std::less<>> states_;
  bool pending_ = false;  // of any queue
  bool sending_ = false;
  bool failing_ = false;  // of the thread
  std::jthread thread_;   // last: it must not outlive what it uses
};

}  // namespace dovetail::postgres
