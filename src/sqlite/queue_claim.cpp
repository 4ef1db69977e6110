#include "sqlite/queue_claim.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/headers.hpp"
#include "core/text.hpp"
#include "sqlite/queue_rows.hpp"
#include "storage/row_hint.hpp"

namespace dovetail::sqlite {
namespace {

constexpr int set_aside_rounds = 100;
/// A claim has seen every message whose time is this far in the past: no transaction stores a
/// message with an earlier time.
constexpr std::chrono::seconds late_by{1};
constexpr std::int64_t scheduled_looked_at = 100;
/// A claim of some topics examines this many messages of other topics one by one. Then it examines
/// many of them with one statement.
constexpr std::size_t nearby = 200;
constexpr std::int64_t leap_rows = 50'000;
/// claim_step_leap has this many parameters for topics.
constexpr std::size_t leap_topics = 8;
constexpr std::string_view expired_error = "expired before it was handled";

/// The number of leading rows that follow one another without a gap.
std::size_t run_length(std::span<const std::int64_t> rows) {
  std::size_t count = 1;
  while (count < rows.size() && rows[count] == rows[count - 1] + 1) ++count;
  return count;
}

std::size_t index_of(std::int64_t lane) {
  return static_cast<std::size_t>(lane - storage::lowest_priority);
}

/// A topic that the claim takes. Null: it takes all topics. No topic is empty.
std::optional<std::string_view> one_topic(const storage::TopicFilter* topics) {
  if (topics == nullptr) return std::nullopt;
  return topics->except || topics->topics.empty() ? "" : std::string_view{*topics->topics.begin()};
}

/// Repeats the last topic, so that all parameters have a value.
template <typename Topics>
void bind_topics(Cursor& cursor, const Topics& topics) {
  auto topic = topics.begin();
  for (std::size_t bound = 0; bound < leap_topics; ++bound) {
    cursor.bind(std::string_view{*topic});
    if (std::next(topic) != topics.end()) ++topic;
  }
}

}  // namespace

storage::Claimed QueueClaim::run() {
  claimed_.entries.reserve(static_cast<std::size_t>(order_.batch_size));
  for (auto cursor = context_.run(connection_, context_.sql.paused); cursor.step();)
    paused_.insert(cursor.text(sql::columns::paused::topic));
  for (auto lane = lane_below(context_, connection_, storage::highest_priority + 1);
       lane && !full_ && !claimed_.unfinished; lane = lane_below(context_, connection_, *lane)) {
    claim_lane(*lane);
  }
  if (order_.asks_next_due) {
    claimed_.next_due = next_due();
    auto cursor = context_.run(connection_, context_.sql.next_due_step_has_streams);
    claimed_.has_streams = cursor.step() && cursor.integer(0) != 0;
  }
  return std::move(claimed_);
}

storage::LookAhead QueueClaim::look_ahead() {
  storage::LookAhead look;
  if (order_.after != nullptr) look.passed = *order_.after;
  for (auto lane = lane_below(context_, connection_, storage::highest_priority + 1); lane;
       lane = lane_below(context_, connection_, *lane)) {
    const auto place = place_in(*lane);
    const auto bound = leap_bound(place);
    if (!bound) continue;  // few messages are left
    const auto found = leap(place, bound, 1);
    auto& passed = look.passed[index_of(*lane)];
    passed = *bound;
    look.unfinished = found.empty();
    if (!found.empty()) passed = {.ready_at = found[0].ready_at, .id = {}, .row = found[0].seq - 1};
    break;
  }
  return look;
}

QueueClaim::Place QueueClaim::place_in(std::int64_t lane) const {
  Place place{.lane = lane};
  if (order_.after == nullptr) return place;
  if (const auto& mark = (*order_.after)[index_of(lane)]) place.from = *mark;
  return place;
}

void QueueClaim::claim_lane(std::int64_t lane) {
  auto place = place_in(lane);
  // Bounded: a long row of paused messages is parked in several transactions. Each wakes the
  // workers, because they watch the file for changes.
  for (int rounds = 0;
       rounds < set_aside_rounds && !place.is_end && !full_ && !claimed_.unfinished;) {
    const auto most = static_cast<std::size_t>(order_.batch_size) - claimed_.entries.size();
    auto rows = due_rows(place, most);
    // Many messages of other topics stand in front.
    const bool leaps = rows.empty() && order_.topics != nullptr && !place.is_end && !full_;
    if (leaps) rows = due_rows_after_foreign(place, most);
    if (!take(rows)) ++rounds;
  }
  if (order_.topics != nullptr) note_passed(place);
}

bool QueueClaim::take(std::vector<DueRow>& rows) {
  auto& entries = claimed_.entries;
  std::vector<std::int64_t> taken;
  taken.reserve(rows.size());
  for (auto& row : rows) {
    if (!may_claim(row)) {
      bytes_ -= static_cast<std::int64_t>(row.entry.claimed.message.payload.size());
      continue;
    }
    row.entry.claimed.lease_until = now_ + order_.lease;
    taken.push_back(row.seq);
    entries.push_back(std::move(row.entry));
  }
  lease(taken);
  full_ =
      entries.size() == static_cast<std::size_t>(order_.batch_size) || (full_ && !entries.empty());
  claimed_.cut = claimed_.cut && full_;
  return taken.size() == rows.size();
}

void QueueClaim::note_passed(const Place& place) {
  auto& passed = claimed_.passed[index_of(place.lane)];
  if (claimed_.unfinished) {
    passed = place.from;
  } else if (place.is_end && !claimed_.cut) {
    passed = {.ready_at = now_ - late_by, .id = {}, .row = 0};
  }
}

bool QueueClaim::read_due(const Cursor& cursor, std::vector<DueRow>& rows) {
  using Column = sql::columns::claim;
  const auto size = static_cast<std::int64_t>(cursor.view(Column::payload).size());
  if (bytes_ > 0 && bytes_ + size > order_.max_bytes) {
    full_ = claimed_.cut = true;
    return false;
  }
  bytes_ += size;
  DueRow row;
  row.entry.claimed.message = read_message<Column>(cursor);
  row.seq = cursor.integer(Column::row_at);
  row.entry.claimed.claim = {row.entry.claimed.message.id, cursor.integer(Column::claim_epoch) + 1,
                             storage::hint_at(row.seq)};
  row.entry.ready_at = cursor.time(Column::ready_at);
  row.entry.lost_leases = static_cast<int>(cursor.integer(Column::lost_leases));
  row.lost = cursor.integer(Column::lease_until) > 0;
  rows.push_back(std::move(row));
  return true;
}

std::vector<QueueClaim::DueRow> QueueClaim::due_rows(Place& place, std::size_t most) {
  using Column = sql::columns::claim;
  const auto* topics = order_.topics;
  const auto rest = topics != nullptr && (topics->except || topics->topics.size() > 1)
                        ? std::optional{core::to_json(topics->topics)}
                        : std::nullopt;
  std::vector<DueRow> rows;
  rows.reserve(most);
  auto cursor = context_.run(connection_, context_.sql.claim);
  cursor.bind(place.lane).bind(now_).bind(place.from.ready_at).bind(place.from.row);
  cursor.bind(one_topic(topics)).bind(core::view_of(rest));
  cursor.bind(std::int64_t{topics != nullptr && topics->except ? 1 : 0});
  for (std::size_t foreign = 0; rows.size() < most && foreign < nearby;) {
    if (!cursor.step()) {
      place.is_end = true;
      break;
    }
    const bool is_taken = !filter_.message || filter_.message(cursor.uuid(Column::id));
    if (is_taken && (topics == nullptr || topics->takes(cursor.view(Column::topic)))) {
      if (!read_due(cursor, rows)) break;
      continue;
    }
    ++foreign;
    if (rows.empty())
      place.from = {cursor.time(Column::ready_at), {}, cursor.integer(Column::row_at)};
  }
  return rows;
}

std::optional<storage::QueueMark> QueueClaim::leap_bound(const Place& place) {
  using Column = sql::columns::claim_step_bound;
  const auto rows = order_.scan_limit > 0 ? std::int64_t{order_.scan_limit} : leap_rows;
  if (const auto near = near_bound(place, rows)) return near;
  auto cursor = context_.run(connection_, context_.sql.claim_step_bound);
  cursor.bind(place.lane).bind(now_).bind(place.from.ready_at).bind(place.from.row).bind(rows);
  if (!cursor.step()) return std::nullopt;
  return storage::QueueMark{cursor.time(Column::ready_at), {}, cursor.integer(Column::row_at)};
}

/// Messages usually wait in the order of their rows. Then the time of a later row is a bound that
/// takes no search.
std::optional<storage::QueueMark> QueueClaim::near_bound(const Place& place, std::int64_t rows) {
  if (place.from.row == 0) return std::nullopt;
  const auto row = place.from.row + rows;
  auto cursor = context_.run(connection_, context_.sql.claim_step_bound_of_row);
  cursor.bind(row).bind(place.lane);
  if (!cursor.step()) return std::nullopt;
  const auto ready_at = cursor.time(0);
  if (ready_at <= place.from.ready_at || ready_at > now_) return std::nullopt;
  return storage::QueueMark{ready_at, {}, row};
}

std::vector<QueueClaim::LeapRow> QueueClaim::leap(const Place& place,
                                                  const std::optional<storage::QueueMark>& bound,
                                                  std::size_t most) {
  using Column = sql::columns::claim_step_leap;
  const auto end = bound.value_or(storage::QueueMark{
      .ready_at = now_, .id = {}, .row = std::numeric_limits<std::int64_t>::max()});
  std::vector<LeapRow> found;
  const auto& filter = *order_.topics;
  const bool few = !filter.except && !filter.topics.empty() && filter.topics.size() <= leap_topics;
  auto cursor = context_.run(
      connection_, few ? context_.sql.claim_step_leap : context_.sql.claim_step_leap_by_list);
  cursor.bind(place.lane).bind(end.ready_at).bind(place.from.ready_at).bind(place.from.row);
  cursor.bind(end.row).bind(now_).bind(static_cast<std::int64_t>(most));
  const auto list = few ? std::string{} : core::to_json(filter.topics);
  if (few) {
    bind_topics(cursor, filter.topics);
  } else {
    cursor.bind(std::string_view{list}).bind(std::int64_t{filter.except ? 1 : 0});
  }
  while (cursor.step())
    found.push_back({cursor.integer(Column::row_at), cursor.time(Column::ready_at)});
  return found;
}

std::vector<QueueClaim::DueRow> QueueClaim::due_rows_after_foreign(Place& place, std::size_t most) {
  const auto bound = leap_bound(place);
  const auto found = leap(place, bound, most);
  std::vector<std::int64_t> seqs;
  seqs.reserve(found.size());
  for (const auto& each : found) seqs.push_back(each.seq);
  std::vector<DueRow> rows;
  rows.reserve(seqs.size());
  for (std::span<const std::int64_t> left = seqs; !left.empty() && !full_;) {
    const auto count = run_length(left);
    auto cursor = context_.run(connection_, context_.sql.claim_step_rows);
    cursor.bind(left.front()).bind(left[count - 1]);
    while (cursor.step() && read_due(cursor, rows)) {
    }
    left = left.subspan(count);
  }
  // Do not pass rows that are too large for this claim, or that follow a full batch.
  if (rows.size() < seqs.size() || seqs.size() == most) return rows;
  if (bound) place.from = *bound;
  place.is_end = !bound;
  claimed_.unfinished = bound && order_.scan_limit > 0;
  return rows;
}

bool QueueClaim::may_claim(DueRow& row) {
  auto& message = row.entry.claimed.message;
  if (message.expires_at && *message.expires_at <= now_) {
    fail_row(context_, connection_, {.seq = row.seq, .charge = 0, .error = expired_error}, now_);
    return false;
  }
  // If a reaper ended the lost lease, it has charged the attempt already.
  const int charge = row.lost ? 1 : 0;
  if ((row.lost || row.entry.lost_leases > 0) && message.attempts + charge >= order_.max_attempts) {
    // A claim with a higher limit takes a message that must not fail.
    if (context_.watchers.spares(connection_, row.entry.claimed.claim.id.uuid())) return false;
    fail_row(context_, connection_,
             {.seq = row.seq, .charge = charge, .error = lease_expired_error}, now_);
    return false;
  }
  if (row.lost) {
    release_lost(context_, connection_, row.seq, now_);
    ++message.attempts;
    ++row.entry.lost_leases;
  }
  if (!paused_.empty() && paused_.contains(message.topic)) {
    context_.run(connection_, context_.sql.claim_step_park).bind(row.seq).run();
    return false;
  }
  return true;
}

void QueueClaim::lease(std::span<const std::int64_t> rows) {
  const auto until = now_ + order_.lease;
  while (!rows.empty()) {
    const auto count = run_length(rows);
    auto cursor = context_.run(connection_, context_.sql.claim_step_lease);
    cursor.bind(order_.owner.uuid()).bind(until).bind(rows.front()).bind(rows[count - 1]).run();
    rows = rows.subspan(count);
  }
}

std::optional<std::chrono::microseconds> QueueClaim::next_due() {
  using std::chrono::microseconds;
  if (order_.topics == nullptr) {
    auto cursor = context_.run(connection_, context_.sql.next_due);
    cursor.bind(now_).step();
    return cursor.is_null(0) ? std::nullopt : std::optional{microseconds{cursor.integer(0)}};
  }
  std::optional<microseconds> next;
  for (auto lane = lane_below(context_, connection_, storage::highest_priority + 1); lane;
       lane = lane_below(context_, connection_, *lane)) {
    const auto in = next_due_in(*lane);
    if (in) next = next ? std::min(*next, *in) : *in;
  }
  return next;
}

std::optional<std::chrono::microseconds> QueueClaim::next_due_in(std::int64_t lane) {
  using Column = sql::columns::next_due_step_lane;
  auto cursor = context_.run(connection_, context_.sql.next_due_step_lane);
  cursor.bind(lane).bind(now_).bind(scheduled_looked_at);
  for (std::int64_t seen = 1; cursor.step(); ++seen) {
    // The search ends after this many messages of other topics. The worker looks again when the
    // last of them is due.
    if (!order_.topics->takes(cursor.view(Column::topic)) && seen < scheduled_looked_at) continue;
    return std::chrono::microseconds{cursor.integer(Column::due_in)};
  }
  return std::nullopt;
}

}  // namespace dovetail::sqlite
