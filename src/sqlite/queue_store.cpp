#include "sqlite/queue_store.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "core/assert.hpp"
#include "core/headers.hpp"
#include "core/random.hpp"
#include "core/text.hpp"
#include "dovetail/backoff.hpp"
#include "sqlite/session.hpp"
#include "storage/row_hint.hpp"

namespace dovetail::sqlite {
namespace {

using storage::row_of;

constexpr std::int64_t count_limit = 100'000;
constexpr int set_aside_rounds = 100;
constexpr std::size_t rows_at_once = 16;    // of the statements named …_many
constexpr std::size_t inserts_at_once = 8;  // of enqueue_many_step_eight
constexpr std::size_t shortest_run = 3;     // below it, the statements named …_run gain nothing
/// So far from the present a claim has seen all messages: nobody stores one with an earlier time.
constexpr std::chrono::seconds late_by{1};
constexpr std::int64_t scheduled_looked_at = 100;
/// A claim of some topics looks at so many messages of others one by one, and then at many of them
/// in one statement.
constexpr std::size_t nearby = 200;
constexpr std::int64_t leap_rows = 50'000;
constexpr std::string_view expired_error = "expired before it was handled";
constexpr std::string_view lease_error = "its lease ran out, and with it its last attempt";

/// How many claims one statement takes: it knows one epoch per id.
std::size_t distinct_prefix(std::span<const Claim> claims) {
  std::size_t count = 1;
  while (count < std::min(rows_at_once, claims.size()) &&
         std::ranges::find(claims.first(count), claims[count].id, &Claim::id) ==
             claims.begin() + static_cast<std::ptrdiff_t>(count)) {
    ++count;
  }
  return count;
}

/// How many of the first rows follow one another without a gap.
std::size_t run_length(std::span<const std::int64_t> rows) {
  std::size_t count = 1;
  while (count < rows.size() && rows[count] == rows[count - 1] + 1) ++count;
  return count;
}

/// Where the run that begins with the first claim ends: rows without a gap, all of one epoch.
std::span<const Claim> first_run(std::span<const Claim> claims) {
  std::size_t count = 1;
  while (count < claims.size() && row_of(claims[0]) != 0 &&
         row_of(claims[count]) == row_of(claims[count - 1]) + 1 &&
         claims[count].epoch == claims[0].epoch) {
    ++count;
  }
  return claims.first(count);
}

/// The columns that claimed and stored messages share, from the first on.
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

void bind_filter(Cursor& cursor, const DeadLetterFilter& filter, int most) {
  cursor.bind(core::view_of(filter.topic))
      .bind(filter.failed_after)
      .bind(filter.failed_before)
      .bind(std::int64_t{most});
}

StoredMessage read_stored(const Cursor& row) {
  StoredMessage stored;
  stored.message = read_message(row);
  stored.status = static_cast<MessageStatus>(row.integer(11));
  stored.processed_at = row.time_or_null(12);
  if (!row.is_null(13)) stored.processed_by = OwnerToken{row.uuid(13)};
  stored.last_error = row.text_or_null(14);
  stored.past_attempts = static_cast<int>(row.integer(15));
  stored.unique_key = row.text_or_null(16);
  stored.next_attempt_at = row.time_or_null(17);
  return stored;
}

/// Nothing that is stored already can be the same.
bool is_unhindered(const storage::NewMessage& message) {
  return message.fresh && !message.unique_key;
}

/// A topic that the claim takes; null when it takes all of them. No topic is empty.
std::optional<std::string_view> one_topic(const storage::TopicFilter* topics) {
  if (topics == nullptr) return std::nullopt;
  return topics->except || topics->topics.empty() ? "" : std::string_view{*topics->topics.begin()};
}

/// What every statement that stores a message takes, in this order.
void bind_message(Cursor& cursor, const storage::NewMessage& message, WallTime now) {
  cursor.bind(message.id.uuid())
      .bind(message.topic)
      .bind(message.payload)
      .bind(message.correlation_id)
      .bind(message.delay ? std::optional<WallTime>{now + *message.delay} : message.due_at)
      .bind(core::view_of(message.headers))
      .bind(message.expires_at)
      .bind(std::int64_t{message.priority});
}

}  // namespace

// --- enqueue

void QueueStore::insert(Connection& connection, Messages some) {
  DOVETAIL_ASSERT(some.size() == 1 || some.size() == inserts_at_once);
  auto cursor =
      connection.run(texts_, some.size() == 1 ? sql_.enqueue_many : sql_.enqueue_many_step_eight);
  const auto now = clock_->wall();
  cursor.bind(now);
  for (const auto* message : some) bind_message(cursor, *message, now);
  cursor.run();
}

void QueueStore::write(Connection& connection) {
  const auto gathered = std::exchange(gathered_, {});
  for (Messages left = gathered; !left.empty();) {
    const auto some = left.first(left.size() < inserts_at_once ? 1 : inserts_at_once);
    insert(connection, some);
    left = left.subspan(some.size());
  }
}

Enqueued QueueStore::enqueue(storage::WriteSession& session, const storage::NewMessage& message) {
  auto& connection = WriteSession::of(session);
  if (connection.gathering() && message.lasts && is_unhindered(message)) {
    session.wakes(sql_.name);
    connection.gather(*this);
    gathered_.push_back(&message);
    return {message.id, true};
  }
  {
    auto cursor = connection.run(texts_, sql_.enqueue);
    const auto now = clock_->wall();
    bind_message(cursor, message, now);
    cursor.bind(message.unique_key).bind(now);
    if (cursor.run() == 1) {
      session.wakes(sql_.name);
      return {message.id, true};
    }
  }
  auto existing = connection.run(texts_, sql_.enqueue_step_existing);
  existing.bind(message.id.uuid()).bind(message.unique_key).step();
  return {MessageId{existing.uuid(0)}, false};
}

std::vector<Enqueued> QueueStore::enqueue_many(storage::WriteSession& session,
                                               std::span<const storage::NewMessage> messages,
                                               bool repeated) {
  auto& connection = WriteSession::of(session);
  session.wakes(sql_.name);
  std::vector<Enqueued> answers;
  answers.reserve(messages.size());
  std::array<const storage::NewMessage*, inserts_at_once> some{};
  while (!messages.empty()) {
    if (repeated || !is_unhindered(messages.front())) {
      answers.push_back(enqueue(session, messages.front()));
      messages = messages.subspan(1);
      continue;
    }
    const auto next = messages.first(std::min(messages.size(), some.size()));
    const bool full = next.size() == some.size() && std::ranges::all_of(next, is_unhindered);
    const std::size_t count = full ? some.size() : 1;
    std::ranges::transform(next.first(count), some.begin(), [](const auto& each) { return &each; });
    insert(connection, std::span{some}.first(count));
    for (const auto& message : next.first(count)) answers.emplace_back(message.id, true);
    messages = messages.subspan(count);
  }
  return answers;
}

// --- claim and settle

bool QueueStore::read_due(ClaimRun& run, const Cursor& cursor, std::vector<DueRow>& rows) {
  const auto size = static_cast<std::int64_t>(cursor.view(2).size());
  if (run.bytes > 0 && run.bytes + size > run.order.max_bytes) {
    run.full = run.claimed.cut = true;
    return false;
  }
  run.bytes += size;
  DueRow row;
  row.entry.claimed.message = read_message(cursor);
  row.seq = cursor.integer(13);
  row.entry.claimed.claim = {row.entry.claimed.message.id, cursor.integer(10) + 1,
                             storage::hint_at(row.seq)};
  row.entry.ready_at = cursor.time(12);
  row.entry.lost_leases = static_cast<int>(cursor.integer(14));
  row.lost = cursor.integer(11) > 0;
  rows.push_back(std::move(row));
  return true;
}

std::vector<QueueStore::DueRow> QueueStore::due_rows(Connection& connection, ClaimRun& run,
                                                     Place& place, std::size_t most) {
  const auto* topics = run.order.topics;
  const auto rest = topics != nullptr && (topics->except || topics->topics.size() > 1)
                        ? std::optional{core::to_json(topics->topics)}
                        : std::nullopt;
  std::vector<DueRow> rows;
  rows.reserve(most);
  auto cursor = connection.run(texts_, sql_.claim);
  cursor.bind(place.lane).bind(run.now).bind(place.from.ready_at).bind(place.from.row);
  cursor.bind(one_topic(topics)).bind(core::view_of(rest));
  cursor.bind(std::int64_t{topics != nullptr && topics->except ? 1 : 0});
  for (std::size_t foreign = 0; rows.size() < most && foreign < nearby;) {
    if (!cursor.step()) {
      place.is_end = true;
      break;
    }
    if (topics == nullptr || topics->takes(cursor.view(1))) {
      if (!read_due(run, cursor, rows)) break;
      continue;
    }
    ++foreign;
    if (rows.empty()) place.from = {cursor.time(12), {}, cursor.integer(13)};
  }
  return rows;
}

std::vector<std::int64_t> QueueStore::leap(Connection& connection, ClaimRun& run, Place& place,
                                           std::size_t most) {
  const auto rows = run.order.look_at > 0 ? std::int64_t{run.order.look_at} : leap_rows;
  storage::QueueMark bound{
      .ready_at = run.now, .id = {}, .row = std::numeric_limits<std::int64_t>::max()};
  bool reaches_end = true;
  {
    auto cursor = connection.run(texts_, sql_.claim_step_bound);
    cursor.bind(place.lane).bind(run.now).bind(place.from.ready_at).bind(place.from.row).bind(rows);
    if (cursor.step()) {
      bound = {cursor.time(0), {}, cursor.integer(1)};
      reaches_end = false;
    }
  }
  const auto& filter = *run.order.topics;
  const auto topics = core::to_json(filter.topics);
  std::vector<std::int64_t> found;
  auto cursor = connection.run(texts_, sql_.claim_step_leap);
  cursor.bind(place.lane)
      .bind(bound.ready_at)
      .bind(place.from.ready_at)
      .bind(place.from.row)
      .bind(bound.row);
  cursor.bind(run.now).bind(std::string_view{topics}).bind(std::int64_t{filter.except ? 1 : 0});
  cursor.bind(static_cast<std::int64_t>(most));
  while (cursor.step()) found.push_back(cursor.integer(0));
  if (found.size() == most) return found;  // perhaps there are more before the bound
  place.from = bound;
  place.is_end = reaches_end;
  run.claimed.unfinished = !reaches_end && run.order.look_at > 0;
  return found;
}

std::vector<QueueStore::DueRow> QueueStore::due_rows_far_away(Connection& connection, ClaimRun& run,
                                                              Place& place, std::size_t most) {
  const auto before = place;
  const auto found = leap(connection, run, place, most);
  std::vector<DueRow> rows;
  rows.reserve(found.size());
  for (std::span<const std::int64_t> left = found; !left.empty() && !run.full;) {
    const auto count = run_length(left);
    auto cursor = connection.run(texts_, sql_.claim_step_rows);
    cursor.bind(left.front()).bind(left[count - 1]);
    while (cursor.step() && read_due(run, cursor, rows)) {
    }
    left = left.subspan(count);
  }
  if (rows.size() < found.size()) {  // the rest is too large for now: it is not passed
    place = before;
    run.claimed.unfinished = false;
  }
  return rows;
}

bool QueueStore::may_have(Connection& connection, const ClaimRun& run, DueRow& row) {
  auto& message = row.entry.claimed.message;
  if (message.expires_at && *message.expires_at <= run.now) {
    fail_row(connection, row.seq, 0, expired_error, std::nullopt, run.now);
    return false;
  }
  // A reaper has charged the lost leases that it took back.
  const int charge = row.lost ? 1 : 0;
  if ((row.lost || row.entry.lost_leases > 0) &&
      message.attempts + charge >= run.order.max_attempts) {
    fail_row(connection, row.seq, charge, lease_error, std::nullopt, run.now);
    return false;
  }
  if (row.lost) {
    connection.run(texts_, sql_.reap_expired_step_release).bind(row.seq).run();
    ++message.attempts;
    ++row.entry.lost_leases;
  }
  if (!run.paused.empty() && run.paused.contains(message.topic)) {
    connection.run(texts_, sql_.claim_step_park).bind(row.seq).run();
    return false;
  }
  return true;
}

void QueueStore::lease(Connection& connection, const storage::ClaimOrder& order, WallTime until,
                       std::span<const std::int64_t> rows) {
  while (!rows.empty()) {
    const auto count = run_length(rows);
    auto cursor = connection.run(texts_, sql_.claim_step_lease);
    cursor.bind(order.owner.uuid()).bind(until).bind(rows.front()).bind(rows[count - 1]).run();
    rows = rows.subspan(count);
  }
}

void QueueStore::claim_lane(Connection& connection, ClaimRun& run, std::int64_t lane) {
  const auto wanted = static_cast<std::size_t>(run.order.batch_size);
  auto& claimed = run.claimed.entries;
  const auto index = static_cast<std::size_t>(lane - storage::lowest_priority);
  Place place{.lane = lane};
  if (run.order.after != nullptr && (*run.order.after)[index])
    place.from = *(*run.order.after)[index];
  // Bounded: a long row of paused messages is put aside in several transactions. Each wakes the
  // workers, because they watch the file for changes.
  for (int rounds = 0;
       rounds < set_aside_rounds && !place.is_end && !run.full && !run.claimed.unfinished;) {
    const auto most = wanted - claimed.size();
    auto rows = due_rows(connection, run, place, most);
    // Many messages of other topics stand in front.
    const bool leaps = rows.empty() && run.order.topics != nullptr && !place.is_end && !run.full;
    if (leaps) rows = due_rows_far_away(connection, run, place, most);
    std::vector<std::int64_t> taken;
    taken.reserve(rows.size());
    for (auto& row : rows) {
      if (!may_have(connection, run, row)) {
        run.bytes -= static_cast<std::int64_t>(row.entry.claimed.message.payload.size());
        continue;
      }
      row.entry.claimed.lease_until = run.now + run.order.lease;
      taken.push_back(row.seq);
      claimed.push_back(std::move(row.entry));
    }
    lease(connection, run.order, run.now + run.order.lease, taken);
    if (taken.size() < rows.size()) ++rounds;
    run.full = claimed.size() == wanted || (run.full && !claimed.empty());
    run.claimed.cut = run.claimed.cut && run.full;
  }
  if (run.order.topics == nullptr) return;
  if (run.claimed.unfinished) {
    run.claimed.passed[index] = place.from;
  } else if (place.is_end && !run.claimed.cut) {
    run.claimed.passed[index] = {.ready_at = run.now - late_by, .id = {}, .row = 0};
  }
}

std::optional<std::int64_t> QueueStore::lane_below(Connection& connection, std::int64_t lane) {
  auto cursor = connection.run(texts_, sql_.claim_step_next_lane);
  cursor.bind(lane).step();
  return cursor.is_null(0) ? std::nullopt : std::optional{cursor.integer(0)};
}

storage::Claimed QueueStore::claim(storage::WriteSession& session,
                                   const storage::ClaimOrder& order) {
  auto& connection = WriteSession::of(session);
  ClaimRun run{.order = order, .now = clock_->wall()};
  run.claimed.entries.reserve(static_cast<std::size_t>(order.batch_size));
  for (auto cursor = connection.run(texts_, sql_.paused); cursor.step();)
    run.paused.insert(cursor.text(0));
  for (auto lane = lane_below(connection, storage::highest_priority + 1);
       lane && !run.full && !run.claimed.unfinished; lane = lane_below(connection, *lane)) {
    claim_lane(connection, run, *lane);
  }
  if (order.asks_next_due) run.claimed.next_due = next_due(connection, order, run.now);
  return std::move(run.claimed);
}

std::optional<std::chrono::microseconds> QueueStore::next_due(Connection& connection,
                                                              const storage::ClaimOrder& order,
                                                              WallTime now) {
  using std::chrono::microseconds;
  if (order.topics == nullptr) {
    auto cursor = connection.run(texts_, sql_.next_due);
    cursor.bind(now).step();
    return cursor.is_null(0) ? std::nullopt : std::optional{microseconds{cursor.integer(0)}};
  }
  std::optional<microseconds> next;
  for (auto lane = lane_below(connection, storage::highest_priority + 1); lane;
       lane = lane_below(connection, *lane)) {
    auto cursor = connection.run(texts_, sql_.next_due_step_lane);
    cursor.bind(*lane).bind(now).bind(scheduled_looked_at);
    for (std::int64_t seen = 1; cursor.step(); ++seen) {
      // Behind that many of other topics it is too far to look: look again when the last of them is
      // due.
      if (!order.topics->takes(cursor.view(1)) && seen < scheduled_looked_at) continue;
      const microseconds in{cursor.integer(0)};
      next = next ? std::min(*next, in) : in;
      break;
    }
  }
  return next;
}

storage::WorkAnswer QueueStore::work(storage::WriteSession& session,
                                     const storage::WorkOrder& order) {
  using Kind = storage::Settlement::Kind;
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  storage::WorkAnswer answer;
  const auto settle = [&](const storage::Settlement& each) {
    switch (each.kind) {
      case Kind::ack:
        break;
      case Kind::abandon:
        return abandon_one(connection, order.owner, each.claim, each.error, each.delay,
                           each.max_attempts, now);
      case Kind::fail:
        return fail_one(connection, order.owner, each.claim, each.error, each.charge, now);
      case Kind::snooze:
        return snooze_one(connection, order.owner, each.claim, each.delay, now);
    }
    return false;
  };
  std::vector<Claim> acks;
  for (const auto& each : order.settlements) {
    if (each.kind == Kind::ack) {
      acks.push_back(each.claim);
    } else if (settle(each)) {
      ++answer.settled;
    }
  }
  answer.settled += ack_all(connection, order.owner, acks, order.keep_done, now);
  for (const auto& each : order.claims) answer.claimed.push_back(claim(session, each));
  return answer;
}

std::vector<Claim> QueueStore::settleable(storage::WriteSession& /*session*/, OwnerToken /*owner*/,
                                          std::span<const Claim> claims) {
  std::vector<Claim> all(claims.begin(), claims.end());
  std::ranges::sort(all, {}, &Claim::id);
  return all;
}

void QueueStore::absolve(storage::WriteSession& session, std::span<const MessageId> ids) {
  auto& connection = WriteSession::of(session);
  for (const auto& id : ids) connection.run(texts_, sql_.absolve).bind(id.uuid()).run();
}

std::optional<QueueStore::ClaimedRow> QueueStore::find_claimed(Connection& connection,
                                                               OwnerToken owner, const Claim& claim,
                                                               WallTime now) {
  auto cursor = connection.run(texts_, sql_.abandon_step_claimed);
  cursor.bind(owner.uuid()).bind(claim.id.uuid()).bind(claim.epoch).bind(now);
  if (!cursor.step()) return std::nullopt;
  return ClaimedRow{cursor.integer(0), static_cast<int>(cursor.integer(1))};
}

std::size_t QueueStore::ack_all(Connection& connection, OwnerToken owner,
                                std::span<const Claim> claims, bool keep, WallTime now) {
  std::vector<Uuid> ids;
  ids.reserve(claims.size());
  for (const auto& claim : claims) ids.push_back(claim.id.uuid());
  const auto watched = watcher_.watched(connection, ids);
  if (watched.empty()) return ack_unwatched(connection, owner, claims, keep, now);
  const std::set<Uuid> awaited(watched.begin(), watched.end());
  std::vector<Claim> unwatched;
  std::vector<Uuid> ended;
  for (const auto& claim : claims) {
    if (!awaited.contains(claim.id.uuid())) {
      unwatched.push_back(claim);
    } else if (ack_some(connection, owner, std::span{&claim, 1}, keep, now) == 1) {
      ended.push_back(claim.id.uuid());
    }
  }
  if (!ended.empty()) watcher_.ended(connection, ended, Ending::done, now);
  return ended.size() + ack_unwatched(connection, owner, unwatched, keep, now);
}

std::size_t QueueStore::ack_unwatched(Connection& connection, OwnerToken owner,
                                      std::span<const Claim> claims, bool keep, WallTime now) {
  if (claims.size() < shortest_run) return ack_some(connection, owner, claims, keep, now);
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
      const auto found = ack_run(connection, owner, run, keep, now);
      count += found;
      // Those that are not where they are said to be are looked for by their ids.
      if (found < run.size()) scattered.insert(scattered.end(), run.begin(), run.end());
    }
  }
  return count + ack_some(connection, owner, scattered, keep, now);
}

