// Work through many rows in small transactions.
#pragma once

#include <cstddef>
#include <stop_token>

#include "storage/database.hpp"

namespace dovetail::storage {

inline constexpr int portion = 1'000;  // rows in one transaction

/// Calls `call(session)`, which handles up to `portion` rows in one statement and answers how many it were, in one
/// transaction after the other until there are no more, or `stop`. Answers how many it were together.
template <class Call>
std::size_t in_portions(Database& database, const Call& call, const std::stop_token& stop = {}) {
  std::size_t total = 0;
  for (std::size_t count = portion; count >= portion && !stop.stop_requested(); total += count) {
    database.write({.single_statement = true, .service = true, .stop = stop},
                   [&](WriteSession& session) { count = call(session); });
  }
  return total;
}

}  // namespace dovetail::storage
