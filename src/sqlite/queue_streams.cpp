#include "sqlite/queue_streams.hpp"

#include <utility>
#include <vector>

#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "sqlite/queue_rows.hpp"

namespace dovetail::sqlite {
namespace {

using Kind = storage::Settlement::Kind;

std::optional<std::string_view> text_or_none(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional{text};
}

}  // namespace

std::optional<QueueStreams::ClaimedRow> QueueStreams::find(OwnerToken owner, const Claim& claim) {
  using Column = sql::columns::ack_step_claimed_stream;
  auto cursor = context_.run(connection_, context_.sql.ack_step_claimed_stream);
  cursor.bind(owner.uuid()).bind(claim.id.uuid()).bind(claim.epoch).bind(now_);
  if (!cursor.step()) return std::nullopt;
  return ClaimedRow{cursor.integer(Column::seq), static_cast<int>(cursor.integer(Column::attempts)),
                    cursor.text(Column::stream)};
}

std::optional<std::string> QueueStreams::ack(OwnerToken owner, const Claim& claim, bool keep) {
  auto cursor = context_.run(
      connection_, keep ? context_.sql.ack_step_stream : context_.sql.ack_step_remove_stream);
  cursor.bind(owner.uuid()).bind(claim.id.uuid()).bind(claim.epoch).bind(now_);
  if (!cursor.step()) return std::nullopt;
  auto stream = cursor.text(0);
  cursor.step();  // runs the statement to its end
  return stream;
}

bool QueueStreams::settle(OwnerToken owner, const storage::Settlement& settlement) {
  const auto row = find(owner, settlement.claim);
  if (!row) return false;
  if (settlement.kind == Kind::abandon) {
    abandon(*row, settlement, owner);
  } else if (settlement.kind == Kind::fail) {
    give_up(*row, {settlement.error, settlement.on_stream_failure}, settlement.charge, owner);
  } else {
    const auto ready_at = settlement.delay ? std::optional{now_ + *settlement.delay} : std::nullopt;
    context_.run(connection_, context_.sql.snooze).bind(row->seq).bind(ready_at).run();
  }
  context_.run(connection_, context_.sql.ack_step_mark_settled)
      .bind(row->seq)
      .bind(settlement.claim.epoch)
      .run();
  settled(row->stream, 1);
  return true;
}

void QueueStreams::abandon(const ClaimedRow& row, const storage::Settlement& settlement,
                           OwnerToken owner) {
  if (row.attempts + 1 >= settlement.max_attempts) {
    give_up(row, {settlement.error, settlement.on_stream_failure}, 1, owner);
    return;
  }
  const auto error = text_or_none(settlement.error);
  note_failure(context_, connection_, FailureKind::failed,
               {.seq = row.seq, .charge = 1, .error = error, .by = owner}, now_);
  const auto pause = settlement.delay
                         ? *settlement.delay
                         : ExponentialBackoff{}.delay(row.attempts + 1, core::random_unit());
  context_.run(connection_, context_.sql.abandon)
      .bind(row.seq)
      .bind(now_ + pause)
      .bind(error)
      .run();
}

void QueueStreams::give_up(const ClaimedRow& row, const storage::Failed& failed, int charge,
                           std::optional<OwnerToken> by) {
  const auto error = text_or_none(failed.error);
  const RowFailure failure{.seq = row.seq, .charge = charge, .error = error, .by = by};
  if (failed.on_stream_failure == StreamFailure::park)
    return fail_row(context_, connection_, failure, now_);
  note_failure(context_, connection_, charge > 0 ? FailureKind::failed : FailureKind::expired,
               failure, now_);
  if (failed.on_stream_failure == StreamFailure::skip_order) {
    const auto pause = ExponentialBackoff{}.delay(row.attempts + charge, core::random_unit());
    context_.run(connection_, context_.sql.fail_step_skip_order)
        .bind(row.seq)
        .bind(std::int64_t{charge})
        .bind(error)
        .bind(now_ + pause)
        .run();
  } else {
    context_.run(connection_, context_.sql.fail_step_block_stream)
        .bind(std::string_view{row.stream})
        .bind(now_)
        .run();
    context_.run(connection_, context_.sql.fail_step_block)
        .bind(row.seq)
        .bind(std::int64_t{charge})
        .bind(error)
        .run();
  }
}

bool QueueStreams::renew(OwnerToken owner, const Claim& claim, std::chrono::microseconds lease) {
  const auto row = find(owner, claim);
  if (!row) return false;
  context_.run(connection_, context_.sql.ack_step_renew_stream)
      .bind(std::string_view{row->stream})
      .bind(now_ + lease)
      .run();
  return true;
}

void QueueStreams::settled(std::string_view stream, std::int64_t count) {
  std::int64_t left = 1;
  {
    auto cursor = context_.run(connection_, context_.sql.ack_step_count_down);
    cursor.bind(stream).bind(count).bind(now_);
    if (cursor.step()) left = cursor.integer(0);
    cursor.step();
  }
  if (left <= 0) release(stream);
}

void QueueStreams::release(std::string_view stream) {
  const auto gone = context_.run(connection_, context_.sql.ack_step_end_lease).bind(stream).run();
  if (gone == 0) {
    context_.run(connection_, context_.sql.ack_step_end_lease_blocked).bind(stream).run();
    return;
  }
  ticket(stream);
}

void QueueStreams::ticket(std::string_view stream) {
  context_.run(connection_, context_.sql.ack_step_ticket).bind(stream).bind(now_).run();
}

std::size_t QueueStreams::reap(std::int64_t most) {
  using Column = sql::columns::claim_streams_step_expired;
  struct Expired {
    std::string stream;
    OwnerToken owner;
    std::int64_t charged;  // the row of the message that is charged, or 0
  };
  std::vector<Expired> expired;
  {
    auto cursor = context_.run(connection_, context_.sql.claim_streams_step_expired);
    cursor.bind(now_).bind(most);
    while (cursor.step()) {
      const bool charges = cursor.integer(Column::unsettled) > 0 && !cursor.is_null(Column::head);
      expired.push_back({cursor.text(Column::stream), OwnerToken{cursor.uuid(Column::owner_token)},
                         charges ? cursor.integer(Column::head) : 0});
    }
  }
  for (const auto& [stream, owner, charged] : expired) {
    if (charged != 0) charge_lost(charged, owner);
    release(stream);
  }
  return expired.size();
}

void QueueStreams::charge_lost(std::int64_t seq, OwnerToken owner) {
  note_failure(context_, connection_, FailureKind::lost_lease,
               {.seq = seq, .charge = 1, .by = owner}, now_);
  context_.run(connection_, context_.sql.claim_streams_step_charge).bind(seq).run();
}

bool QueueStreams::resume(std::string_view stream) {
  const auto heads =
      context_.run(connection_, context_.sql.stream_resume).bind(stream).bind(now_).run();
  if (heads == 0) return false;
  unblock(stream);
  return true;
}

bool QueueStreams::skip(std::string_view stream) {
  std::optional<std::int64_t> head;
  {
    auto cursor = context_.run(connection_, context_.sql.stream_skip);
    cursor.bind(stream);
    if (cursor.step()) head = cursor.integer(0);
  }
  if (!head) return false;
  fail_row(context_, connection_, {.seq = *head, .charge = 0}, now_);
  unblock(stream);
  return true;
}

void QueueStreams::unblock(std::string_view stream) {
  context_.run(connection_, context_.sql.stream_resume_step_unblock).bind(stream).run();
  context_.run(connection_, context_.sql.stream_resume_step_remove).bind(stream).run();
  ticket(stream);
}

}  // namespace dovetail::sqlite
