// Rows of a queue's table, as several of its roles read and change them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/headers.hpp"
#include "dovetail/queue.hpp"
#include "sqlite/queue_context.hpp"

namespace dovetail::sqlite {

inline constexpr std::string_view lease_expired_error = "the lease expired on the last attempt";

/// Reads the columns that claimed and stored messages share.
template <class Column>
[[nodiscard]] Message read_message(const Cursor& row) {
  Message message;
  message.id = MessageId{row.uuid(Column::id)};
  message.message_id = MessageId{row.uuid(Column::id)};
  message.topic = row.text(Column::topic);
  if (!row.is_null(Column::payload)) message.payload = row.text(Column::payload);
  message.correlation_id = row.text_or_null(Column::correlation_id);
  if (!row.is_null(Column::headers))
    message.headers = core::headers_from_json(row.text(Column::headers));
  message.created_at = row.time(Column::created_at);
  message.due_at = row.time_or_null(Column::due_at);
  message.expires_at = row.time_or_null(Column::expires_at);
  message.priority = static_cast<int>(row.integer(Column::priority));
  message.attempts = static_cast<int>(row.integer(Column::attempts));
  message.stages = Stages::from_bits(row.integer(Column::stages));
  return message;
}

/// The highest priority below `lane` that has messages.
[[nodiscard]] std::optional<std::int64_t> lane_below(const QueueContext& queue,
                                                     Connection& connection, std::int64_t lane);

struct RowFailure {
  std::int64_t seq = 0;
  int charge = 0;  ///< Attempts to add.
  std::optional<std::string_view> error{};
  std::optional<OwnerToken> by{};  ///< Absent: no owner failed it.
};

/// Adds an attempt to the failures of a message. Call it before the attempt is charged. `expired`
/// is not added to a message that has not expired.
void note_failure(const QueueContext& queue, Connection& connection, FailureKind kind,
                  const RowFailure& failure, WallTime now);

/// Notes a lost lease, and makes its message ready again.
void release_lost(const QueueContext& queue, Connection& connection, std::int64_t seq,
                  WallTime now);

/// Fails a message and tells the watchers. A charge without an owner is that of a lost lease.
/// Without a charge, only the expiry of the message is added to its failures: they have the attempt
/// already.
void fail_row(const QueueContext& queue, Connection& connection, const RowFailure& failure,
              WallTime now);

}  // namespace dovetail::sqlite
