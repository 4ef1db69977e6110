// Delays before a retry. The functions are pure: the caller passes a random number in [0, 1).
#pragma once

#include <chrono>

namespace dovetail {

/// `initial * 2^attempt`, limited to `cap`, minus a random part of up to `jitter`. The random part
/// keeps messages that failed together from returning together. The defaults are the outbox's: 1 s,
/// 2 s, 4 s … 60 s, minus up to 10 %.
struct ExponentialBackoff {
  std::chrono::milliseconds initial{1'000};
  std::chrono::milliseconds cap{60'000};
  double jitter = 0.1;

  /// `attempt` is the number of failures so far. A negative number counts as zero.
  [[nodiscard]] std::chrono::milliseconds delay(int attempt, double random) const;
};

/// A random delay between zero and `initial * 2^attempt`, limited to `cap`. It spreads the
/// reconnects of many clients that lost the same server.
struct FullJitterBackoff {
  std::chrono::milliseconds initial{50};
  std::chrono::milliseconds cap{5'000};

  [[nodiscard]] std::chrono::milliseconds delay(int attempt, double random) const;
};

}  // namespace dovetail
