#include "postgres/queue_store.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "core/headers.hpp"
#include "core/text.hpp"
#include "postgres/session.hpp"
#include "storage/row_hint.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::int64_t count_limit = 100'000;
constexpr std::size_t bulk_rows = 2'000;   // per statement
constexpr std::size_t copy_rows = 20'000;  // per COPY: what it sets up is worth some thousand rows
constexpr std::size_t bulk_bytes = std::size_t{8} << 20;  // of payloads per statement
constexpr std::size_t overhead_per_row = 64;              // of a row beside its texts, about
constexpr std::size_t copy_from = 100;  // messages: below, its round trips cost more
constexpr std::size_t rows_from = 8;    // claims: below, ids are found as fast

std::optional<std::int64_t> micros(std::optional<std::chrono::microseconds> duration) {
  return duration ? std::optional<std::int64_t>{duration->count()} : std::nullopt;
}

std::optional<std::string_view> unless_empty(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional{text};
}

// --- parameters

Params fresh_params(const storage::NewMessage& message) {
  Params params;
  params.add(message.id.uuid())
      .add(message.topic)
      .add(message.payload)
      .add(message.correlation_id)
      .add(message.due_at)
      .add(message.headers ? std::optional<std::string_view>{*message.headers} : std::nullopt)
      .add(message.expires_at)
      .add(std::int32_t{message.priority});
  return params;
}

Params enqueue_params(const storage::NewMessage& message, bool notify) {
  auto params = fresh_params(message);
  params.add(message.unique_key).add(notify).add(micros(message.delay));
  return params;
}

/// A column of many messages as an array, or NULL when no message uses it.
template <class Element, class Get>
void add_column(Params& params, std::span<const storage::NewMessage> messages, const Get& get) {
  std::vector<std::optional<Element>> column;
  column.reserve(messages.size());
  bool used = false;
  for (const auto& message : messages) {
    column.push_back(get(message));
    used = used || column.back().has_value();
  }
  if (used) {
    params.add(std::span<const std::optional<Element>>{column});
  } else {
    params.add(nullptr);
  }
}

Params bulk_params(std::span<const storage::NewMessage> messages, bool fresh, bool notify) {
  using Text = std::string_view;
  Params params;
  std::vector<Uuid> ids;
  std::vector<std::int64_t> priorities;
  ids.reserve(messages.size());
  priorities.reserve(messages.size());
  std::size_t bytes = 0;
  for (const auto& message : messages) {
    ids.push_back(message.id.uuid());
    priorities.push_back(message.priority);
    bytes += message.topic.size() + message.payload.size() + overhead_per_row;
  }
  params.reserve(bytes);
  params.add(std::span<const Uuid>{ids});
  add_column<Text>(params, messages, [](const auto& each) { return std::optional{each.topic}; });
  add_column<Text>(params, messages, [](const auto& each) { return std::optional{each.payload}; });
  add_column<Text>(params, messages, [](const auto& each) { return each.correlation_id; });
  add_column<WallTime>(params, messages, [](const auto& each) { return each.due_at; });
  add_column<Text>(params, messages, [](const auto& each) {
    return each.headers ? std::optional<Text>{*each.headers} : std::nullopt;
  });
  add_column<WallTime>(params, messages, [](const auto& each) { return each.expires_at; });
  if (std::ranges::any_of(priorities, [](std::int64_t priority) { return priority != 0; })) {
    params.add(std::span<const std::int64_t>{priorities});
  } else {
    params.add(nullptr);
  }
  add_column<Text>(params, messages, [](const auto& each) { return each.unique_key; });
  params.add(fresh).add(notify);
  add_column<std::int64_t>(params, messages, [](const auto& each) { return micros(each.delay); });
  return params;
}

/// No more than a topic and a payload, and no id that could be there already.
bool is_plain(const storage::NewMessage& message) {
  return message.fresh && !message.correlation_id && !message.due_at && !message.delay &&
         !message.headers && !message.expires_at && message.priority == 0 && !message.unique_key;
}

