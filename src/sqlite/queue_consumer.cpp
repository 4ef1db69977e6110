#include "sqlite/queue_consumer.hpp"

#include <algorithm>
#include <utility>

#include "sqlite/queue_claim.hpp"
#include "sqlite/queue_rows.hpp"
#include "sqlite/queue_settlement.hpp"
#include "sqlite/queue_stream_claim.hpp"
#include "sqlite/queue_streams.hpp"
#include "sqlite/session.hpp"

namespace dovetail::sqlite {
namespace {

/// Settles each of the claims like `settlement`. Returns the number of claims that still held.
std::size_t settle_each(QueueSettlement& settling, std::span<const Claim> claims,
                        storage::Settlement settlement) {
  std::size_t count = 0;
  for (const auto& claim : claims) {
    settlement.claim = claim;
    if (settling.settle(settlement)) ++count;
  }
  return count;
}

}  // namespace

storage::Claimed QueueConsumer::claim(storage::WriteSession& session,
                                      const storage::ClaimOrder& order) {
  return claim(session, order, {});
}

storage::Claimed QueueConsumer::claim(storage::WriteSession& session,
                                      const storage::ClaimOrder& order, const ClaimFilter& filter) {
  auto& connection = WriteSession::of(session);
  if (order.streams) return QueueStreamClaim{context_, connection, order, filter}.run();
  return QueueClaim{context_, connection, order, filter}.run();
}

storage::LookAhead QueueConsumer::look_ahead(storage::ReadSession& session,
                                             const storage::ClaimOrder& order) {
  return QueueClaim{context_, ReadSession::of(session), order}.look_ahead();
}

storage::WorkAnswer QueueConsumer::work(storage::WriteSession& session,
                                        const storage::WorkOrder& order) {
  QueueSettlement settling{context_, WriteSession::of(session), order.owner};
  storage::WorkAnswer answer;
  std::vector<Claim> acks;
  for (const auto& each : order.settlements) {
    if (each.kind == storage::Settlement::Kind::ack) {
      acks.push_back(each.claim);
    } else if (settling.settle(each)) {
      ++answer.settled;
    }
  }
  answer.settled += settling.ack(acks, order.keep_done);
  for (const auto& each : order.claims) answer.claimed.push_back(claim(session, each));
  return answer;
}

std::vector<Claim> QueueConsumer::settleable(storage::WriteSession& /*session*/,
                                             OwnerToken /*owner*/, std::span<const Claim> claims) {
  std::vector<Claim> all(claims.begin(), claims.end());
  std::ranges::sort(all, {}, &Claim::id);
  return all;
}

void QueueConsumer::absolve(storage::WriteSession& session, std::span<const MessageId> ids) {
  auto& connection = WriteSession::of(session);
  for (const auto& id : ids) context_.run(connection, context_.sql.absolve).bind(id.uuid()).run();
}

void QueueConsumer::uncharge(storage::WriteSession& session, std::span<const MessageId> ids) {
  auto& connection = WriteSession::of(session);
  for (const auto& id : ids) context_.run(connection, context_.sql.uncharge).bind(id.uuid()).run();
}

std::size_t QueueConsumer::add_stages(storage::WriteSession& session, OwnerToken owner,
                                      std::span<const Claim> claims, Stages stages) {
  QueueSettlement settling{context_, WriteSession::of(session), owner};
  std::size_t held = 0;
  for (const auto& claim : claims) {
    if (settling.add_stages(claim, stages)) ++held;
  }
  return held;
}

std::size_t QueueConsumer::ack(storage::WriteSession& session, OwnerToken owner,
                               std::span<const Claim> claims, bool keep) {
  return QueueSettlement{context_, WriteSession::of(session), owner}.ack(claims, keep);
}

std::size_t QueueConsumer::abandon(storage::WriteSession& session, OwnerToken owner,
                                   std::span<const Claim> claims, const storage::Failed& failed,
                                   std::optional<std::chrono::microseconds> delay,
                                   int max_attempts) {
  QueueSettlement settling{context_, WriteSession::of(session), owner};
  return settle_each(settling, claims,
                     {.kind = storage::Settlement::Kind::abandon,
                      .error = std::string{failed.error},
                      .delay = delay,
                      .max_attempts = max_attempts,
                      .on_stream_failure = failed.on_stream_failure});
}

std::size_t QueueConsumer::fail(storage::WriteSession& session, OwnerToken owner,
                                std::span<const Claim> claims, const storage::Failed& failed,
                                int charge) {
  QueueSettlement settling{context_, WriteSession::of(session), owner};
  return settle_each(settling, claims,
                     {.kind = storage::Settlement::Kind::fail,
                      .error = std::string{failed.error},
                      .charge = charge,
                      .on_stream_failure = failed.on_stream_failure});
}

std::size_t QueueConsumer::snooze(storage::WriteSession& session, OwnerToken owner,
                                  std::span<const Claim> claims,
                                  std::optional<std::chrono::microseconds> delay) {
  QueueSettlement settling{context_, WriteSession::of(session), owner};
  return settle_each(settling, claims, {.kind = storage::Settlement::Kind::snooze, .delay = delay});
}

std::vector<MessageId> QueueConsumer::renew(storage::WriteSession& session, OwnerToken owner,
                                            std::span<const Claim> claims,
                                            std::chrono::microseconds lease) {
  QueueSettlement settling{context_, WriteSession::of(session), owner};
  std::vector<MessageId> held;
  for (const auto& claim : claims) {
    if (settling.renew(claim, lease)) held.push_back(claim.id);
  }
  return held;
}

std::size_t QueueConsumer::reap_expired(storage::WriteSession& session,
                                        std::optional<int> max_attempts, int most,
                                        std::optional<int> scan_limit) {
  using Column = sql::columns::reap_expired;
  auto& connection = WriteSession::of(session);
  const auto now = context_.now();
  std::vector<QueueSettlement::ClaimedRow> rows;
  for (auto lane = lane_below(context_, connection, storage::highest_priority + 1);
       lane && rows.size() < static_cast<std::size_t>(most);
       lane = lane_below(context_, connection, *lane)) {
    auto cursor = context_.run(connection, context_.sql.reap_expired);
    cursor.bind(*lane)
        .bind(now)
        .bind(most - static_cast<std::int64_t>(rows.size()))
        .bind(scan_limit ? std::int64_t{*scan_limit} : std::int64_t{-1});  // -1: no limit
    while (cursor.step())
      rows.push_back(
          {cursor.integer(Column::seq), static_cast<int>(cursor.integer(Column::attempts))});
  }
  for (const auto& row : rows) {
    if (max_attempts && row.attempts + 1 >= *max_attempts) {
      fail_row(context_, connection, {.seq = row.seq, .charge = 1, .error = lease_expired_error},
               now);
    } else {
      release_lost(context_, connection, row.seq, now);
    }
  }
  return rows.size() + QueueStreams{context_, connection}.reap(most);
}

std::size_t QueueConsumer::unpark(storage::WriteSession& session,
                                  std::optional<std::string_view> topic, int most) {
  return context_.run(WriteSession::of(session), context_.sql.unpark)
      .bind(topic)
      .bind(std::int64_t{most})
      .run();
}

}  // namespace dovetail::sqlite