std::size_t QueueStore::ack_run(Connection& connection, OwnerToken owner,
                                std::span<const Claim> run, bool keep, WallTime now) {
  std::vector<Uuid> ids;
  ids.reserve(run.size());
  for (const auto& claim : run) ids.push_back(claim.id.uuid());
  static_assert(sizeof(Uuid) == 16);
  auto cursor = connection.run(texts_, keep ? sql_.ack_step_run : sql_.ack_step_forget_run);
  return cursor.bind(now)
      .bind(owner.uuid())
      .bind(row_of(run.front()))
      .bind(row_of(run.back()))
      .bind(run.front().epoch)
      .bind(std::as_bytes(std::span{ids}))
      .run();
}

std::size_t QueueStore::ack_some(Connection& connection, OwnerToken owner,
                                 std::span<const Claim> claims, bool keep, WallTime now) {
  std::size_t count = 0;
  if (claims.size() < shortest_run) {
    for (const auto& claim : claims) {
      auto cursor = connection.run(texts_, keep ? sql_.ack : sql_.ack_step_forget);
      count += cursor.bind(owner.uuid()).bind(claim.id.uuid()).bind(claim.epoch).bind(now).run();
    }
    return count;
  }
  while (!claims.empty()) {
    const auto some = claims.first(distinct_prefix(claims));
    claims = claims.subspan(some.size());
    auto cursor = connection.run(texts_, keep ? sql_.ack_step_many : sql_.ack_step_forget_many);
    cursor.bind(now).bind(owner.uuid());
    for (const auto& claim : some) cursor.bind(claim.id.uuid()).bind(claim.epoch);
    count += cursor.run();
  }
  return count;
}

