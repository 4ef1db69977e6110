// Runs: leases of many messages with one row. See migrations/templates/queue_1/3_runs.sql.
#include <algorithm>
#include <map>

#include "postgres/queue_claims.hpp"
#include "postgres/queue_consumer.hpp"
#include "storage/row_hint.hpp"

namespace dovetail::postgres {
namespace {

using ClaimsOfRuns = std::map<std::int64_t, std::vector<Claim>>;  // by run

/// The claims that belong to runs, in the order of their ids.
ClaimsOfRuns by_run(std::span<const Claim> claims) {
  ClaimsOfRuns runs;
  for (const auto& claim : claims) {
    if (storage::is_of_run(claim)) runs[storage::run_of(claim)].push_back(claim);
  }
  for (auto& [run, of_run] : runs) std::ranges::sort(of_run, {}, &Claim::id);
  return runs;
}

/// The owner, the run and the ids of its claims.
Params run_params(OwnerToken owner, std::int64_t run, std::span<const Claim> claims) {
  std::vector<Uuid> ids;
  ids.reserve(claims.size());
  for (const auto& claim : claims) ids.push_back(claim.id.uuid());
  Params params;
  params.add(owner.uuid()).add(run).add(std::span<const Uuid>{ids});
  return params;
}

Params open_run_params(const storage::ClaimOrder& order, const storage::RunOrder& run) {
  Params params;
  params.add(order.owner.uuid())
      .add(run.run)
      .add(std::int32_t{order.batch_size})
      .add(std::int64_t{order.lease.count()});
  add_marks(params, order.after);
  add_topics(params, order.topics);
  params.add(order.max_bytes).add(std::int32_t{run.least});
  params.add(std::int64_t{run.min_age.count()});
  return params;
}

Params run_messages_params(const storage::ClaimOrder& order, const storage::RunOrder& run) {
  Params params;
  params.add(order.owner.uuid()).add(run.run).add(std::int32_t{order.batch_size});
  add_topics(params, order.topics);
  return params;
}

}  // namespace

storage::Claimed QueueConsumer::claim_run(storage::WriteSession& session,
                                          const storage::ClaimOrder& order,
                                          const storage::RunOrder& run) {
  using Column = sql::columns::claim;
  Calls calls;
  calls.push_back({&sql_.claim_step_open_run, open_run_params(order, run), true});
  calls.push_back({&sql_.claim_step_run_settings, {}});
  calls.push_back({&sql_.claim_step_run, run_messages_params(order, run)});
  const auto results = WriteSession::of(session).run_all(texts_, calls);
  storage::Claimed claimed;
  claimed.is_run = count_of(results.front()) > 0;
  const auto& messages = results.back();
  claimed.entries.reserve(static_cast<std::size_t>(messages.rows()));
  for (int row = 0; row < messages.rows(); ++row) {
    auto& entry = claimed.entries.emplace_back(read_entry<Column>(messages, row));
    entry.claimed.claim.hint = storage::run_hint_at(messages.integer(row, Column::row_at), run.run);
  }
  return claimed;
}

void QueueConsumer::close_runs(storage::WriteSession& session, OwnerToken owner,
                               std::span<const std::int64_t> runs) {
  WriteSession::of(session).run(texts_, sql_.ack_step_close_runs, close_params(owner, runs));
}

Params QueueConsumer::close_params(OwnerToken owner, std::span<const std::int64_t> runs) {
  Params params;
  params.add(owner.uuid()).add(runs);
  return params;
}

void QueueConsumer::add_spreads(Calls& calls, OwnerToken owner, std::span<const Claim> claims,
                                bool wait) const {
  for (const auto& [run, of_run] : by_run(claims)) {
    calls.push_back({&sql_.ack_step_spread_run, run_params(owner, run, of_run)});
    calls.back().params.add(wait);
  }
}

void QueueConsumer::spread(storage::WriteSession& session, OwnerToken owner,
                           std::span<const Claim> claims, bool wait) const {
  Calls calls;
  add_spreads(calls, owner, claims, wait);
  if (!calls.empty()) WriteSession::of(session).run_all(texts_, calls);
}

void QueueConsumer::add_run_acks(Calls& calls, const storage::WorkOrder& order,
                                 std::span<const Claim> acks) const {
  for (const auto& [run, of_run] : by_run(acks)) {
    auto params = run_params(order.owner, run, of_run);
    std::vector<RowAt> rows;
    rows.reserve(of_run.size());
    for (const auto& claim : of_run) rows.push_back(RowAt{storage::row_of(claim)});
    params.add(std::span<const RowAt>{rows}).add(order.keep_done);
    calls.push_back({&sql_.ack_step_run, std::move(params)});
  }
}

}  // namespace dovetail::postgres
