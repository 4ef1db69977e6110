// Restricts a claim to some of the messages, beside its topics.
#pragma once

#include <functional>
#include <string_view>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"

namespace dovetail::sqlite {

struct ClaimFilter {
  /// Whether the claim takes a message without a stream. Absent: all.
  std::function<bool(const Uuid& id)> message{};
  /// Whether the claim takes a stream that has been ready since `ready_at`. Absent: all.
  std::function<bool(std::string_view stream, WallTime ready_at)> stream{};
};

}  // namespace dovetail::sqlite