void QueueStore::fail_row(Connection& connection, std::int64_t seq, int charge,
                          std::optional<std::string_view> error, std::optional<OwnerToken> by,
                          WallTime now) {
  Uuid message;
  {
    auto cursor = connection.run(texts_, sql_.fail);
    cursor.bind(seq)
        .bind(now)
        .bind(std::int64_t{charge})
        .bind(error)
        .bind(by ? std::optional{by->uuid()} : std::nullopt);
    if (!cursor.step()) return;
    message = cursor.uuid(0);
  }
  const std::span<const Uuid> one{&message, 1};
  if (!watcher_.watched(connection, one).empty())
    watcher_.ended(connection, one, Ending::failed, now);
}

bool QueueStore::abandon_one(Connection& connection, OwnerToken owner, const Claim& claim,
                             std::string_view error, std::optional<std::chrono::microseconds> delay,
                             int max_attempts, WallTime now) {
  const auto row = find_claimed(connection, owner, claim, now);
  if (!row) return false;
  const auto reason = error.empty() ? std::nullopt : std::optional{error};
  if (row->attempts + 1 >= max_attempts) {
    fail_row(connection, row->seq, 1, reason, owner, now);
    return true;
  }
  const auto pause =
      delay ? *delay : ExponentialBackoff{}.delay(row->attempts + 1, core::random_unit());
  connection.run(texts_, sql_.abandon).bind(row->seq).bind(now + pause).bind(reason).run();
  return true;
}

