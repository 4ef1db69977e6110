#include "sqlite/queue_rows.hpp"

namespace dovetail::sqlite {
namespace {

std::optional<Uuid> uuid_or_null(const std::optional<OwnerToken>& owner) {
  return owner ? std::optional{owner->uuid()} : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> lane_below(const QueueContext& queue, Connection& connection,
                                       std::int64_t lane) {
  auto cursor = queue.run(connection, queue.sql.claim_step_next_lane);
  cursor.bind(lane).step();
  return cursor.is_null(0) ? std::nullopt : std::optional{cursor.integer(0)};
}

void note_failure(const QueueContext& queue, Connection& connection, FailureKind kind,
                  const RowFailure& failure, WallTime now) {
  queue.run(connection, queue.sql.fail_step_note)
      .bind(failure.seq)
      .bind(now)
      .bind(to_string(kind))
      .bind(failure.error)
      .bind(uuid_or_null(failure.by))
      .bind(std::int64_t{failure.charge})
      .run();
}

void release_lost(const QueueContext& queue, Connection& connection, std::int64_t seq,
                  WallTime now) {
  note_failure(queue, connection, FailureKind::lost_lease, {.seq = seq, .charge = 1}, now);
  queue.run(connection, queue.sql.reap_expired_step_release).bind(seq).run();
}

void fail_row(const QueueContext& queue, Connection& connection, const RowFailure& failure,
              WallTime now) {
  const auto charged = failure.by ? FailureKind::failed : FailureKind::lost_lease;
  note_failure(queue, connection, failure.charge > 0 ? charged : FailureKind::expired, failure,
               now);
  Uuid message;
  {
    auto cursor = queue.run(connection, queue.sql.fail);
    cursor.bind(failure.seq)
        .bind(now)
        .bind(std::int64_t{failure.charge})
        .bind(failure.error)
        .bind(uuid_or_null(failure.by));
    if (!cursor.step()) return;
    message = cursor.uuid(0);
  }
  const std::span<const Uuid> one{&message, 1};
  if (!queue.watchers.watched(connection, one).empty())
    queue.watchers.ended(connection, one, Ending::failed, now);
}

}  // namespace dovetail::sqlite
