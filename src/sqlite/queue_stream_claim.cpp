#include "sqlite/queue_stream_claim.hpp"

#include <algorithm>
#include <utility>

#include "sqlite/queue_rows.hpp"
#include "storage/row_hint.hpp"

namespace dovetail::sqlite {
namespace {

/// A message of priority p that makes its stream claimable has the lane p + 20.
constexpr std::int64_t lowest_ticket_lane = 15;
constexpr std::int64_t highest_ticket_lane = 25;
/// Messages per stream, while many streams have work.
constexpr std::size_t usual_run = 8;
constexpr std::int64_t reaped_at_once = 100;
constexpr int rounds_per_lane = 100;
constexpr std::string_view expired_in_stream = "expired before it was handled";

}  // namespace

storage::Claimed QueueStreamClaim::run() {
  streams_.reap(reaped_at_once);
  for (auto cursor = context_.run(connection_, context_.sql.paused); cursor.step();)
    paused_.insert(cursor.text(sql::columns::paused::topic));
  const auto batch = static_cast<std::size_t>(order_.batch_size);
  for (auto lane = lane_below(context_, connection_, highest_ticket_lane + 1);
       lane && *lane >= lowest_ticket_lane && claimed_.entries.size() < batch;
       lane = lane_below(context_, connection_, *lane)) {
    claim_lane(*lane);
  }
  if (order_.asks_next_due) ask_next_due();
  return std::move(claimed_);
}

/// Looks again at streams whose first message was set aside: they may have further messages.
void QueueStreamClaim::claim_lane(std::int64_t lane) {
  for (int rounds = 0; rounds < rounds_per_lane; ++rounds) {
    const auto waiting = tickets(lane);
    const auto left = static_cast<std::size_t>(order_.batch_size) - claimed_.entries.size();
    if (waiting.empty() || left == 0) return;
    run_length_ = std::max({std::min(usual_run, left), left / waiting.size(), std::size_t{1}});
    set_aside_ = 0;
    for (const auto& ticket : waiting) {
      if (!take(ticket)) return;
    }
    if (set_aside_ == 0) return;
  }
}

std::vector<QueueStreamClaim::Ticket> QueueStreamClaim::tickets(std::int64_t lane) {
  using Column = sql::columns::claim_streams_step_tickets;
  std::vector<Ticket> found;
  const auto most = static_cast<std::size_t>(order_.batch_size);
  auto cursor = context_.run(connection_, context_.sql.claim_streams_step_tickets);
  cursor.bind(lane).bind(now_);
  while (found.size() < most && cursor.step()) {
    if (order_.topics != nullptr && !order_.topics->takes(cursor.view(Column::topic))) continue;
    auto stream = cursor.text(Column::stream);
    if (filter_.stream && !filter_.stream(stream, cursor.time(Column::ready_at))) continue;
    found.push_back({cursor.integer(Column::seq), std::move(stream)});
  }
  return found;
}

QueueStreamClaim::Next QueueStreamClaim::judge(const Message& message, WallTime ready_at,
                                               int lost_leases) const {
  if (ready_at > now_) return Next::later;
  if (order_.topics != nullptr && !order_.topics->takes(message.topic)) return Next::later;
  if (message.expires_at && *message.expires_at <= now_) return Next::expired;
  if (lost_leases > 0 && message.attempts >= order_.max_attempts) return Next::exhausted;
  if (paused_.contains(message.topic)) return Next::paused;
  return Next::taken;
}

bool QueueStreamClaim::take(const Ticket& ticket) {
  using Column = sql::columns::claim_streams;
  auto& entries = claimed_.entries;
  const auto first = entries.size();
  const auto most = std::min(static_cast<std::size_t>(order_.batch_size) - first, run_length_);
  std::int64_t run_to = 0;
  auto verdict = Next::taken;
  {
    auto cursor = context_.run(connection_, context_.sql.claim_streams);
    cursor.bind(std::string_view{ticket.stream}).bind(static_cast<std::int64_t>(most));
    while (cursor.step()) {
      const auto size = static_cast<std::int64_t>(cursor.view(Column::payload).size());
      claimed_.cut = bytes_ > 0 && bytes_ + size > order_.max_bytes;
      if (claimed_.cut) break;
      storage::ClaimedEntry entry;
      entry.claimed.message = read_message<Column>(cursor);
      entry.ready_at = cursor.time(Column::ready_at);
      entry.lost_leases = static_cast<int>(cursor.integer(Column::lost_leases));
      verdict = judge(entry.claimed.message, entry.ready_at, entry.lost_leases);
      // A message that may have killed its worker is handled alone.
      const bool alone = entry.lost_leases > 0;
      if (verdict != Next::taken || (alone && entries.size() > first)) break;
      entry.claimed.message.stream = ticket.stream;
      bytes_ += size;
      run_to = cursor.integer(Column::seq);
      entries.push_back(std::move(entry));
      if (alone) break;
    }
  }
  const auto count = entries.size() - first;
  if (count > 0) {
    lease(ticket, run_to, static_cast<std::int64_t>(count));
  } else if (!claimed_.cut) {
    set_aside(ticket, verdict);
  }
  return !claimed_.cut && entries.size() < static_cast<std::size_t>(order_.batch_size);
}

void QueueStreamClaim::lease(const Ticket& ticket, std::int64_t run_to, std::int64_t count) {
  if (epoch_ == 0) {
    auto cursor = context_.run(connection_, context_.sql.claim_streams_step_epoch);
    cursor.step();
    epoch_ = cursor.integer(0);
    cursor.step();
  }
  const auto until = now_ + order_.lease;
  context_.run(connection_, context_.sql.claim_streams_step_lease)
      .bind(std::string_view{ticket.stream})
      .bind(epoch_)
      .bind(run_to)
      .bind(count)
      .bind(until)
      .bind(order_.owner.uuid())
      .bind(std::int64_t{order_.lease.count()})
      .run();
  context_.run(connection_, context_.sql.claim_streams_step_lane)
      .bind(ticket.seq)
      .bind(std::int64_t{-101})
      .run();
  auto& entries = claimed_.entries;
  for (auto entry = entries.end() - count; entry != entries.end(); ++entry) {
    auto& claimed = entry->claimed;
    claimed.claim = {claimed.message.id, epoch_, storage::stream_hint()};
    claimed.lease_until = until;
  }
}

void QueueStreamClaim::set_aside(const Ticket& ticket, Next reason) {
  if (reason != Next::later) ++set_aside_;
  if (reason == Next::expired) {
    fail_row(context_, connection_, {.seq = ticket.seq, .charge = 0, .error = expired_in_stream},
             now_);
    streams_.ticket(ticket.stream);
  } else if (reason == Next::exhausted) {
    streams_.give_up({.seq = ticket.seq, .attempts = 0, .stream = ticket.stream},
                     {lease_expired_error, StreamFailure::block}, 0, std::nullopt);
  } else if (reason == Next::paused) {
    context_.run(connection_, context_.sql.claim_streams_step_lane)
        .bind(ticket.seq)
        .bind(std::int64_t{-100})
        .run();
  }
}

void QueueStreamClaim::ask_next_due() {
  using Column = sql::columns::claim_streams_step_next_due;
  auto cursor = context_.run(connection_, context_.sql.claim_streams_step_next_due);
  cursor.bind(now_).step();
  claimed_.next_due = std::chrono::microseconds{cursor.integer(Column::due_in)};
  claimed_.has_streams = cursor.integer(Column::has_streams) != 0;
}

}  // namespace dovetail::sqlite