bool QueueStore::fail_one(Connection& connection, OwnerToken owner, const Claim& claim,
                          std::string_view error, int charge, WallTime now) {
  const auto row = find_claimed(connection, owner, claim, now);
  if (row) fail_row(connection, row->seq, charge, error, owner, now);
  return row.has_value();
}

bool QueueStore::snooze_one(Connection& connection, OwnerToken owner, const Claim& claim,
                            std::optional<std::chrono::microseconds> delay, WallTime now) {
  const auto row = find_claimed(connection, owner, claim, now);
  if (!row) return false;
  const auto ready_at = delay ? std::optional{now + *delay} : std::nullopt;
  connection.run(texts_, sql_.snooze).bind(row->seq).bind(ready_at).run();
  return true;
}

std::size_t QueueStore::ack(storage::WriteSession& session, OwnerToken owner,
                            std::span<const Claim> claims, bool keep) {
  return ack_all(WriteSession::of(session), owner, claims, keep, clock_->wall());
}

std::size_t QueueStore::abandon(storage::WriteSession& session, OwnerToken owner,
                                std::span<const Claim> claims, std::string_view error,
                                std::optional<std::chrono::microseconds> delay, int max_attempts) {
  const auto now = clock_->wall();
  return static_cast<std::size_t>(std::ranges::count_if(claims, [&](const Claim& claim) {
    return abandon_one(WriteSession::of(session), owner, claim, error, delay, max_attempts, now);
  }));
}

