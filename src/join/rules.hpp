// The rules that a join's request must meet.
#pragma once

#include <cstddef>
#include <optional>

#include "dovetail/join.hpp"
#include "storage/join_store.hpp"

namespace dovetail::join {

inline constexpr std::size_t max_grouping_key_characters = 255;

/// Throws std::invalid_argument for the nil UUID.
void require_id(const char* what, const Uuid& id);

/// Throws InvalidOperation.
[[noreturn]] void no_such_join(JoinId join);

/// Checks every limit except expected_steps.
void require_request(const JoinRequest& request);

/// Throws std::out_of_range.
void require_expected_steps(int steps);

/// The join of a checked request. It points into `request`.
storage::NewJoin new_join(const JoinRequest& request, JoinId id, int expected_steps);

/// The given id, or a new one.
JoinId id_for(const std::optional<JoinId>& given);

}  // namespace dovetail::join
