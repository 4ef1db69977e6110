#include "dovetail/history.hpp"

#include <stdexcept>

#include "core/require.hpp"
#include "storage/backlog_store.hpp"
#include "storage/database.hpp"
#include "storage/rollup_store.hpp"

namespace dovetail {
namespace {

constexpr std::chrono::seconds finest_step{10};
constexpr std::int64_t most_history_steps = 10'000;

HistoryRequest checked_history(HistoryRequest request) {
  core::require_text("queue", request.queue);
  core::require_text("topic", request.topic);
  if (request.step < finest_step || request.step > std::chrono::hours{24} ||
      request.step.count() % finest_step.count() != 0) {
    throw std::out_of_range("step must be 10 s to 24 h, a multiple of 10 s");
  }
  if (request.to <= request.from) throw std::invalid_argument("to must be later than from");
  const auto begin = request.from.time_since_epoch() / request.step * request.step;
  request.from = WallTime{begin};
  if ((request.to - request.from) / request.step >= most_history_steps) {
    throw std::out_of_range("from, to and step must give at most 10000 buckets");
  }
  return request;
}

}  // namespace

History::History(storage::Database& database)
    : database_(&database),
      backlog_(&database.store<storage::BacklogStore>()),
      store_(&database.store<storage::RollupStore>()) {}

std::vector<HistoryBucket> History::buckets(const HistoryRequest& request) {
  const auto wanted = checked_history(request);
  std::vector<HistoryBucket> buckets;
  database_->read([&](storage::ReadSession& session) { buckets = store_->list(session, wanted); });
  return buckets;
}

std::vector<BacklogBucket> History::backlog(const HistoryRequest& request) {
  if (!request.topic.empty() || request.by_topic)
    throw std::invalid_argument("the backlog is not known by topic");
  const auto wanted = checked_history(request);
  std::vector<BacklogBucket> buckets;
  database_->read(
      [&](storage::ReadSession& session) { buckets = backlog_->list(session, wanted); });
  return buckets;
}

}  // namespace dovetail