std::size_t QueueStore::fail(storage::WriteSession& session, OwnerToken owner,
                             std::span<const Claim> claims, std::string_view error, int charge) {
  const auto now = clock_->wall();
  return static_cast<std::size_t>(std::ranges::count_if(claims, [&](const Claim& claim) {
    return fail_one(WriteSession::of(session), owner, claim, error, charge, now);
  }));
}

std::size_t QueueStore::snooze(storage::WriteSession& session, OwnerToken owner,
                               std::span<const Claim> claims,
                               std::optional<std::chrono::microseconds> delay) {
  const auto now = clock_->wall();
  return static_cast<std::size_t>(std::ranges::count_if(claims, [&](const Claim& claim) {
    return snooze_one(WriteSession::of(session), owner, claim, delay, now);
  }));
}

std::vector<MessageId> QueueStore::renew(storage::WriteSession& session, OwnerToken owner,
                                         std::span<const Claim> claims,
                                         std::chrono::microseconds lease) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  std::vector<MessageId> held;
  for (const auto& claim : claims) {
    const auto row = find_claimed(connection, owner, claim, now);
    if (!row) continue;
    connection.run(texts_, sql_.renew).bind(row->seq).bind(now + lease).run();
    held.push_back(claim.id);
  }
  return held;
}

