// Logins wait here for their turn. Checking a password takes long on purpose: one thread does it,
// so that guessing does not use up the threads of other requests.
//
// Guarantees
//   * One address holds a few of the places at most: others still get theirs.
//   * A login waits for a limited time.
//
// Threads: may be shared between threads.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "server/request_threads.hpp"

namespace dovetail::server {

class LoginQueue {
 public:
  static constexpr std::size_t max_waiting = 16;
  static constexpr std::size_t max_of_peer = 4;  ///< Waiting or under way.
  static constexpr std::chrono::milliseconds default_max_wait{2'000};

  explicit LoginQueue(std::chrono::milliseconds max_wait = default_max_wait)
      : max_wait_(max_wait) {}

  /// Calls `login(in_time)` in the thread of the logins; `in_time` is false when it has waited too
  /// long. Returns false when too many wait already, or too many of this address.
  [[nodiscard]] bool try_run(const std::string& peer, std::function<void(bool in_time)> login);

 private:
  [[nodiscard]] bool try_enter(const std::string& peer);
  void leave(const std::string& peer);

  const std::chrono::milliseconds max_wait_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> by_peer_;                         ///< Under mutex_.
  RequestThreads thread_{{.threads = 1, .max_waiting = max_waiting}};  ///< Ends first.
};

}  // namespace dovetail::server
