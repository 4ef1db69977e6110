// The row of a claim, for the engines.
#pragma once

#include <cstdint>

#include "dovetail/queue.hpp"

namespace dovetail::storage {

struct RowHintAccess {
  static RowHint hint_at(std::int64_t row, std::int64_t run = 0) {
    RowHint hint;
    hint.row_ = row;
    hint.run_ = run;
    return hint;
  }
  static std::int64_t row_of(const RowHint& hint) { return hint.row_; }
  static std::int64_t run_of(const RowHint& hint) { return hint.run_; }
};

[[nodiscard]] inline RowHint hint_at(std::int64_t row) {
  return RowHintAccess::hint_at(row);
}

/// Zero if the claim has no row.
[[nodiscard]] inline std::int64_t row_of(const Claim& claim) {
  return RowHintAccess::row_of(claim.hint);
}

/// The message is leased with this run of its owner, not by itself; see RunOrder.
[[nodiscard]] inline RowHint run_hint_at(std::int64_t row, std::int64_t run) {
  return RowHintAccess::hint_at(row, run);
}

/// Zero if the message is in no run.
[[nodiscard]] inline std::int64_t run_of(const Claim& claim) {
  return RowHintAccess::run_of(claim.hint);
}

[[nodiscard]] inline bool is_of_run(const Claim& claim) {
  return run_of(claim) != 0;
}

/// The message is leased with its stream, not by itself.
[[nodiscard]] inline RowHint stream_hint() {
  return RowHintAccess::hint_at(-1);
}

[[nodiscard]] inline bool is_of_stream(const Claim& claim) {
  return row_of(claim) < 0;
}

/// Clears the hint: the row has moved, and has a lease of its own. Claims of streams have no row
/// position.
inline void forget_row(Claim& claim) {
  if (!is_of_stream(claim)) claim.hint = {};
}

}  // namespace dovetail::storage