// --- operating

std::size_t QueueStore::reap_expired(storage::WriteSession& session,
                                     std::optional<int> max_attempts, int most,
                                     std::optional<int> look_at) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  std::vector<ClaimedRow> rows;
  for (auto lane = lane_below(connection, storage::highest_priority + 1);
       lane && rows.size() < static_cast<std::size_t>(most); lane = lane_below(connection, *lane)) {
    auto cursor = connection.run(texts_, sql_.reap_expired);
    cursor.bind(*lane)
        .bind(now)
        .bind(most - static_cast<std::int64_t>(rows.size()))
        .bind(look_at ? std::int64_t{*look_at} : std::int64_t{-1});  // all of them
    while (cursor.step()) rows.push_back({cursor.integer(0), static_cast<int>(cursor.integer(1))});
  }
  for (const auto& row : rows) {
    if (max_attempts && row.attempts + 1 >= *max_attempts) {
      fail_row(connection, row.seq, 1, lease_error, std::nullopt, now);
    } else {
      connection.run(texts_, sql_.reap_expired_step_release).bind(row.seq).run();
    }
  }
  return rows.size();
}

std::size_t QueueStore::replay(storage::WriteSession& session,
                               std::optional<std::span<const MessageId>> ids,
                               const DeadLetterFilter& filter, int most) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  std::vector<Uuid> back;
  const auto run = [&](Cursor& cursor) {
    while (cursor.step()) back.push_back(cursor.uuid(0));
  };
  if (!ids) {
    auto cursor = connection.run(texts_, sql_.replay);
    bind_filter(cursor, filter, most);
    cursor.bind(now);
    run(cursor);
  } else {
    for (const auto& id : *ids) {
      auto cursor = connection.run(texts_, sql_.replay_step_one);
      cursor.bind(id.uuid()).bind(now);
      run(cursor);
    }
  }
  watcher_.replayed(connection, back);
  return back.size();
}

