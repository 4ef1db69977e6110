// Work through many rows in small transactions.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stop_token>
#include <type_traits>

#include "dovetail/clock.hpp"
#include "storage/database.hpp"

namespace dovetail::storage {

inline constexpr int portion = 1'000;  // rows in one transaction, at most

// On an engine with one writer, all other writers wait for such a transaction. There it takes a few
// milliseconds, and a pause follows in which the others write. Both are measured by the system's
// clock, not by Database::clock(): the other writers wait in real time.
inline constexpr int first_portion = 50;
inline constexpr int smallest_portion = 10;
inline constexpr std::chrono::microseconds portion_time{2'000};
inline constexpr int pause_share = 3;  // a pause is this many times as long as the transaction
inline constexpr std::chrono::milliseconds shortest_portion_pause{2};
inline constexpr std::chrono::milliseconds longest_portion_pause{200};

/// The number of rows of the next transaction, if `rows` took this long.
[[nodiscard]] inline int next_portion(int rows, MonoDuration took) {
  const double factor = std::chrono::duration<double>{portion_time} /
                        std::max<std::chrono::duration<double>>(took, std::chrono::microseconds{1});
  return static_cast<int>(
      std::clamp(rows * std::min(factor, 2.0), double{smallest_portion}, double{portion}));
}

/// Pauses after a housekeeping transaction of this length, so that other writers get their turn.
/// Returns false if `stop` was requested.
inline bool pause_between_portions(MonoDuration took, const std::stop_token& stop) {
  const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(took * pause_share);
  return system_clock()->sleep_for(std::clamp(pause, shortest_portion_pause, longest_portion_pause),
                                   stop);
}

/// Calls `call(session, most)` in one transaction after the other, until no rows are left or `stop`
/// is requested. Each call handles up to `most` rows and returns their number. Returns the total. A
/// call without `most` handles up to `portion` rows.
template <class SomeDatabase, class Call>
std::size_t in_portions(SomeDatabase& database, const Call& call,
                        const std::stop_token& stop = {}) {
  constexpr bool takes_most = std::is_invocable_v<const Call&, WriteSession&, int>;
  const bool one_writer = database.transactions_exclude_writers();
  int most = takes_most && one_writer ? first_portion : portion;
  std::size_t total = 0;
  while (!stop.stop_requested()) {
    std::size_t count = 0;
    MonoDuration took{};
    database.write({.single_statement = true, .service = true, .stop = stop}, [&](WriteSession&
                                                                                      session) {
      const auto begun =
          std::chrono::steady_clock::now();  // not earlier: the call may have waited for its turn
      if constexpr (takes_most) {
        count = call(session, most);
      } else {
        count = call(session);
      }
      took = std::chrono::steady_clock::now() - begun;
    });
    total += count;
    if (count < static_cast<std::size_t>(most)) break;
    if (!one_writer) continue;
    if (!pause_between_portions(took, stop)) break;
    if constexpr (takes_most) most = next_portion(most, took);
  }
  return total;
}

}  // namespace dovetail::storage
