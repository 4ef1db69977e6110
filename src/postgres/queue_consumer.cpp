#include "postgres/queue_consumer.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "postgres/queue_claims.hpp"
#include "storage/row_hint.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::size_t rows_from = 8;  // claims; for fewer, a search by id is as fast

std::optional<std::string_view> unless_empty(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional{text};
}

/// `claims` are in the order of their ids. With 8 or more claims that carry row positions, delete
/// by position. Not if the rows are locked already: a delete in a subtransaction would then cost
/// more.
Params ack_params(OwnerToken owner, std::span<const Claim> claims, bool keep, bool locked = false) {
  auto params = claims_params(owner, claims);
  params.add(keep);
  std::vector<RowAt> rows;
  rows.reserve(claims.size());
  for (const auto& claim : claims) {
    if (const auto row = storage::row_of(claim); row > 0) rows.push_back(RowAt{row});
  }
  if (!locked && rows.size() == claims.size() && rows.size() >= rows_from) {
    params.add(std::span<const RowAt>{rows});
  } else {
    params.add(nullptr);
  }
  return params;
}

Params abandon_params(OwnerToken owner, std::span<const Claim> claims,
                      const storage::Failed& failed, std::optional<std::chrono::microseconds> delay,
                      int max_attempts) {
  auto params = claims_params(owner, claims);
  params.add(unless_empty(failed.error)).add(micros(delay)).add(std::int32_t{max_attempts});
  params.add(to_string(failed.on_stream_failure));
  return params;
}

Params fail_params(OwnerToken owner, std::span<const Claim> claims, const storage::Failed& failed,
                   int charge) {
  auto params = claims_params(owner, claims);
  params.add(failed.error).add(std::int32_t{charge}).add(to_string(failed.on_stream_failure));
  return params;
}

std::vector<storage::ClaimedEntry> read_claimed(const Result& result) {
  using Column = sql::columns::claim;
  // UPDATE … RETURNING returns the rows in the order on disk. Sort them by the order of claims.
  std::vector<std::tuple<std::int64_t, WallTime, Uuid, int>> places;
  places.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    places.emplace_back(-result.integer(row, Column::priority), result.time(row, Column::ready_at),
                        result.uuid(row, Column::id), row);
  }
  std::ranges::sort(places);
  std::vector<storage::ClaimedEntry> entries;
  entries.reserve(places.size());
  for (const auto& place : places) {
    const int row = std::get<int>(place);
    entries.push_back(read_entry<Column>(result, row));
    entries.back().claimed.claim.hint = storage::hint_at(result.integer(row, Column::row_at));
  }
  return entries;
}

/// The statement returns the streams one after the other.
std::vector<storage::ClaimedEntry> read_claimed_streams(const Result& result) {
  using Column = sql::columns::claim_streams;
  std::vector<storage::ClaimedEntry> entries;
  entries.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    auto& entry = entries.emplace_back(read_entry<Column>(result, row));
    entry.claimed.message.stream = result.text(row, Column::stream);
    entry.claimed.claim.hint = storage::stream_hint();
  }
  return entries;
}

template <class Column>
bool is_cut(const Result& claimed) {
  for (int row = 0; row < claimed.rows(); ++row) {
    if (claimed.boolean(row, Column::cut)) return true;
  }
  return false;
}

storage::Claimed read_answer(const Result& result, const storage::ClaimOrder& order) {
  storage::Claimed claimed;
  claimed.cut = order.streams ? is_cut<sql::columns::claim_streams>(result)
                              : is_cut<sql::columns::claim>(result);
  claimed.entries = order.streams ? read_claimed_streams(result) : read_claimed(result);
  return claimed;
}

/// Reads the result of the statement next_due, which ran before the claim.
void note_next_due(const Result& asked, const storage::ClaimOrder& order,
                   storage::Claimed& claimed) {
  using Column = sql::columns::next_due;
  if (!asked.is_null(0, Column::due_in))
    claimed.next_due = std::chrono::microseconds{asked.integer(0, Column::due_in)};
  claimed.has_streams = asked.boolean(0, Column::has_streams);
  // The claim has seen every due message. Messages of other topics need no second scan.
  const bool saw_all =
      claimed.entries.size() < static_cast<std::size_t>(order.batch_size) && !claimed.cut;
  if (order.topics == nullptr || !saw_all || asked.is_null(0, Column::passed_to)) return;
  for (auto& mark : claimed.passed) mark = {asked.time(0, Column::passed_to), Uuid{}};
}

Params ids_params(std::span<const MessageId> ids) {
  std::vector<Uuid> uuids;
  for (const auto& id : ids) uuids.push_back(id.uuid());
  Params params;
  params.add(std::span<const Uuid>{uuids});
  return params;
}

}  // namespace

