// What the answer of an endpoint means for its message.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "dovetail/clock.hpp"
#include "dovetail/transport.hpp"

namespace dovetail::transport::webhook {

struct Answer {
  int status = 0;
  std::string body{};         ///< Its beginning.
  std::string retry_after{};  ///< The header; empty if there is none.
};

constexpr int status_gone = 410;

[[nodiscard]] PublishOutcome outcome_of(const Answer& answer, WallTime now);

/// The value of a Retry-After header: seconds or an HTTP date. At most a day. Nothing if it is
/// neither.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view text,
                                                                         WallTime now);

/// A text of a stranger, for errors and logs: short, in one line, without control characters.
[[nodiscard]] std::string excerpt(std::string_view text);

}  // namespace dovetail::transport::webhook
