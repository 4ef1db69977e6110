#include <algorithm>
#include <stdexcept>

#include "core/require.hpp"
#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "dovetail/schedule.hpp"
#include "queue/new_messages.hpp"
#include "schedule/job_planner.hpp"
#include "schedule/occurrences.hpp"
#include "storage/database.hpp"
#include "storage/job_store.hpp"
#include "storage/portions.hpp"
#include "storage/queue_names.hpp"
#include "storage/timer_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {
namespace {

using schedule::schedule_of;
using storage::session_of;

constexpr std::size_t max_name_characters = 100;
constexpr std::size_t max_zone_characters = 64;
constexpr std::size_t max_output_bytes = std::size_t{64} << 10;
constexpr int most_misfires = 1'000;
constexpr int most_concurrent_runs = 10'000;
constexpr std::chrono::hours longest_jitter{1};

void require_name(const char* what, std::string_view name) {
  if (name.empty()) throw std::invalid_argument(std::string{what} + " must not be empty");
  core::require_length(what, name, max_name_characters);
}

void require_range(const char* what, int value, int least, int most) {
  if (value < least || value > most) {
    throw std::out_of_range(std::string{what} + " must be " + std::to_string(least) + " to " +
                            std::to_string(most) + ", got " + std::to_string(value));
  }
}

/// Also false for a stored text that cannot be parsed: it is about to be replaced.
bool means(const std::string& stored, const CronExpression& cron) {
  try {
    return CronExpression::parse(stored) == cron;
  } catch (const CronError&) {
    return false;
  }
}

/// Checks every limit. The due times of the result are not set.
Job checked_job(const JobRequest& request, const QueueOptions& options) {
  require_name("name", request.name);
  if (!request.formerly.empty()) require_name("formerly", request.formerly);
  (void)queue::checked(queue::MessageParts{request.topic, request.payload, std::nullopt,
                                           std::nullopt, Headers{}, std::nullopt, 0},
                       queue::limits_of(options));
  core::require_length("time_zone", request.time_zone, max_zone_characters);
  require_range("misfire_limit", request.misfire_limit, 1, most_misfires);
  require_range("max_concurrent_runs", request.max_concurrent_runs, 0, most_concurrent_runs);
  if (request.jitter < std::chrono::milliseconds::zero() || request.jitter > longest_jitter) {
    throw std::out_of_range("jitter must be zero to an hour");
  }
  const auto schedule = schedule_of(request.cron, request.time_zone);
  Job job;
  job.id = JobId::generate();
  job.name = request.name;
  job.topic = request.topic;
  job.payload = request.payload;
  job.cron = schedule.cron.text();
  job.time_zone = schedule.zone.name();
  job.misfire = request.misfire;
  job.misfire_limit = request.misfire_limit;
  job.enabled = request.enabled.value_or(true);
  job.max_concurrent_runs = request.max_concurrent_runs;
  job.jitter = request.jitter;
  return job;
}

}  // namespace

std::string_view to_string(Misfire misfire) {
  switch (misfire) {
    case Misfire::coalesce:
      return "coalesce";
    case Misfire::all:
      return "all";
    case Misfire::skip:
      return "skip";
  }
  return "unknown";
}

Jobs::Jobs(storage::Database& database, Outbox& outbox, ScheduleOptions options, Logger log,
           Metrics metrics)
    : database_(&database),
      store_(&database.store<storage::JobStore>()),
      outbox_(&outbox),
      options_(options),
      log_(std::move(log)),
      metrics_(std::move(metrics)),
      broken_(make_broken()) {
  if (options_.retain_runs < std::chrono::seconds{1} ||
      options_.retain_runs > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("retain_runs must be a second to ten years");
  }
}

// --- changing jobs

void Jobs::store(storage::WriteSession& session, const JobRequest& request, Job& answer,
                 Progress& progress) {
  auto& store = *store_;
  auto job = answer;
  const auto now = store.now(session);
  const auto schedule = schedule_of(job.cron, job.time_zone);
  const auto first_time = [&] {
    return job.enabled ? next_occurrence(schedule.cron, schedule.zone, now) : std::nullopt;
  };
  auto known = store.lock(session, job.name);
  if (!known && !request.formerly.empty()) known = store.lock(session, request.formerly);
  if (!known) {
    job.next_due_at = first_time();
    if (store.insert(session, job)) {
      answer = job;
      return;
    }
    known = store.lock(session, job.name);  // another process has inserted it
    if (!known)
      throw InvalidOperation("job " + job.name + " is created and removed at the same time");
  }
  job.id = known->id;
  if (!request.enabled) job.enabled = known->enabled;
  const bool same_times = known->enabled == job.enabled && known->time_zone == job.time_zone &&
                          means(known->cron, schedule.cron);
  job.next_due_at = same_times ? known->next_due_at : first_time();
  job.updated_at = same_times ? known->updated_at : now;
  store.update(session, job);
  if (!job.enabled) store.drop_waiting(session, job.id);
  advance(session, job, now, progress);
  answer = job;
}

JobId Jobs::create_or_update(const JobRequest& request, const std::stop_token& stop) {
  const auto checked = checked_job(request, outbox_->options());
  auto job = checked;
  Progress progress;
  database_->write({.repeatable = true, .stop = stop}, [&](storage::WriteSession& session) {
    job = checked;
    progress = {};
    store(session, request, job, progress);
    session.wakes(storage::queue_names::jobs);
  });
  note(progress);
  log_.write(LogLevel::info, "jobs.stored",
             {{"store", database_->name()},
              {"job", job.name},
              {"cron", job.cron},
              {"time_zone", job.time_zone}});
  return job.id;
}