void append_field(std::string& out, std::string_view bytes) {
  append_integer(out, static_cast<std::int32_t>(bytes.size()));
  out += bytes;
}

/// In COPY's binary format.
std::string copy_data(std::span<const storage::NewMessage> messages, WallTime now) {
  std::string data;
  std::size_t size = 0;
  for (const auto& message : messages)
    size += message.topic.size() + message.payload.size() + overhead_per_row;
  data.reserve(size + 32);
  data.append("PGCOPY\n\377\r\n\0", 11);
  append_integer(data, std::int32_t{0});  // flags
  append_integer(data, std::int32_t{0});  // no more of a header
  const auto time = to_postgres_time(now);
  for (const auto& message : messages) {
    append_integer(data, std::int16_t{5});
    const auto& id = message.id.uuid().bytes();
    append_field(data, {reinterpret_cast<const char*>(id.data()), id.size()});
    append_field(data, message.topic);
    append_field(data, message.payload);
    for (int column = 0; column < 2; ++column) {
      append_integer(data, std::int32_t{sizeof time});
      append_integer(data, time);
    }
  }
  append_integer(data, std::int16_t{-1});
  return data;
}

/// The first messages that fit into one statement.
std::span<const storage::NewMessage> next_portion(std::span<const storage::NewMessage> messages,
                                                  std::size_t most) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  while (count < messages.size() && count < most && (count == 0 || bytes < bulk_bytes)) {
    bytes += messages[count++].payload.size();
  }
  return messages.first(count);
}

Params claims_params(OwnerToken owner, std::span<const Claim> claims) {
  std::vector<Uuid> ids;
  std::vector<std::int64_t> epochs;
  ids.reserve(claims.size());
  epochs.reserve(claims.size());
  for (const auto& claim : claims) {
    ids.push_back(claim.id.uuid());
    epochs.push_back(claim.epoch);
  }
  Params params;
  params.add(owner.uuid())
      .add(std::span<const Uuid>{ids})
      .add(std::span<const std::int64_t>{epochs});
  return params;
}

/// `claims` in the order of their ids. Where there are many, and each says where it lies, the
/// server goes there; not when they are locked already, where a removal in a subtransaction would
/// cost more.
Params ack_params(OwnerToken owner, std::span<const Claim> claims, bool keep, bool locked = false) {
  auto params = claims_params(owner, claims);
  params.add(keep);
  std::vector<RowAt> rows;
  rows.reserve(claims.size());
  for (const auto& claim : claims) {
    if (const auto row = storage::row_of(claim); row != 0) rows.push_back(RowAt{row});
  }
  if (!locked && rows.size() == claims.size() && rows.size() >= rows_from) {
    params.add(std::span<const RowAt>{rows});
  } else {
    params.add(nullptr);
  }
  return params;
}

Params abandon_params(OwnerToken owner, std::span<const Claim> claims, std::string_view error,
                      std::optional<std::chrono::microseconds> delay, int max_attempts) {
  auto params = claims_params(owner, claims);
  params.add(unless_empty(error)).add(micros(delay)).add(std::int32_t{max_attempts});
  return params;
}

/// Which topics are meant: those to take, then those to leave. NULL: no restriction.
void add_topics(Params& params, const storage::TopicFilter* filter) {
  if (filter == nullptr) {
    params.add(nullptr).add(nullptr);
    return;
  }
  const std::vector<std::optional<std::string_view>> topics(filter->topics.begin(),
                                                            filter->topics.end());
  if (filter->except) params.add(nullptr);
  params.add(std::span<const std::optional<std::string_view>>{topics});
  if (!filter->except) params.add(nullptr);
}

/// From the start, or from the marks of an earlier claim.
void add_marks(Params& params, const storage::QueueMarks* after) {
  if (after == nullptr) {
    params.add(nullptr).add(nullptr);
    return;
  }
  std::vector<std::optional<WallTime>> times;
  std::vector<Uuid> ids;
  for (const auto& mark : *after) {
    times.push_back(mark ? std::optional{mark->ready_at} : std::nullopt);
    ids.push_back(mark ? mark->id : Uuid{});
  }
  params.add(std::span<const std::optional<WallTime>>{times}).add(std::span<const Uuid>{ids});
}

