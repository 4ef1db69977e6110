// Ids that follow from other ids.
#pragma once

#include <cstdint>

#include "dovetail/ids.hpp"

namespace dovetail::core {

/// What a derived id is for: one kind, one id per source.
enum class Derived : std::uint8_t { wait_of_join = 1, continuation_of_wait = 2, step_of_join = 3 };

/// Always the same for the same source, purpose and index, and in all likelihood no other. A
/// version 8 UUID, ordered by time like its source.
[[nodiscard]] Uuid derived_id(const Uuid& source, Derived purpose, std::uint64_t index = 0);

}  // namespace dovetail::core
