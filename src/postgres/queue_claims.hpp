// Parameters and results of the statements that claim messages and settle them.
#pragma once

#include <span>
#include <vector>

#include "postgres/params.hpp"
#include "postgres/queue_rows.hpp"
#include "postgres/sql.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::postgres {

/// The owner, the ids and the epochs of the claims.
[[nodiscard]] Params claims_params(OwnerToken owner, std::span<const Claim> claims);
/// The topics to take, then the topics to leave. NULL: no restriction.
void add_topics(Params& params, const storage::TopicFilter* filter);
/// The places where the claim begins: NULL for the start, or the marks of an earlier claim.
void add_marks(Params& params, const storage::QueueMarks* after);
[[nodiscard]] Params claim_params(const storage::ClaimOrder& order);
[[nodiscard]] Params next_due_params(const storage::ClaimOrder& order);

template <class Column>
[[nodiscard]] storage::ClaimedEntry read_entry(const Result& result, int row) {
  storage::ClaimedEntry entry;
  entry.claimed.message = read_message<Column>(result, row);
  entry.claimed.claim = {entry.claimed.message.id, result.integer(row, Column::claim_epoch), {}};
  entry.claimed.lease_until = result.time(row, Column::lease_until);
  entry.ready_at = result.time(row, Column::ready_at);
  entry.lost_leases = static_cast<int>(result.integer(row, Column::lost_leases));
  return entry;
}

}  // namespace dovetail::postgres