std::size_t QueueStore::purge_failed(storage::WriteSession& session,
                                     std::optional<std::span<const MessageId>> ids,
                                     const DeadLetterFilter& filter, int most) {
  auto& connection = WriteSession::of(session);
  if (!ids) {
    auto cursor = connection.run(texts_, sql_.purge_failed);
    bind_filter(cursor, filter, most);
    return cursor.run();
  }
  std::size_t count = 0;
  for (const auto& id : *ids) {
    count += connection.run(texts_, sql_.purge_failed_step_one).bind(id.uuid()).run();
  }
  return count;
}

std::size_t QueueStore::purge_done(storage::WriteSession& session, std::chrono::microseconds age,
                                   int most) {
  auto cursor = WriteSession::of(session).run(texts_, sql_.purge_done);
  return cursor.bind(clock_->wall() - age).bind(std::int64_t{most}).run();
}

bool QueueStore::pause(storage::WriteSession& session, std::string_view topic) {
  auto cursor = WriteSession::of(session).run(texts_, sql_.pause);
  return cursor.bind(topic).bind(clock_->wall()).run() == 1;
}

bool QueueStore::resume(storage::WriteSession& session, std::string_view topic) {
  return WriteSession::of(session).run(texts_, sql_.resume).bind(topic).run() == 1;
}

std::size_t QueueStore::unpark(storage::WriteSession& session,
                               std::optional<std::string_view> topic, int most) {
  return WriteSession::of(session)
      .run(texts_, sql_.unpark)
      .bind(topic)
      .bind(std::int64_t{most})
      .run();
}

WallTime QueueStore::now(storage::ReadSession& session) {
  auto cursor = ReadSession::of(session).run(texts_, sql_.clock);
  cursor.bind(clock_->wall()).step();
  return cursor.time(0);
}

