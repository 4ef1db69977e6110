// Ids that are computed from other ids.
#pragma once

#include <cstdint>

#include "dovetail/ids.hpp"

namespace dovetail::core {

/// The purpose of a derived id. Each source has one id per purpose and index.
enum class Derived : std::uint8_t {
  wait_of_join = 1,
  continuation_of_wait = 2,
  step_of_join = 3,
  join_of_round = 4,
};

/// A version 8 UUID that is ordered by time like its source. The same source, purpose and index
/// give the same id. Other arguments almost certainly give another id.
[[nodiscard]] Uuid derived_id(const Uuid& source, Derived purpose, std::uint64_t index = 0);

}  // namespace dovetail::core
