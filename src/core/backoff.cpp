#include "dovetail/backoff.hpp"

#include <algorithm>
#include <cstdint>

namespace dovetail {
namespace {

/// `initial * 2^attempt`, saturating at `cap` long before it could overflow.
std::chrono::milliseconds doubled(std::chrono::milliseconds initial, std::chrono::milliseconds cap,
                                  int attempt) {
  auto delay = std::min(initial, cap);
  if (delay <= std::chrono::milliseconds::zero()) return std::chrono::milliseconds::zero();
  for (int i = 0; i < attempt && delay < cap; ++i) delay = delay > cap / 2 ? cap : delay * 2;
  return delay;
}

std::chrono::milliseconds scaled(std::chrono::milliseconds delay, double factor) {
  return std::chrono::milliseconds{
      static_cast<std::int64_t>(static_cast<double>(delay.count()) * factor)};
}

}  // namespace

std::chrono::milliseconds ExponentialBackoff::delay(int attempt, double random) const {
  return scaled(doubled(initial, cap, attempt), 1.0 - jitter * random);
}

std::chrono::milliseconds FullJitterBackoff::delay(int attempt, double random) const {
  return scaled(doubled(initial, cap, attempt), random);
}

}  // namespace dovetail