QueueCounts QueueStore::counts(storage::ReadSession& session) {
  auto cursor = ReadSession::of(session).run(texts_, sql_.counts);
  cursor.bind(count_limit).bind(clock_->wall()).step();
  QueueCounts counts;
  counts.ready = cursor.integer(0);
  counts.scheduled = cursor.integer(1);
  counts.in_progress = cursor.integer(2);
  counts.done = cursor.integer(3);
  counts.failed = cursor.integer(4);
  counts.paused = cursor.integer(5);
  counts.counted_up_to = count_limit;
  if (!cursor.is_null(6)) counts.oldest_due = std::chrono::microseconds{cursor.integer(6)};
  return counts;
}

std::vector<storage::DueTopic> QueueStore::due_topics(storage::ReadSession& session,
                                                      std::chrono::microseconds waiting,
                                                      int look_at) {
  const auto now = clock_->wall();
  std::map<std::string, storage::DueTopic> found;
  for (int lane = storage::lowest_priority; lane <= storage::highest_priority; ++lane) {
    auto cursor = ReadSession::of(session).run(texts_, sql_.due_topics);
    cursor.bind(std::int64_t{lane}).bind(now).bind(now - waiting).bind(std::int64_t{look_at});
    while (cursor.step()) {
      auto& topic = found[cursor.text(0)];
      topic.seen += cursor.integer(1);
      topic.oldest_wait = std::max(topic.oldest_wait, std::chrono::microseconds{cursor.integer(2)});
    }
  }
  std::vector<storage::DueTopic> topics;
  topics.reserve(found.size());
  for (auto& [name, topic] : found) {
    topic.topic = name;
    topics.push_back(std::move(topic));
  }
  return topics;
}

bool QueueStore::has_work(storage::ReadSession& session, std::span<const std::string> topics) {
  auto& connection = ReadSession::of(session);
  return std::ranges::any_of(topics, [&](const std::string& topic) {
    auto cursor = connection.run(texts_, sql_.has_work);
    cursor.bind(clock_->wall()).bind(topic).step();
    return cursor.integer(0) != 0;
  });
}

std::optional<StoredMessage> QueueStore::find(storage::ReadSession& session, MessageId id) {
  auto cursor = ReadSession::of(session).run(texts_, sql_.find);
  if (!cursor.bind(id.uuid()).step()) return std::nullopt;
  return read_stored(cursor);
}

std::vector<StoredMessage> QueueStore::dead_letters(storage::ReadSession& session,
                                                    const DeadLetterFilter& filter,
                                                    const DeadLetterPage& page) {
  auto cursor = ReadSession::of(session).run(
      texts_, page.newest_first ? sql_.dead_letters_newest : sql_.dead_letters);
  cursor.bind(core::view_of(filter.topic))
      .bind(filter.failed_after)
      .bind(filter.failed_before)
      .bind(page.after ? std::optional{page.after->uuid()} : std::nullopt)
      .bind(std::int64_t{page.size});
  std::vector<StoredMessage> found;
  while (cursor.step()) found.push_back(read_stored(cursor));
  return found;
}

DeadLetterSummary QueueStore::dead_letter_summary(storage::ReadSession& session,
                                                  const DeadLetterFilter& filter,
                                                  const DeadLetterSummaryLimits& limits) {
  auto cursor = ReadSession::of(session).run(texts_, sql_.dead_letter_summary);
  cursor.bind(core::view_of(filter.topic))
      .bind(filter.failed_after)
      .bind(filter.failed_before)
      .bind(std::int64_t{limits.letters})
      .bind(std::int64_t{limits.groups});
  DeadLetterSummary summary;
  while (cursor.step()) {
    if (cursor.is_null(0)) {
      summary.letters_read = cursor.integer(2);
      continue;
    }
    auto error = cursor.is_null(1) ? std::nullopt : std::optional{cursor.text(1)};
    summary.groups.push_back(
        {cursor.text(0), std::move(error), cursor.integer(2), cursor.time(3), cursor.time(4)});
  }
  return summary;
}

std::vector<PausedTopic> QueueStore::paused(storage::ReadSession& session) {
  auto cursor = ReadSession::of(session).run(texts_, sql_.paused);
  std::vector<PausedTopic> paused;
  while (cursor.step()) paused.push_back({cursor.text(0), cursor.time(1)});
  return paused;
}

}  // namespace dovetail::sqlite