storage::Claimed QueueConsumer::claim(storage::WriteSession& session,
                                      const storage::ClaimOrder& order) {
  return read_answer(
      WriteSession::of(session).run(texts_, order.streams ? sql_.claim_streams : sql_.claim,
                                    claim_params(order)),
      order);
}

/// Acks without other settlements are the usual case: they take one statement, another one for
/// messages of streams, and one for each run.
void QueueConsumer::add_acks(Calls& calls, const storage::WorkOrder& order,
                             std::vector<Claim> acks) const {
  if (acks.size() == order.settlements.size()) {
    add_run_acks(calls, order, acks);
    std::erase_if(acks, storage::is_of_run);
  }
  const auto streams = std::stable_partition(
      acks.begin(), acks.end(), [](const Claim& claim) { return !storage::is_of_stream(claim); });
  std::vector<Claim> of_streams(streams, acks.end());
  acks.erase(streams, acks.end());
  if (!of_streams.empty()) add_stream_acks(calls, order, std::move(of_streams));
  if (acks.empty()) return;
  const bool mixed = acks.size() < order.settlements.size();
  const bool patient = !mixed && order.lock_patience.count() > 0;
  std::ranges::sort(acks, {}, &Claim::id);
  calls.push_back({patient ? &sql_.ack_step_patient : &sql_.ack,
                   ack_params(order.owner, acks, order.keep_done, mixed)});
  if (patient) {
    calls.back().params.add(std::string_view{std::to_string(order.lock_patience.count())});
  }
}

void QueueConsumer::add_stream_acks(Calls& calls, const storage::WorkOrder& order,
                                    std::vector<Claim> acks) const {
  std::ranges::sort(acks, {}, &Claim::id);
  auto params = claims_params(order.owner, acks);
  params.add(order.keep_done);
  calls.push_back({&sql_.ack_step_streams, std::move(params)});
}

SessionCore::Call QueueConsumer::call_of(OwnerToken owner, const storage::Settlement& each) const {
  using Kind = storage::Settlement::Kind;
  const std::span<const Claim> claim{&each.claim, 1};
  const storage::Failed failed{each.error, each.on_stream_failure};
  if (each.kind == Kind::abandon) {
    return {&sql_.abandon, abandon_params(owner, claim, failed, each.delay, each.max_attempts)};
  }
  if (each.kind == Kind::fail) {
    return {&sql_.fail, fail_params(owner, claim, failed, each.charge)};
  }
  SessionCore::Call call{&sql_.snooze, claims_params(owner, claim)};
  call.params.add(micros(each.delay));
  return call;
}

/// Adds the calls that settle. Returns the index of the first call whose result is a count.
std::size_t QueueConsumer::add_settlements(Calls& calls, const storage::WorkOrder& order) const {
  using Kind = storage::Settlement::Kind;
  const auto& settlements = order.settlements;
  if (settlements.empty()) return calls.size();
  std::vector<Claim> acks;
  for (const auto& each : settlements) {
    if (each.kind == Kind::ack) acks.push_back(each.claim);
  }
  const bool only_acks = acks.size() == settlements.size();
  const auto is_usual = [](const Claim& claim) {
    return !storage::is_of_stream(claim) && !storage::is_of_run(claim);
  };
  if ((!only_acks || !std::ranges::all_of(acks, is_usual)) && order.lock_patience.count() > 0) {
    calls.push_back({&sql_.ack_step_lock_timeout, {}});
    calls.back().params.add(std::string_view{std::to_string(order.lock_patience.count())});
  }
  // Settlements of several kinds lock all their messages first, in the order of their ids: every
  // transaction locks in this order.
  if (!only_acks) {
    std::vector<Claim> all;
    for (const auto& each : settlements) all.push_back(each.claim);
    add_spreads(calls, order.owner, all, true);
    if (all.size() > 1) calls.push_back({&sql_.ack_step_lock, claims_params(order.owner, all)});
  }
  const auto first = calls.size();
  if (!acks.empty()) add_acks(calls, order, std::move(acks));
  for (const auto& each : settlements) {
    if (each.kind != Kind::ack) calls.push_back(call_of(order.owner, each));
  }
  return first;
}

storage::WorkAnswer QueueConsumer::work(storage::WriteSession& session,
                                        const storage::WorkOrder& order) {
  Calls calls;
  const auto first = add_settlements(calls, order);
  const auto settling = calls.size();
  if (!order.ended_runs.empty()) {
    calls.push_back({&sql_.ack_step_close_runs, close_params(order.owner, order.ended_runs)});
  }
  const auto claiming = calls.size();
  for (const auto& claim : order.claims) {
    // It runs before the claim: a message that comes due between the two appears in at least one of
    // the results.
    if (claim.asks_next_due) calls.push_back({&sql_.next_due, next_due_params(claim)});
    calls.push_back({claim.streams ? &sql_.claim_streams : &sql_.claim, claim_params(claim)});
  }
  storage::WorkAnswer answer;
  if (calls.empty()) return answer;
  const auto results = WriteSession::of(session).run_all(texts_, calls);
  for (std::size_t i = first; i < settling; ++i) answer.settled += count_of(results[i]);
  auto next = results.begin() + static_cast<std::ptrdiff_t>(claiming);
  for (const auto& claim : order.claims) {
    const auto* asked = claim.asks_next_due ? &*next++ : nullptr;
    auto claimed = read_answer(*next++, claim);
    if (asked != nullptr) note_next_due(*asked, claim, claimed);
    answer.claimed.push_back(std::move(claimed));
  }
  return answer;
}

