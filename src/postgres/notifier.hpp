// Tells the workers of other processes that messages have come: NOTIFY, outside of the enqueuers'
// transactions.
//
// A NOTIFY inside a transaction makes all commits of the server queue up behind each other. Here one thread
// sends it after the commit, once for all that came meanwhile, and at most every few milliseconds.
//
// Threads: announce() from any.
#pragma once

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

  /// Returns at once. The thread is started by the first call.
  void announce();

 private:
  void run(const std::stop_token& stop);

  std::function<void(const std::stop_token&)> send_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool pending_ = false;
  std::jthread thread_;  // last: it must not outlive what it uses
};

}  // namespace dovetail::postgres
