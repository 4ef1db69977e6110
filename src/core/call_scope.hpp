// Limits for the database calls of a thread, for callers whose patience is not that of the process:
// a request of the server ends after seconds, and when the server stops.
//
//   const core::CallScope scope({.stop = stop, .retry_for = std::chrono::seconds{2}});
//   platform.outbox().counts();   // cancelled by `stop`, and retried for two seconds at most
//
// A call that has a stop token of its own keeps it.
#pragma once

#include <algorithm>
#include <chrono>
#include <stop_token>

namespace dovetail::core {

struct CallLimits {
  std::stop_token stop{};
  std::chrono::milliseconds retry_for = std::chrono::milliseconds::max();
};

class CallScope {
 public:
  explicit CallScope(CallLimits limits) : limits_(std::move(limits)), outer_(current()) {
    current() = &limits_;
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope() { current() = outer_; }

  /// The token of the call, or that of the scope, or the default.
  [[nodiscard]] static std::stop_token stop_of(const std::stop_token& call,
                                               const std::stop_token& otherwise = {}) {
    if (call.stop_possible()) return call;
    const auto* limits = current();
    return limits != nullptr && limits->stop.stop_possible() ? limits->stop : otherwise;
  }
  /// How long this thread retries at most.
  [[nodiscard]] static std::chrono::milliseconds retry_for(std::chrono::milliseconds of_database) {
    return current() == nullptr ? of_database : std::min(of_database, current()->retry_for);
  }

 private:
  /// The limits of this thread.
  static const CallLimits*& current() {
    static thread_local const CallLimits* limits = nullptr;
    return limits;
  }

  const CallLimits limits_;
  const CallLimits* const outer_;
};

}  // namespace dovetail::core
