#include "sqlite/queue_rows.hpp"

namespace dovetail::sqlite {

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
