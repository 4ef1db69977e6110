// Rows of a queue's table, as several of its roles read and change them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dovetail/queue.hpp"
#include "sqlite/queue_context.hpp"

namespace dovetail::sqlite {

inline constexpr std::string_view lease_expired_error =
    "its lease ran out, and with it its last attempt";

/// Reads the columns that claimed and stored messages share. They come first.
[[nodiscard]] Message read_message(const Cursor& row);

/// The highest priority below `lane` that has messages.
[[nodiscard]] std::optional<std::int64_t> lane_below(const QueueContext& queue,
                                                     Connection& connection, std::int64_t lane);

struct RowFailure {
  std::int64_t seq = 0;
  int charge = 0;  ///< Attempts to add.
  std::optional<std::string_view> error{};
  std::optional<OwnerToken> by{};
};

/// Fails a message and tells the watchers.
void fail_row(const QueueContext& queue, Connection& connection, const RowFailure& failure,
              WallTime now);

}  // namespace dovetail::sqlite