Params claim_params(const storage::ClaimOrder& order) {
  Params params;
  params.add(order.owner.uuid())
      .add(std::int32_t{order.batch_size})
      .add(std::int64_t{order.lease.count()})
      .add(std::int32_t{order.max_attempts});
  add_marks(params, order.after);
  add_topics(params, order.topics);
  params.add(order.max_bytes);
  return params;
}

Params next_due_params(const storage::ClaimOrder& order) {
  Params params;
  add_topics(params, order.topics);
  return params;
}

void add_ids(Params& params, std::optional<std::span<const MessageId>> ids) {
  if (!ids) {
    params.add(nullptr);
    return;
  }
  std::vector<Uuid> uuids;
  for (const auto& id : *ids) uuids.push_back(id.uuid());
  params.add(std::span<const Uuid>{uuids});
}

/// Which dead letters are meant.
Params chosen_params(std::optional<std::span<const MessageId>> ids, const DeadLetterFilter& filter,
                     int most) {
  Params params;
  add_ids(params, ids);
  params.add(core::view_of(filter.topic))
      .add(filter.failed_after)
      .add(filter.failed_before)
      .add(std::int32_t{most});
  return params;
}

// --- results

std::size_t count_of(const Result& result) {
  return static_cast<std::size_t>(result.integer(0, 0));
}

/// The columns that claimed and stored messages share, from the first on.
Message read_message(const Result& result, int row) {
  Message message;
  message.id = MessageId{result.uuid(row, 0)};
  message.message_id = MessageId{result.uuid(row, 0)};
  message.topic = result.text(row, 1);
  if (!result.is_null(row, 2)) message.payload = result.text(row, 2);
  message.correlation_id = result.text_or_null(row, 3);
  if (!result.is_null(row, 4)) message.headers = core::headers_from_json(result.bytes(row, 4));
  message.created_at = result.time(row, 5);
  message.due_at = result.time_or_null(row, 6);
  message.expires_at = result.time_or_null(row, 7);
  message.priority = static_cast<int>(result.integer(row, 8));
  message.attempts = static_cast<int>(result.integer(row, 9));
  return message;
}

storage::ClaimedEntry read_entry(const Result& result, int row) {
  storage::ClaimedEntry entry;
  entry.claimed.message = read_message(result, row);
  entry.claimed.claim = {entry.claimed.message.id, result.integer(row, 10),
                         storage::hint_at(result.integer(row, 14))};
  entry.claimed.lease_until = result.time(row, 11);
  entry.ready_at = result.time(row, 12);
  entry.lost_leases = static_cast<int>(result.integer(row, 13));
  return entry;
}

std::vector<storage::ClaimedEntry> read_claimed(const Result& result) {
  // UPDATE … RETURNING answers in the order of the rows on disk.
  std::vector<std::tuple<std::int64_t, WallTime, Uuid, int>> places;
  places.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    places.emplace_back(-result.integer(row, 8), result.time(row, 12), result.uuid(row, 0), row);
  }
  std::ranges::sort(places);
  std::vector<storage::ClaimedEntry> entries;
  entries.reserve(places.size());
  for (const auto& place : places) entries.push_back(read_entry(result, std::get<int>(place)));
  return entries;
}

bool is_cut(const Result& claimed) {
  for (int row = 0; row < claimed.rows(); ++row) {
    if (claimed.boolean(row, 15)) return true;
  }
  return false;
}

/// The answer of the statement next_due, which was asked before the claim.
void note_next_due(const Result& asked, const storage::ClaimOrder& order,
                   storage::Claimed& claimed) {
  if (!asked.is_null(0, 0)) claimed.next_due = std::chrono::microseconds{asked.integer(0, 0)};
  // The claim has seen all that was there: messages of other topics need not be walked over again.
  const bool saw_all =
      claimed.entries.size() < static_cast<std::size_t>(order.batch_size) && !claimed.cut;
  if (order.topics == nullptr || !saw_all || asked.is_null(0, 1)) return;
  for (auto& mark : claimed.passed) mark = {asked.time(0, 1), Uuid{}};
}

