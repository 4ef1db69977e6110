// The payload of a message that waits for a join.
#pragma once

#include <string_view>

#include "dovetail/join.hpp"

namespace dovetail::join {

struct WaitPayload {
  JoinId join;
  Continuation continuation;
};

/// Throws std::invalid_argument for text that is not a valid payload.
[[nodiscard]] WaitPayload parse_wait_payload(std::string_view json);

/// Throws std::invalid_argument for a continuation that could not be enqueued.
void require_continuation(const Continuation& continuation);

}  // namespace dovetail::join
