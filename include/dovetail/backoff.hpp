// How long to wait before the next try. Pure: the caller brings the randomness, a number in [0, 1).
#pragma once

#include <chrono>

namespace dovetail {

/// `initial * 2^attempt`, never above `cap`, less a random part of up to `jitter`: messages that
/// failed together do not come back together. The defaults are the outbox's: 1 s, 2 s, 4 s … 60 s,
/// less up to 10 %.
struct ExponentialBackoff {
  std::chrono::milliseconds initial{1'000};
  std::chrono::milliseconds cap{60'000};
  double jitter = 0.1;

  /// `attempt` counts the failures so far; a negative one counts as none.
  [[nodiscard]] std::chrono::milliseconds delay(int attempt, double random) const;
};

/// Anything between zero and `initial * 2^attempt`, never above `cap`: spreads a crowd that lost
/// the same server.
struct FullJitterBackoff {
  std::chrono::milliseconds initial{50};
  std::chrono::milliseconds cap{5'000};

  [[nodiscard]] std::chrono::milliseconds delay(int attempt, double random) const;
};

}  // namespace dovetail