StoredMessage read_stored(const Result& result, int row) {
  StoredMessage stored;
  stored.message = read_message(result, row);
  stored.status = static_cast<MessageStatus>(result.integer(row, 11));
  stored.processed_at = result.time_or_null(row, 12);
  if (!result.is_null(row, 13)) stored.processed_by = OwnerToken{result.uuid(row, 13)};
  stored.last_error = result.text_or_null(row, 14);
  stored.past_attempts = static_cast<int>(result.integer(row, 15));
  stored.unique_key = result.text_or_null(row, 16);
  stored.next_attempt_at = result.time_or_null(row, 17);
  return stored;
}

}  // namespace

// --- enqueue

// The end of a borrowed transaction is not ours to see: there, the SQL function sends a NOTIFY,
// unless other messages have just come. In our own transactions the notifier sends it after the
// commit, or the statement does, if nothing was announced for a while.
Enqueued QueueStore::enqueue(storage::WriteSession& session, const storage::NewMessage& message) {
  auto& core = WriteSession::of(session);
  const bool plain = message.fresh && !message.unique_key;
  const bool announces = core.is_borrowed() || (plain && core.take_turn(sql_.name));
  bool stored = true;
  auto id = message.id;
  if (plain && !message.delay && !core.is_borrowed()) {
    core.run(texts_, announces ? sql_.enqueue_step_fresh_aloud : sql_.enqueue_step_fresh,
             fresh_params(message));
  } else {
    const auto result = core.run(texts_, sql_.enqueue, enqueue_params(message, announces));
    id = MessageId{result.uuid(0, 0)};
    stored = result.boolean(0, 1);
  }
  if (stored) announces ? session.wakes_here(sql_.name) : session.wakes(sql_.name);
  return {id, stored};
}

std::vector<Enqueued> QueueStore::enqueue_many(storage::WriteSession& session,
                                               std::span<const storage::NewMessage> messages,
                                               bool repeated) {
  session.wakes(sql_.name);
  const bool fresh = !repeated && std::ranges::all_of(messages, &storage::NewMessage::fresh);
  auto& core = WriteSession::of(session);
  std::vector<Enqueued> answers;
  answers.reserve(messages.size());
  if (messages.size() >= copy_from && !repeated && !core.is_borrowed() &&
      std::ranges::all_of(messages, is_plain)) {
    const auto now = core.run(texts_, sql_.clock, {}).time(0, 0);
    for (auto left = messages; !left.empty();) {
      const auto some = next_portion(left, copy_rows);
      left = left.subspan(some.size());
      core.copy_in(texts_, sql_.enqueue_many_step_copy, copy_data(some, now));
    }
    for (const auto& message : messages) answers.emplace_back(message.id, true);
    return answers;
  }
  while (!messages.empty()) {
    const auto some = next_portion(messages, bulk_rows);
    messages = messages.subspan(some.size());
    const auto others =
        core.run(texts_, sql_.enqueue_many, bulk_params(some, fresh, core.is_borrowed()));
    const auto first = answers.size();
    for (const auto& message : some) answers.emplace_back(message.id, true);
    for (int row = 0; row < others.rows(); ++row) {
      const auto place = first + static_cast<std::size_t>(others.integer(row, 0)) - 1;
      answers[place] = {MessageId{others.uuid(row, 1)}, false};
    }
  }
  return answers;
}

// --- claim and settle

storage::Claimed QueueStore::claim(storage::WriteSession& session,
                                   const storage::ClaimOrder& order) {
  storage::Claimed claimed;
  claimed.entries =
      read_claimed(WriteSession::of(session).run(texts_, sql_.claim, claim_params(order)));
  return claimed;
}

