#include "observe/sample_gauges.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace dovetail::observe {
namespace {

/// A sink removes a gauge that is set to this value.
constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

double seconds_of(std::chrono::microseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Sets the gauges of one database, or removes them.
class StoreGauges {
 public:
  StoreGauges(const Metrics& metrics, const std::string& store, bool removes)
      : metrics_(metrics), store_(store), removes_(removes) {}

  void set(const StoreSample& sample) const {
    for (const auto& queue : sample.queues) set_queue(queue);
    set_joins(sample.joins);
    for (const auto& job : sample.jobs) set_job(job);
    metrics_.gauge("dovetail_pool_connections", value(sample.pool.in_use),
                   {{"store", store_}, {"state", "in_use"}});
    metrics_.gauge("dovetail_pool_connections", value(sample.pool.idle),
                   {{"store", store_}, {"state", "idle"}});
    metrics_.gauge("dovetail_sample_timestamp_seconds",
                   value(seconds_of(sample.taken_at.time_since_epoch())), {{"store", store_}});
  }

  void set_job(const JobSample& job) const {
    const auto success =
        job.last_success ? value(seconds_of(job.last_success->time_since_epoch())) : no_value;
    metrics_.gauge("dovetail_job_last_success_timestamp_seconds", success,
                   {{"store", store_}, {"job", job.job}});
  }

 private:
  template <class Number>
  [[nodiscard]] double value(Number number) const {
    return removes_ ? no_value : static_cast<double>(number);
  }

  void set_queue(const QueueSample& sample) const {
    const auto& counts = sample.counts;
    const std::array<std::pair<std::string_view, std::int64_t>, 5> states{
        {{"ready", counts.ready},
         {"scheduled", counts.scheduled},
         {"in_progress", counts.in_progress},
         {"done", counts.done},
         {"paused", counts.paused}}};
    for (const auto& [state, count] : states) {
      metrics_.gauge("dovetail_queue_messages", value(count),
                     {{"store", store_}, {"queue", sample.queue}, {"state", state}});
    }
    metrics_.gauge("dovetail_dead_letters", value(counts.failed),
                   {{"store", store_}, {"queue", sample.queue}});
    metrics_.gauge("dovetail_queue_oldest_due_seconds",
                   value(seconds_of(counts.oldest_due.value_or(std::chrono::microseconds{0}))),
                   {{"store", store_}, {"queue", sample.queue}});
    metrics_.gauge("dovetail_stream_blocked", value(sample.blocked_streams),
                   {{"store", store_}, {"queue", sample.queue}});
  }

  void set_joins(const JoinSample& joins) const {
    const std::array<std::pair<std::string_view, std::int64_t>, 4> states{
        {{"pending", joins.pending},
         {"completed", joins.completed},
         {"failed", joins.failed},
         {"cancelled", joins.cancelled}}};
    for (const auto& [state, count] : states) {
      metrics_.gauge("dovetail_joins", value(count), {{"store", store_}, {"state", state}});
    }
  }

  const Metrics& metrics_;
  const std::string& store_;
  const bool removes_;
};

}  // namespace

void set_gauges(const Metrics& metrics, const StoreSample* before, const StoreSample& now) {
  StoreGauges(metrics, now.store, false).set(now);
  if (before == nullptr) return;
  const StoreGauges gone(metrics, now.store, true);
  for (const auto& job : before->jobs) {
    if (std::ranges::find(now.jobs, job.job, &JobSample::job) == now.jobs.end()) gone.set_job(job);
  }
}

void remove_gauges(const Metrics& metrics, const StoreSample& last) {
  StoreGauges(metrics, last.store, true).set(last);
}

}  // namespace dovetail::observe
