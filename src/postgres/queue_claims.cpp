#include "postgres/queue_claims.hpp"

namespace dovetail::postgres {

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
  params.add(order.streams);
  return params;
}

}  // namespace dovetail::postgres
