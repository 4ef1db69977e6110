// The failures of a message, as both engines store them: a JSON array, oldest first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dovetail/failed_attempt.hpp"

namespace dovetail::storage {

/// The newest error is stored in full as `last_error`, and shortened in `json`. The result has it
/// in full.
[[nodiscard]] std::vector<FailedAttempt> failures_of(const std::optional<std::string>& json,
                                                     const std::optional<std::string>& last_error);

}  // namespace dovetail::storage
