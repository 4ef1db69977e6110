// Waits for events on other threads.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace dovetail::testing {

/// Waits until `condition` is true. The time limit is long enough for a slow machine.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::seconds patience = std::chrono::seconds{30}) {
  const auto give_up_at = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up_at) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return true;
}

}  // namespace dovetail::testing