/// Adds the calls that settle, and answers where the first of them stands whose result is a count.
std::size_t QueueStore::add_settlements(Calls& calls, const storage::WorkOrder& order) const {
  using Kind = storage::Settlement::Kind;
  const auto& settlements = order.settlements;
  const auto owner = order.owner;
  if (settlements.empty()) return calls.size();
  const auto patience = std::to_string(order.lock_patience.count());
  std::vector<Claim> acks;
  for (const auto& each : settlements) {
    if (each.kind == Kind::ack) acks.push_back(each.claim);
  }
  // The usual case needs no statement more.
  const bool only_acks = acks.size() == settlements.size();
  const bool patient = only_acks && order.lock_patience.count() > 0;
  if (!only_acks && order.lock_patience.count() > 0) {
    calls.push_back({&sql_.ack_step_lock_timeout, {}});
    calls.back().params.add(std::string_view{patience});
  }
  // Settled in more than one way, they are locked all together first: in the order of their ids,
  // like everybody.
  const bool mixed = settlements.size() > 1 && !only_acks;
  if (mixed) {
    std::vector<Claim> all;
    for (const auto& each : settlements) all.push_back(each.claim);
    calls.push_back({&sql_.ack_step_lock, claims_params(owner, all)});
  }
  const auto first = calls.size();
  if (!acks.empty()) {
    std::ranges::sort(acks, {}, &Claim::id);
    calls.push_back({patient ? &sql_.ack_step_patient : &sql_.ack,
                     ack_params(owner, acks, order.keep_done, mixed)});
    if (patient) calls.back().params.add(std::string_view{patience});
  }
  for (const auto& each : settlements) {
    const std::span<const Claim> claim{&each.claim, 1};
    switch (each.kind) {
      case Kind::ack:
        break;
      case Kind::abandon:
        calls.push_back({&sql_.abandon,
                         abandon_params(owner, claim, each.error, each.delay, each.max_attempts)});
        break;
      case Kind::fail:
        calls.push_back({&sql_.fail, claims_params(owner, claim)});
        calls.back().params.add(std::string_view{each.error}).add(std::int32_t{each.charge});
        break;
      case Kind::snooze:
        calls.push_back({&sql_.snooze, claims_params(owner, claim)});
        calls.back().params.add(micros(each.delay));
        break;
    }
  }
  return first;
}

storage::WorkAnswer QueueStore::work(storage::WriteSession& session,
                                     const storage::WorkOrder& order) {
  Calls calls;
  const auto first = add_settlements(calls, order);
  const auto settling = calls.size();
  for (const auto& claim : order.claims) {
    // Before the claim: what comes due between the two is in one answer at least.
    if (claim.asks_next_due) calls.push_back({&sql_.next_due, next_due_params(claim)});
    calls.push_back({&sql_.claim, claim_params(claim)});
  }
  storage::WorkAnswer answer;
  if (calls.empty()) return answer;
  const auto results = WriteSession::of(session).run_all(texts_, calls);
  for (std::size_t i = first; i < settling; ++i) answer.settled += count_of(results[i]);
  auto next = results.begin() + static_cast<std::ptrdiff_t>(settling);
  for (const auto& claim : order.claims) {
    storage::Claimed claimed;
    const auto* asked = claim.asks_next_due ? &*next++ : nullptr;
    claimed.cut = is_cut(*next);
    claimed.entries = read_claimed(*next++);
    if (asked != nullptr) note_next_due(*asked, claim, claimed);
    answer.claimed.push_back(std::move(claimed));
  }
  return answer;
}

std::vector<Claim> QueueStore::settleable(storage::WriteSession& session, OwnerToken owner,
                                          std::span<const Claim> claims) {
  const auto result =
      WriteSession::of(session).run(texts_, sql_.ack_step_settleable, claims_params(owner, claims));
  std::set<Uuid> free;
  for (int row = 0; row < result.rows(); ++row) free.insert(result.uuid(row, 0));
  std::vector<Claim> found;
  std::ranges::copy_if(claims, std::back_inserter(found),
                       [&](const Claim& claim) { return free.contains(claim.id.uuid()); });
  std::ranges::sort(found, {}, &Claim::id);
  return found;
}

