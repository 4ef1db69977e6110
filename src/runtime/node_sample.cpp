#include "runtime/node_sample.hpp"

#include <stdexcept>

#include "storage/sample_store.hpp"

namespace dovetail::runtime {
namespace {

constexpr int most_sampled_joins = 10'000;  // of each status
constexpr int most_sampled_jobs = 200;
constexpr int most_sampled_streams = 100;

QueueSample sample_of_queue(storage::ReadSession& session, const storage::Database& database,
                            const component::Queue& queue) {
  auto& operations = database.queue(queue.queue->name()).operations;
  QueueSample sample{.queue = queue.queue->name(), .counts = operations.counts(session)};
  if (queue.has_handlers) {
    const StreamPage page{.size = most_sampled_streams, .only_blocked = true};
    sample.blocked_streams = static_cast<std::int64_t>(operations.streams(session, page).size());
  }
  return sample;
}

JoinSample join_sample(const std::vector<storage::JoinCount>& counts) {
  JoinSample sample;
  for (const auto& [status, count] : counts) {
    switch (status) {
      case JoinStatus::pending:
        sample.pending = count;
        break;
      case JoinStatus::completed:
        sample.completed = count;
        break;
      case JoinStatus::failed:
        sample.failed = count;
        break;
      case JoinStatus::cancelled:
        sample.cancelled = count;
        break;
    }
  }
  return sample;
}

}  // namespace

StoreSample sample_of(Node& node, const std::stop_token& stop) {
  StoreSample sample;
  auto& database = node.database();
  const auto queues = node.queues();
  auto& store = database.store<storage::SampleStore>();
  const auto pool = database.pool_use();
  sample.pool = {.in_use = pool.in_use, .idle = pool.idle};
  database.read(
      [&](storage::ReadSession& session) {
        sample.queues.clear();
        sample.jobs.clear();
        for (const auto& queue : queues) {
          sample.queues.push_back(sample_of_queue(session, database, queue));
        }
        sample.joins = join_sample(store.joins(session, most_sampled_joins));
        for (auto& job : store.jobs(session, most_sampled_jobs)) {
          sample.jobs.push_back({.job = std::move(job.job), .last_success = job.ended_at});
        }
      },
      {.stop = stop});
  return sample;
}

observe::Sampler::Source sample_source(const std::shared_ptr<Node>& node) {
  return {.store = node->database().name(),
          .take = [kept = std::weak_ptr{node}](const std::stop_token& stop) {
            const auto alive = kept.lock();
            if (!alive) throw std::runtime_error("the database is being closed");
            return sample_of(*alive, stop);
          }};
}

}  // namespace dovetail::runtime
