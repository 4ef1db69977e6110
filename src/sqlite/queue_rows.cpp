#include "sqlite/queue_rows.hpp"

#include "core/headers.hpp"

namespace dovetail::sqlite {

Message read_message(const Cursor& row) {
  Message message;
  message.id = MessageId{row.uuid(0)};
  message.message_id = MessageId{row.uuid(0)};
  message.topic = row.text(1);
  if (!row.is_null(2)) message.payload = row.text(2);
  message.correlation_id = row.text_or_null(3);
  if (!row.is_null(4)) message.headers = core::headers_from_json(row.text(4));
  message.created_at = row.time(5);
  message.due_at = row.time_or_null(6);
  message.expires_at = row.time_or_null(7);
  message.priority = static_cast<int>(row.integer(8));
  message.attempts = static_cast<int>(row.integer(9));
  return message;
}

std::optional<std::int64_t> lane_below(const QueueContext& queue, Connection& connection,
                                       std::int64_t lane) {
  auto cursor = queue.run(connection, queue.sql.claim_step_next_lane);
  cursor.bind(lane).step();
  return cursor.is_null(0) ? std::nullopt : std::optional{cursor.integer(0)};
}

void fail_row(const QueueContext& queue, Connection& connection, const RowFailure& failure,
              WallTime now) {
  Uuid message;
  {
    auto cursor = queue.run(connection, queue.sql.fail);
    cursor.bind(failure.seq)
        .bind(now)
        .bind(std::int64_t{failure.charge})
        .bind(failure.error)
        .bind(failure.by ? std::optional{failure.by->uuid()} : std::nullopt);
    if (!cursor.step()) return;
    message = cursor.uuid(0);
  }
  const std::span<const Uuid> one{&message, 1};
  if (!queue.watchers.watched(connection, one).empty())
    queue.watchers.ended(connection, one, Ending::failed, now);
}

}  // namespace dovetail::sqlite