void QueueStore::absolve(storage::WriteSession& session, std::span<const MessageId> ids) {
  std::vector<Uuid> uuids;
  for (const auto& id : ids) uuids.push_back(id.uuid());
  Params params;
  params.add(std::span<const Uuid>{uuids});
  WriteSession::of(session).run(texts_, sql_.absolve, params);
}

std::size_t QueueStore::ack(storage::WriteSession& session, OwnerToken owner,
                            std::span<const Claim> claims, bool keep) {
  return count_of(WriteSession::of(session).run(texts_, sql_.ack, ack_params(owner, claims, keep)));
}

std::size_t QueueStore::abandon(storage::WriteSession& session, OwnerToken owner,
                                std::span<const Claim> claims, std::string_view error,
                                std::optional<std::chrono::microseconds> delay, int max_attempts) {
  return count_of(WriteSession::of(session).run(
      texts_, sql_.abandon, abandon_params(owner, claims, error, delay, max_attempts)));
}

std::size_t QueueStore::fail(storage::WriteSession& session, OwnerToken owner,
                             std::span<const Claim> claims, std::string_view error, int charge) {
  auto params = claims_params(owner, claims);
  params.add(error).add(std::int32_t{charge});
  return count_of(WriteSession::of(session).run(texts_, sql_.fail, params));
}

std::size_t QueueStore::snooze(storage::WriteSession& session, OwnerToken owner,
                               std::span<const Claim> claims,
                               std::optional<std::chrono::microseconds> delay) {
  auto params = claims_params(owner, claims);
  params.add(micros(delay));
  return count_of(WriteSession::of(session).run(texts_, sql_.snooze, params));
}

std::vector<MessageId> QueueStore::renew(storage::WriteSession& session, OwnerToken owner,
                                         std::span<const Claim> claims,
                                         std::chrono::microseconds lease) {
  auto params = claims_params(owner, claims);
  params.add(std::int64_t{lease.count()});
  const auto result = WriteSession::of(session).run(texts_, sql_.renew, params);
  std::vector<MessageId> held;
  held.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) held.emplace_back(result.uuid(row, 0));
  return held;
}

// --- operating

std::size_t QueueStore::reap_expired(storage::WriteSession& session,
                                     std::optional<int> max_attempts, int most,
                                     std::optional<int> look_at) {
  Params params;
  params.add(max_attempts ? std::optional{std::int32_t{*max_attempts}} : std::nullopt);
  params.add(std::int32_t{most});
  params.add(look_at ? std::optional{std::int32_t{*look_at}} : std::nullopt);
  return count_of(WriteSession::of(session).run(texts_, sql_.reap_expired, params));
}

std::size_t QueueStore::replay(storage::WriteSession& session,
                               std::optional<std::span<const MessageId>> ids,
                               const DeadLetterFilter& filter, int most) {
  return count_of(
      WriteSession::of(session).run(texts_, sql_.replay, chosen_params(ids, filter, most)));
}

std::size_t QueueStore::purge_failed(storage::WriteSession& session,
                                     std::optional<std::span<const MessageId>> ids,
                                     const DeadLetterFilter& filter, int most) {
  return count_of(
      WriteSession::of(session).run(texts_, sql_.purge_failed, chosen_params(ids, filter, most)));
}

std::size_t QueueStore::purge_done(storage::WriteSession& session, std::chrono::microseconds age,
                                   int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return count_of(WriteSession::of(session).run(texts_, sql_.purge_done, params));
}

bool QueueStore::pause(storage::WriteSession& session, std::string_view topic) {
  Params params;
  params.add(topic);
  return WriteSession::of(session).run(texts_, sql_.pause, params).boolean(0, 0);
}

bool QueueStore::resume(storage::WriteSession& session, std::string_view topic) {
  Params params;
  params.add(topic);
  return WriteSession::of(session).run(texts_, sql_.resume, params).boolean(0, 0);
}

std::size_t QueueStore::unpark(storage::WriteSession& session,
                               std::optional<std::string_view> topic, int most) {
  Params params;
  params.add(topic).add(std::int32_t{most});
  return count_of(WriteSession::of(session).run(texts_, sql_.unpark, params));
}