bool Jobs::remove(std::string_view name) {
  require_name("name", name);
  bool found = false;
  database_->write({}, [&](storage::WriteSession& session) {
    const auto job = store_->lock(session, name);
    if (job) store_->remove(session, job->id);
    found = job.has_value();
  });
  if (found)
    log_.write(LogLevel::info, "jobs.removed", {{"store", database_->name()}, {"job", name}});
  return found;
}

bool Jobs::set_enabled(std::string_view name, bool enabled) {
  require_name("name", name);
  bool found = false;
  Progress progress;
  database_->write({.repeatable = true}, [&](storage::WriteSession& session) {
    auto& store = *store_;
    progress = {};
    auto job = store.lock(session, name);
    found = job.has_value();
    if (!found || job->enabled == enabled) return;
    const auto now = store.now(session);
    job->enabled = enabled;
    job->updated_at = now;
    job->next_due_at.reset();
    if (enabled) {
      const auto schedule = schedule_of(job->cron, job->time_zone);
      job->next_due_at = next_occurrence(schedule.cron, schedule.zone, now);
    }
    store.update(session, *job);
    if (!enabled) store.drop_waiting(session, job->id);
    advance(session, *job, now, progress);
    session.wakes(storage::queue_names::jobs);
  });
  note(progress);
  if (found) {
    log_.write(LogLevel::info, enabled ? "jobs.enabled" : "jobs.disabled",
               {{"store", database_->name()}, {"job", name}});
  }
  return found;
}

bool Jobs::enable(std::string_view name) {
  return set_enabled(name, true);
}

bool Jobs::disable(std::string_view name) {
  return set_enabled(name, false);
}

std::optional<JobRunId> Jobs::trigger(std::string_view name) {
  require_name("name", name);
  const auto id = JobRunId::generate();
  bool found = false;
  Progress progress;
  database_->write({}, [&](storage::WriteSession& session) {
    auto& store = *store_;
    progress = {};
    auto job = store.lock(session, name);
    found = job.has_value();
    if (!found) return;
    const auto now = store.now(session);
    advance(session, *job, now, progress);  // first the scheduled runs that are due
    auto time = now;
    int tries = 1;
    for (; tries <= 1'000 && !store.add_run(session, *job, {id, time, true}); ++tries) {
      time += WallTime::duration{1};  // two triggers in one microsecond are two runs
    }
    if (tries > 1'000)
      throw InvalidOperation("there was no time left for another run of " + job->name);
    advance(session, *job, now, progress);
    session.wakes(storage::queue_names::jobs);
  });
  if (!found) return std::nullopt;
  note(progress);
  log_.write(LogLevel::info, "jobs.triggered",
             {{"store", database_->name()}, {"job", name}, {"run_id", id.to_string()}});
  return id;
}

// --- scheduling: see also job_planner.cpp

void Jobs::require_zones(const std::stop_token& stop) {
  std::vector<Job> jobs;
  database_->read([&](storage::ReadSession& session) { jobs = store_->list(session); },
                  {.service = true, .stop = stop});
  if (std::ranges::any_of(jobs, [](const Job& job) { return job.time_zone != "UTC"; })) {
    require_time_zone_database();
  }
}

std::optional<std::chrono::microseconds> Jobs::next_due(const std::stop_token& stop) {
  std::optional<std::chrono::microseconds> next;
  database_->read(
      [&](storage::ReadSession& session) {
        next = database_->store<storage::TimerStore>().next_due(session).jobs;
      },
      {.service = true, .stop = stop});
  return next;
}

// --- runs

std::optional<JobRunId> Jobs::run_of(const Message& message) {
  const auto found = message.headers.find(schedule::run_header);
  if (found == message.headers.end()) return std::nullopt;
  // A message that only carries the headers of a run has another id.
  const auto run = JobRunId::parse(found->second);
  return run && run->uuid() == message.message_id.uuid() ? run : std::nullopt;
}

void Jobs::note_started(JobRunId run) {
  database_->write({.single_statement = true, .repeatable = true, .service = true},
                   [&](storage::WriteSession& session) { store_->note_started(session, run); });
}

bool Jobs::set_output(JobRunId run, std::string_view output) {
  core::require_text("output", output);
  bool found = false;
  database_->write(
      {.single_statement = true, .repeatable = true}, [&](storage::WriteSession& session) {
        found = store_->set_output(session, run, core::trimmed(output, max_output_bytes));
      });
  return found;
}

bool Jobs::set_output(Transaction& transaction, JobRunId run, std::string_view output) {
  core::require_text("output", output);
  return store_->set_output(session_of(transaction), run, core::trimmed(output, max_output_bytes));
}

std::optional<Job> Jobs::find(std::string_view name) {
  require_name("name", name);
  std::optional<Job> found;
  database_->read([&](storage::ReadSession& session) { found = store_->find(session, name); });
  return found;
}

std::vector<Job> Jobs::list() {
  std::vector<Job> found;
  database_->read([&](storage::ReadSession& session) { found = store_->list(session); });
  return found;
}

std::vector<JobRun> Jobs::runs(std::string_view name, const RunPage& page) {
  require_name("name", name);
  if (page.before) core::require_time("before", *page.before);
  core::require_batch_size("size", page.size);
  std::vector<JobRun> found;
  database_->read(
      [&](storage::ReadSession& session) { found = store_->runs(session, name, page); });
  return found;
}

std::size_t Jobs::purge_runs(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("age must be zero to ten years");
  }
  return storage::in_portions(
      *database_,
      [&](storage::WriteSession& session) {
        return store_->purge_runs(session, age, storage::portion);
      },
      stop);
}

}  // namespace dovetail
