// Log records that clients cause: a limit per minute, so that they cannot fill the disk.
//
// Threads: may be shared between threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/text.hpp"

namespace dovetail::server {

class LogLimit {
 public:
  using Steady = std::chrono::steady_clock;

  explicit LogLimit(std::size_t per_minute) : per_minute_(per_minute) {}

  /// Whether a record may be written now. Returns the number of those that were not written since
  /// the last one.
  [[nodiscard]] std::optional<std::size_t> admit(Steady::time_point now = Steady::now()) {
    const std::lock_guard lock(mutex_);
    if (now - began_at_ >= std::chrono::minutes{1}) {
      began_at_ = now;
      written_ = 0;
    }
    if (written_ >= per_minute_) {
      ++suppressed_;
      return std::nullopt;
    }
    ++written_;
    return std::exchange(suppressed_, 0);
  }

 private:
  const std::size_t per_minute_;
  std::mutex mutex_;
  Steady::time_point began_at_ = Steady::now();
  std::size_t written_ = 0;
  std::size_t suppressed_ = 0;
};

/// Text of a client for the log: short, valid UTF-8, on one line.
[[nodiscard]] inline std::string loggable(std::string_view text, std::size_t limit) {
  auto shown = core::printable(core::trimmed(text, limit));
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    const auto next = i + 1 < shown.size() ? static_cast<unsigned char>(shown[i + 1]) : 0U;
    if (byte < 0x20 || byte == 0x7F) shown[i] = '?';
    if (byte == 0xC2 && next < 0xA0) shown.replace(i, 2, "?");  // U+0080 to U+009F
  }
  return shown;
}

}  // namespace dovetail::server
