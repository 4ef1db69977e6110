#include "sqlite/queue_settlement.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/assert.hpp"
#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "sqlite/queue_rows.hpp"
#include "sqlite/queue_streams.hpp"
#include "storage/row_hint.hpp"

namespace dovetail::sqlite {
namespace {

using storage::row_of;

constexpr std::size_t rows_at_once = 16;  // of the statements named ..._many
constexpr std::size_t shortest_run = 3;   // below it, the statements named ..._run gain nothing

/// The number of leading claims that one statement takes: it accepts one epoch per id.
std::size_t distinct_prefix(std::span<const Claim> claims) {
  std::size_t count = 1;
  while (count < std::min(rows_at_once, claims.size()) &&
         std::ranges::find(claims.first(count), claims[count].id, &Claim::id) ==
             claims.begin() + static_cast<std::ptrdiff_t>(count)) {
    ++count;
  }
  return count;
}

/// The run that begins with the first claim: rows without a gap, all of one epoch.
std::span<const Claim> first_run(std::span<const Claim> claims) {
  std::size_t count = 1;
  while (count < claims.size() && row_of(claims[0]) != 0 &&
         row_of(claims[count]) == row_of(claims[count - 1]) + 1 &&
         claims[count].epoch == claims[0].epoch) {
    ++count;
  }
  return claims.first(count);
}

}  // namespace

std::optional<QueueSettlement::ClaimedRow> QueueSettlement::find(const Claim& claim) {
  using Column = sql::columns::abandon_step_claimed;
  auto cursor = context_.run(connection_, context_.sql.abandon_step_claimed);
  cursor.bind(owner_.uuid()).bind(claim.id.uuid()).bind(claim.epoch).bind(now_);
  if (!cursor.step()) return std::nullopt;
  return ClaimedRow{cursor.integer(Column::seq),
                    static_cast<int>(cursor.integer(Column::attempts))};
}

std::size_t QueueSettlement::ack(std::span<const Claim> claims, bool keep) {
  std::vector<Claim> single;
  std::vector<Claim> of_streams;
  for (const auto& claim : claims)
    (storage::is_of_stream(claim) ? of_streams : single).push_back(claim);
  auto count = single.empty() ? 0 : ack_single(single, keep);
  // A caller may have dropped the hint. So claims that were not found may belong to streams.
  if (count < single.size()) std::ranges::move(single, std::back_inserter(of_streams));
  if (!of_streams.empty()) count += ack_of_streams(of_streams, keep);
  return count;
}

std::size_t QueueSettlement::ack_of_streams(std::span<const Claim> claims, bool keep) {
  QueueStreams streams{context_, connection_};
  std::map<std::string, std::int64_t> settled;
  std::vector<Uuid> ended;
  for (const auto& claim : claims) {
    const auto stream = streams.ack(owner_, claim, keep);
    if (!stream) continue;
    ++settled[*stream];
    ended.push_back(claim.id.uuid());
  }
  const auto watched = context_.watchers.watched(connection_, ended);
  if (!watched.empty()) context_.watchers.ended(connection_, watched, Ending::done, now_);
  for (const auto& [stream, count] : settled) streams.settled(stream, count);
  return ended.size();
}

std::size_t QueueSettlement::ack_single(std::span<const Claim> claims, bool keep) {
  std::vector<Uuid> ids;
  ids.reserve(claims.size());
  for (const auto& claim : claims) ids.push_back(claim.id.uuid());
  const auto watched = context_.watchers.watched(connection_, ids);
  if (watched.empty()) return ack_unwatched(claims, keep);
  const std::set<Uuid> awaited(watched.begin(), watched.end());
  std::vector<Claim> unwatched;
  std::vector<Uuid> ended;
  for (const auto& claim : claims) {
    if (!awaited.contains(claim.id.uuid())) {
      unwatched.push_back(claim);
    } else if (ack_scattered(std::span{&claim, 1}, keep) == 1) {
      ended.push_back(claim.id.uuid());
    }
  }
  if (!ended.empty()) context_.watchers.ended(connection_, ended, Ending::done, now_);
  return ended.size() + ack_unwatched(unwatched, keep);
}

std::size_t QueueSettlement::ack_unwatched(std::span<const Claim> claims, bool keep) {
  if (claims.size() < shortest_run) return ack_scattered(claims, keep);
  std::vector<Claim> sorted(claims.begin(), claims.end());
  std::ranges::stable_sort(sorted, {}, &row_of);
  std::vector<Claim> scattered;
  std::size_t count = 0;
  for (std::span<const Claim> left = sorted; !left.empty();) {
    const auto run = first_run(left);
    left = left.subspan(run.size());
    if (run.size() < shortest_run) {
      scattered.insert(scattered.end(), run.begin(), run.end());
    } else {
      const auto found = ack_run(run, keep);
      count += found;
      // Some messages are not in the expected rows. Search for them by id.
      if (found < run.size()) scattered.insert(scattered.end(), run.begin(), run.end());
    }
  }
  return count + ack_scattered(scattered, keep);
}

std::size_t QueueSettlement::ack_run(std::span<const Claim> run, bool keep) {
  std::vector<Uuid> ids;
  ids.reserve(run.size());
  for (const auto& claim : run) ids.push_back(claim.id.uuid());
  static_assert(sizeof(Uuid) == 16);
  auto cursor = context_.run(connection_,
                             keep ? context_.sql.ack_step_run : context_.sql.ack_step_remove_run);
  return cursor.bind(now_)
      .bind(owner_.uuid())
      .bind(row_of(run.front()))
      .bind(row_of(run.back()))
      .bind(run.front().epoch)
      .bind(std::as_bytes(std::span{ids}))
      .run();
}

std::size_t QueueSettlement::ack_scattered(std::span<const Claim> claims, bool keep) {
  std::size_t count = 0;
  if (claims.size() < shortest_run) {
    for (const auto& claim : claims) {
      auto cursor =
          context_.run(connection_, keep ? context_.sql.ack : context_.sql.ack_step_remove);
      count += cursor.bind(owner_.uuid()).bind(claim.id.uuid()).bind(claim.epoch).bind(now_).run();
    }
    return count;
  }
  while (!claims.empty()) {
    const auto some = claims.first(distinct_prefix(claims));
    claims = claims.subspan(some.size());
    auto cursor = context_.run(
        connection_, keep ? context_.sql.ack_step_many : context_.sql.ack_step_remove_many);
    cursor.bind(now_).bind(owner_.uuid());
    for (const auto& claim : some) cursor.bind(claim.id.uuid()).bind(claim.epoch);
    count += cursor.run();
  }
  return count;
}

bool QueueSettlement::settle(const storage::Settlement& settlement) {
  using Kind = storage::Settlement::Kind;
  DOVETAIL_ASSERT(settlement.kind != Kind::ack);
  const auto row = find(settlement.claim);
  if (!row) return QueueStreams{context_, connection_}.settle(owner_, settlement);
  if (settlement.kind == Kind::abandon) {
    abandon(*row, settlement);
  } else if (settlement.kind == Kind::fail) {
    fail_row(
        context_, connection_,
        {.seq = row->seq, .charge = settlement.charge, .error = settlement.error, .by = owner_},
        now_);
  } else {
    const auto ready_at = settlement.delay ? std::optional{now_ + *settlement.delay} : std::nullopt;
    context_.run(connection_, context_.sql.snooze).bind(row->seq).bind(ready_at).run();
  }
  return true;
}

void QueueSettlement::abandon(const ClaimedRow& row, const storage::Settlement& settlement) {
  const auto error =
      settlement.error.empty() ? std::nullopt : std::optional<std::string_view>{settlement.error};
  const RowFailure failure{.seq = row.seq, .charge = 1, .error = error, .by = owner_};
  if (row.attempts + 1 >= settlement.max_attempts) {
    fail_row(context_, connection_, failure, now_);
    return;
  }
  note_failure(context_, connection_, FailureKind::failed, failure, now_);
  const auto pause = settlement.delay
                         ? *settlement.delay
                         : ExponentialBackoff{}.delay(row.attempts + 1, core::random_unit());
  context_.run(connection_, context_.sql.abandon)
      .bind(row.seq)
      .bind(now_ + pause)
      .bind(error)
      .run();
}

bool QueueSettlement::add_stages(const Claim& claim, Stages stages) {
  auto row = find(claim);
  if (!row) {
    const auto of_stream = QueueStreams{context_, connection_}.find(owner_, claim);
    if (!of_stream) return false;
    row = {of_stream->seq, of_stream->attempts};
  }
  context_.run(connection_, context_.sql.set_stages)
      .bind(row->seq)
      .bind(std::int64_t{stages.bits()})
      .run();
  return true;
}

bool QueueSettlement::renew(const Claim& claim, std::chrono::microseconds lease) {
  const auto row = find(claim);
  if (!row) return QueueStreams{context_, connection_}.renew(owner_, claim, lease);
  context_.run(connection_, context_.sql.renew).bind(row->seq).bind(now_ + lease).run();
  return true;
}

}  // namespace dovetail::sqlite