WallTime QueueStore::now(storage::ReadSession& session) {
  return ReadSession::of(session).run(texts_, sql_.clock, {}).time(0, 0);
}

QueueCounts QueueStore::counts(storage::ReadSession& session) {
  Params params;
  params.add(count_limit);
  const auto result = ReadSession::of(session).run(texts_, sql_.counts, params);
  QueueCounts counts;
  counts.ready = result.integer(0, 0);
  counts.scheduled = result.integer(0, 1);
  counts.in_progress = result.integer(0, 2);
  counts.done = result.integer(0, 3);
  counts.failed = result.integer(0, 4);
  counts.paused = result.integer(0, 5);
  counts.counted_up_to = count_limit;
  if (!result.is_null(0, 6)) counts.oldest_due = std::chrono::microseconds{result.integer(0, 6)};
  return counts;
}

std::vector<storage::DueTopic> QueueStore::due_topics(storage::ReadSession& session,
                                                      std::chrono::microseconds waiting,
                                                      int look_at) {
  Params params;
  params.add(std::int64_t{waiting.count()}).add(std::int32_t{look_at});
  const auto result = ReadSession::of(session).run(texts_, sql_.due_topics, params);
  std::vector<storage::DueTopic> topics;
  topics.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    topics.push_back({.topic = result.text(row, 0),
                      .seen = result.integer(row, 1),
                      .oldest_wait = std::chrono::microseconds{result.integer(row, 2)}});
  }
  return topics;
}

bool QueueStore::has_work(storage::ReadSession& session, std::span<const std::string> topics) {
  const std::vector<std::optional<std::string_view>> named(topics.begin(), topics.end());
  Params params;
  params.add(std::span<const std::optional<std::string_view>>{named});
  return ReadSession::of(session).run(texts_, sql_.has_work, params).boolean(0, 0);
}

std::optional<StoredMessage> QueueStore::find(storage::ReadSession& session, MessageId id) {
  Params params;
  params.add(id.uuid());
  const auto result = ReadSession::of(session).run(texts_, sql_.find, params);
  return result.rows() == 0 ? std::nullopt : std::optional{read_stored(result, 0)};
}

std::vector<StoredMessage> QueueStore::dead_letters(storage::ReadSession& session,
                                                    const DeadLetterFilter& filter,
                                                    const DeadLetterPage& page) {
  Params params;
  params.add(core::view_of(filter.topic)).add(filter.failed_after).add(filter.failed_before);
  params.add(page.after ? std::optional{page.after->uuid()} : std::nullopt)
      .add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(
      texts_, page.newest_first ? sql_.dead_letters_newest : sql_.dead_letters, params);
  std::vector<StoredMessage> found;
  found.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) found.push_back(read_stored(result, row));
  return found;
}

DeadLetterSummary QueueStore::dead_letter_summary(storage::ReadSession& session,
                                                  const DeadLetterFilter& filter,
                                                  const DeadLetterSummaryLimits& limits) {
  Params params;
  params.add(core::view_of(filter.topic)).add(filter.failed_after).add(filter.failed_before);
  params.add(std::int64_t{limits.letters}).add(std::int64_t{limits.groups});
  const auto result = ReadSession::of(session).run(texts_, sql_.dead_letter_summary, params);
  DeadLetterSummary summary;
  for (int row = 0; row + 1 < result.rows(); ++row) {
    auto error = result.is_null(row, 1) ? std::nullopt : std::optional{result.text(row, 1)};
    summary.groups.push_back({result.text(row, 0), std::move(error), result.integer(row, 2),
                              result.time(row, 3), result.time(row, 4)});
  }
  summary.letters_read = result.integer(result.rows() - 1, 2);
  return summary;
}

std::vector<PausedTopic> QueueStore::paused(storage::ReadSession& session) {
  const auto result = ReadSession::of(session).run(texts_, sql_.paused, {});
  std::vector<PausedTopic> paused;
  paused.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row)
    paused.push_back({result.text(row, 0), result.time(row, 1)});
  return paused;
}

}  // namespace dovetail::postgres
