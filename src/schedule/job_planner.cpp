#include "schedule/job_planner.hpp"

#include <algorithm>
#include <limits>

#include "core/headers.hpp"
#include "dovetail/trace.hpp"
#include "schedule/occurrences.hpp"
#include "storage/database.hpp"
#include "storage/job_store.hpp"
#include "storage/queue_store.hpp"

namespace dovetail {
namespace {

using schedule::occurrences_to_run;
using schedule::schedule_of;

constexpr std::size_t jobs_at_once = 20;   // in one transaction
constexpr int releases_at_once = 100;      // of one job
constexpr std::size_t runs_at_once = 200;  // in one transaction

/// A delay within the job's jitter, which depends on the run's id.
std::chrono::microseconds jitter_of(const Job& job, const storage::NewRun& run) {
  if (job.jitter.count() == 0) return {};
  const auto hash = std::hash<Uuid>{}(run.id.uuid());
  return std::chrono::microseconds{static_cast<std::int64_t>(
      hash % static_cast<std::size_t>(std::chrono::microseconds{job.jitter}.count() + 1))};
}

/// Whether another scheduled run may start or wait.
bool may_wait(const Job& job, const storage::RunCounts& counts) {
  const auto limit = job.max_concurrent_runs;
  if (limit == 0 || counts.active + counts.waiting < limit) return true;
  switch (job.misfire) {
    case Misfire::coalesce:
      return true;  // it replaces the waiting run
    case Misfire::all:
      return counts.waiting - counts.triggered < job.misfire_limit;
    case Misfire::skip:
      return false;
  }
  return false;
}

/// Whether a new scheduled run replaces the waiting ones.
bool replaces_waiting(const Job& job, const storage::RunCounts& counts) {
  const auto limit = job.max_concurrent_runs;
  return job.misfire == Misfire::coalesce && limit > 0 && counts.active + counts.waiting > limit;
}

/// A run that a handler has triggered belongs to the handler's trace.
Headers headers_of(const Job& job, const std::string& run_id, const storage::NewRun& run) {
  Headers headers{{std::string{schedule::job_header}, job.name},
                  {std::string{schedule::run_header}, run_id},
                  {std::string{schedule::time_header}, to_string(run.scheduled_time)}};
  const auto trace = run.triggered ? current_trace() : std::nullopt;
  if (trace) headers.emplace(traceparent_header, trace->to_string());
  return headers;
}

}  // namespace

std::shared_ptr<Jobs::Broken> Jobs::make_broken() {
  return std::make_shared<Broken>();
}

/// Enqueues the messages of waiting runs.
std::size_t Jobs::start_waiting(storage::WriteSession& session, const Job& job, int most) {
  auto& store = *store_;
  const auto runs = store.waiting(session, job.id, most);
  for (const auto& run : runs) {
    const auto run_id = run.id.to_string();
    const auto correlation_id = "job-run-" + run_id;
    storage::NewMessage message{.id = MessageId{run.id.uuid()},
                                .fresh = true,
                                .topic = job.topic,
                                .payload = job.payload,
                                .correlation_id = correlation_id,
                                .due_at = std::nullopt,
                                .headers = std::nullopt,
                                .expires_at = std::nullopt,
                                .priority = 0,
                                .unique_key = std::nullopt};
    if (!run.triggered) message.due_at = run.scheduled_time + jitter_of(job, run);
    message.headers = core::to_json(headers_of(job, run_id, run));
    database_->queue(storage::queue_names::outbox).producer.enqueue(session, message);
    store.release(session, run.id);
  }
  return runs.size();
}

void Jobs::add_due_runs(storage::WriteSession& session, Job& job, WallTime now,
                        storage::RunCounts& counts, Progress& progress) {
  if (job.next_due_at && *job.next_due_at > now) return;
  auto& store = *store_;
  const auto schedule = schedule_of(job.cron, job.time_zone);
  // A job stored with plain SQL has no due time yet. Its first one is the first after the change.
  if (!job.next_due_at)
    job.next_due_at = next_occurrence(schedule.cron, schedule.zone, job.updated_at);
  if (!job.next_due_at || *job.next_due_at > now) return;
  for (const auto time :
       occurrences_to_run(schedule, job.misfire, job.misfire_limit, *job.next_due_at, now)) {
    if (!may_wait(job, counts)) {
      progress.skipped.push_back({job.name, time});
    } else if (store.add_run(session, job, {JobRunId::generate(), time, false})) {
      ++counts.waiting;
      if (!replaces_waiting(job, counts)) continue;
      for (const auto replaced : store.drop_waiting(session, job.id, time)) {
        progress.skipped.push_back({job.name, replaced});
        --counts.waiting;
      }
    }
  }
  job.next_due_at = next_occurrence(schedule.cron, schedule.zone, now);
}

void Jobs::advance(storage::WriteSession& session, Job& job, WallTime now, Progress& progress) {
  auto& store = *store_;
  auto counts = store.counts(session, job.id);
  if (job.enabled) add_due_runs(session, job, now, counts, progress);
  const auto room = job.max_concurrent_runs == 0
                        ? std::numeric_limits<int>::max()
                        : std::max(0, job.max_concurrent_runs - counts.active);
  int started = 0;
  if (counts.waiting > 0 && room > 0) {
    started = static_cast<int>(start_waiting(session, job, std::min(room, releases_at_once)));
    counts.waiting -= started;
  }
  // Runs above the concurrency limit start when a run ends. If this transaction could not start all
  // runs that may start, the next transaction follows at once.
  const bool more = started > 0 && counts.waiting > 0 && room > started;
  store.plan(session, job.id, job.next_due_at, more ? std::optional{now} : job.next_due_at);
  for (int i = 0; i < started; ++i) progress.enqueued.add(job.topic, true);
  progress.started += static_cast<std::size_t>(started);
  progress.more = progress.more || more;
}

/// A job that this process cannot understand must not stop the other jobs.
void Jobs::try_advance(storage::WriteSession& session, Job& job, WallTime now, Progress& progress) {
  try {
    if (job.enabled) (void)schedule_of(job.cron, job.time_zone);
  } catch (const CronError& failure) {
    store_->note_broken(session, job.id, failure.what(), now + schedule::broken_pause);
    progress.failed.push_back({job, failure.what(), false});
    return;
  } catch (const std::exception& failure) {
    store_->note_broken(session, job.id, failure.what(), std::nullopt);
    progress.failed.push_back({job, failure.what(), true});
    return;
  }
  advance(session, job, now, progress);
}

std::size_t Jobs::schedule_due(const std::stop_token& stop) {
  std::size_t total = 0;
  for (bool more = true; more && !stop.stop_requested();) {
    Progress progress;
    const auto most = static_cast<int>(jobs_at_once) + broken_->count();
    database_->write({.service = true, .stop = stop}, [&](storage::WriteSession& session) {
      auto& store = *store_;
      progress = {};
      auto due = store.lock_due(session, most);
      const auto mono = database_->clock().mono();
      std::erase_if(due, [&](const Job& job) { return broken_->contains(job, mono); });
      progress.more = due.size() >= jobs_at_once;
      if (due.empty()) return;
      const auto now = store.now(session);
      for (auto& job : due) {
        try_advance(session, job, now, progress);
        if (progress.started < runs_at_once) continue;
        progress.more = true;  // the next transaction starts the rest
        break;
      }
    });
    note(progress);
    total += progress.started;
    more = progress.more;
  }
  return total;
}

void Jobs::note(const Progress& progress) const {
  const auto& store = database_->name();
  for (const auto& [job, time] : progress.skipped) {
    metrics_.count("dovetail_job_runs_skipped_total", 1, {{"store", store}, {"job", job}});
    log_.write(LogLevel::info, "jobs.skipped",
               {{"store", store}, {"job", job}, {"scheduled_time", to_string(time)}});
  }
  for (const auto& [job, error, here_only] : progress.failed) {
    if (here_only) broken_->add(job, database_->clock().mono());
    metrics_.count("dovetail_job_broken_total", 1, {{"store", store}, {"job", job.name}});
    log_.write(LogLevel::error, "jobs.broken",
               {{"store", store}, {"job", job.name}, {"error", error}});
  }
  if (progress.started == 0) return;
  progress.enqueued.report(metrics_, store, storage::queue_names::outbox);
  metrics_.count("dovetail_job_runs_started_total", progress.started, {{"store", store}});
  log_.write(LogLevel::debug, "jobs.started", {{"store", store}, {"count", progress.started}});
}

}  // namespace dovetail
