// The row of a claim, for the engines.
#pragma once

#include <cstdint>

#include "dovetail/queue.hpp"

namespace dovetail::storage {

struct RowHintAccess {
  static RowHint hint_at(std::int64_t row) {
    RowHint hint;
    hint.row_ = row;
    return hint;
  }
  static std::int64_t row_of(const RowHint& hint) { return hint.row_; }
};

[[nodiscard]] inline RowHint hint_at(std::int64_t row) {
  return RowHintAccess::hint_at(row);
}

/// Zero if the claim has no row.
[[nodiscard]] inline std::int64_t row_of(const Claim& claim) {
  return RowHintAccess::row_of(claim.hint);
}

/// The message is leased with its stream, not by itself.
[[nodiscard]] inline RowHint stream_hint() {
  return RowHintAccess::hint_at(-1);
}

[[nodiscard]] inline bool is_of_stream(const Claim& claim) {
  return row_of(claim) < 0;
}

/// The row lies elsewhere now. A stream has no row.
inline void forget_row(Claim& claim) {
  if (!is_of_stream(claim)) claim.hint = {};
}

}  // namespace dovetail::storage