std::vector<Claim> QueueConsumer::settleable(storage::WriteSession& session, OwnerToken owner,
                                             std::span<const Claim> claims) {
  spread(session, owner, claims, false);
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

void QueueConsumer::limit_lock_waits(storage::WriteSession& session,
                                     std::chrono::milliseconds patience) {
  Params params;
  params.add(std::string_view{std::to_string(patience.count())});
  WriteSession::of(session).run(texts_, sql_.ack_step_lock_timeout, params);
}

void QueueConsumer::absolve(storage::WriteSession& session, std::span<const MessageId> ids) {
  WriteSession::of(session).run(texts_, sql_.absolve, ids_params(ids));
}

void QueueConsumer::uncharge(storage::WriteSession& session, std::span<const MessageId> ids) {
  WriteSession::of(session).run(texts_, sql_.uncharge, ids_params(ids));
}

std::size_t QueueConsumer::add_stages(storage::WriteSession& session, OwnerToken owner,
                                      std::span<const Claim> claims, Stages stages) {
  spread(session, owner, claims);
  auto params = claims_params(owner, claims);
  const std::vector<std::int64_t> bits(claims.size(), stages.bits());
  params.add(std::span<const std::int64_t>{bits});
  return count_of(WriteSession::of(session).run(texts_, sql_.set_stages, params));
}

std::size_t QueueConsumer::ack(storage::WriteSession& session, OwnerToken owner,
                               std::span<const Claim> claims, bool keep) {
  // The function finds the messages of streams itself: a caller may have dropped the hint.
  spread(session, owner, claims);
  return count_of(WriteSession::of(session).run(texts_, sql_.ack, ack_params(owner, claims, keep)));
}

std::size_t QueueConsumer::abandon(storage::WriteSession& session, OwnerToken owner,
                                   std::span<const Claim> claims, const storage::Failed& failed,
                                   std::optional<std::chrono::microseconds> delay,
                                   int max_attempts) {
  spread(session, owner, claims);
  return count_of(WriteSession::of(session).run(
      texts_, sql_.abandon, abandon_params(owner, claims, failed, delay, max_attempts)));
}

std::size_t QueueConsumer::fail(storage::WriteSession& session, OwnerToken owner,
                                std::span<const Claim> claims, const storage::Failed& failed,
                                int charge) {
  return count_of(
      WriteSession::of(session).run(texts_, sql_.fail, fail_params(owner, claims, failed, charge)));
}

std::size_t QueueConsumer::snooze(storage::WriteSession& session, OwnerToken owner,
                                  std::span<const Claim> claims,
                                  std::optional<std::chrono::microseconds> delay) {
  spread(session, owner, claims);
  auto params = claims_params(owner, claims);
  params.add(micros(delay));
  return count_of(WriteSession::of(session).run(texts_, sql_.snooze, params));
}

std::vector<MessageId> QueueConsumer::renew(storage::WriteSession& session, OwnerToken owner,
                                            std::span<const Claim> claims,
                                            std::chrono::microseconds lease) {
  Calls calls;
  add_spreads(calls, owner, claims, false);
  calls.push_back({&sql_.renew, claims_params(owner, claims)});
  calls.back().params.add(std::int64_t{lease.count()});
  const auto results = WriteSession::of(session).run_all(texts_, calls);
  const auto& result = results.back();
  std::vector<MessageId> held;
  held.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) held.emplace_back(result.uuid(row, 0));
  return held;
}

std::size_t QueueConsumer::reap_expired(storage::WriteSession& session,
                                        std::optional<int> max_attempts, int most,
                                        std::optional<int> look_at) {
  Params params;
  params.add(max_attempts ? std::optional{std::int32_t{*max_attempts}} : std::nullopt);
  params.add(std::int32_t{most});
  params.add(look_at ? std::optional{std::int32_t{*look_at}} : std::nullopt);
  return count_of(WriteSession::of(session).run(texts_, sql_.reap_expired, params));
}

std::size_t QueueConsumer::unpark(storage::WriteSession& session,
                                  std::optional<std::string_view> topic, int most) {
  Params params;
  params.add(topic).add(std::int32_t{most});
  return count_of(WriteSession::of(session).run(texts_, sql_.unpark, params));
}

}  // namespace dovetail::postgres
