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

}  // namespace dovetail::storage
