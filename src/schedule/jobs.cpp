#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>

#include "core/headers.hpp"
#include "core/require.hpp"
#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "dovetail/schedule.hpp"
#include "outbox/new_messages.hpp"
#include "schedule/occurrences.hpp"
#include "storage/database.hpp"
#include "storage/job_store.hpp"
#include "storage/portions.hpp"
#include "storage/queue_store.hpp"

namespace dovetail {
namespace {

using schedule::occurrences_to_run;
using schedule::Schedule;

constexpr std::size_t max_name_characters = 100;
constexpr std::size_t max_zone_characters = 64;
constexpr std::size_t max_output_bytes = std::size_t{64} << 10;
constexpr int most_misfires = 1'000;
constexpr int most_concurrent_runs = 10'000;
constexpr std::chrono::hours longest_jitter{1};
constexpr std::size_t jobs_at_once = 20;   // in one transaction
constexpr int releases_at_once = 100;      // of one job
constexpr std::size_t runs_at_once = 200;  // in one transaction
/// A job that cannot be understood (somebody changed the table, or its zone is gone) is looked at again after that.
constexpr std::chrono::minutes broken_pause{10};
constexpr std::string_view job_header = "dovetail-job";
constexpr std::string_view run_header = "dovetail-job-run";
constexpr std::string_view time_header = "dovetail-scheduled-time";

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

Schedule schedule_of(std::string_view cron, std::string_view zone) {
  return {CronExpression::parse(cron), TimeZone::find(zone)};
}

/// Also false for a stored text that nobody understands: it is about to be replaced.
bool means(const std::string& stored, const CronExpression& cron) {
  try {
    return CronExpression::parse(stored) == cron;
  } catch (const CronError&) {
    return false;
  }
}

/// The request with everything checked, as a job that has no times yet.
Job checked_job(const JobRequest& request, const OutboxOptions& options) {
  require_name("name", request.name);
  if (!request.formerly.empty()) require_name("formerly", request.formerly);
  (void)outbox::checked(outbox::MessageParts{request.topic, request.payload, std::nullopt, std::nullopt,
                                             Headers{}, std::nullopt, 0},
                        options);
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

/// Somewhere in the job's jitter.
std::chrono::microseconds jitter_of(const Job& job, const storage::NewRun& run) {
  if (job.jitter.count() == 0) return {};
  const auto hash = std::hash<Uuid>{}(run.id.uuid());
  return std::chrono::microseconds{static_cast<std::int64_t>(
      hash % static_cast<std::size_t>(std::chrono::microseconds{job.jitter}.count() + 1))};
}

/// Whether one more run may wait for its turn, by what the policy says of times that cannot be kept.
bool may_wait(const Job& job, const storage::RunCounts& counts) {
  const auto limit = job.max_concurrent_runs;
  if (limit == 0 || counts.active + counts.waiting < limit) return true;
  const auto waiting = counts.waiting - counts.triggered;
  switch (job.misfire) {
    case Misfire::coalesce:
      return waiting == 0;
    case Misfire::all:
      return waiting < job.misfire_limit;
    case Misfire::skip:
      return false;
  }
  return false;
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

Jobs::Jobs(storage::Database& database, Outbox& outbox, ScheduleOptions options, Logger log, Metrics metrics)
    : database_(&database),
      outbox_(&outbox),
      options_(options),
      log_(std::move(log)),
      metrics_(std::move(metrics)),
      broken_(std::make_shared<Broken>()) {
  if (options_.retain_runs < std::chrono::seconds{1} ||
      options_.retain_runs > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("retain_runs must be a second to ten years");
  }
}

// --- changing jobs
// -------------------------------------------------------------------------------------------

std::size_t Jobs::store(storage::WriteSession& session, const JobRequest& request, Job& answer) {
  auto& store = database_->jobs();
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
      return 0;
    }
    known = store.lock(session, job.name);  // somebody was faster
    if (!known) throw InvalidOperation("job " + job.name + " is created and removed at the same time");
  }
  job.id = known->id;
  if (!request.enabled) job.enabled = known->enabled;
  const bool same_times =
      known->enabled == job.enabled && known->time_zone == job.time_zone && means(known->cron, schedule.cron);
  job.next_due_at = same_times ? known->next_due_at : first_time();
  store.update(session, job);
  if (!job.enabled) store.drop_waiting(session, job.id);
  const auto begun = advance(session, job, now);
  answer = job;
  return begun;
}

JobId Jobs::create_or_update(const JobRequest& request) {
  const auto checked = checked_job(request, outbox_->options());
  auto job = checked;
  std::size_t begun = 0;
  database_->write({.repeatable = true}, [&](storage::WriteSession& session) {
    job = checked;
    begun = store(session, request, job);
  });
  note_begun(begun);
  log_.write(
      LogLevel::info, "jobs.stored",
      {{"store", database_->name()}, {"job", job.name}, {"cron", job.cron}, {"time_zone", job.time_zone}});
  database_->announce();
  return job.id;
}

bool Jobs::remove(std::string_view name) {
  require_name("name", name);
  bool found = false;
  database_->write({}, [&](storage::WriteSession& session) {
    const auto job = database_->jobs().lock(session, name);
    if (job) database_->jobs().remove(session, job->id);
    found = job.has_value();
  });
  if (found) log_.write(LogLevel::info, "jobs.removed", {{"store", database_->name()}, {"job", name}});
  return found;
}

bool Jobs::set_enabled(std::string_view name, bool enabled) {
  require_name("name", name);
  bool found = false;
  std::size_t begun = 0;
  database_->write({.repeatable = true}, [&](storage::WriteSession& session) {
    auto& store = database_->jobs();
    begun = 0;
    auto job = store.lock(session, name);
    found = job.has_value();
    if (!found || job->enabled == enabled) return;
    const auto now = store.now(session);
    job->enabled = enabled;
    job->next_due_at.reset();
    if (enabled) {
      const auto schedule = schedule_of(job->cron, job->time_zone);
      job->next_due_at = next_occurrence(schedule.cron, schedule.zone, now);
    }
    store.update(session, *job);
    if (!enabled) store.drop_waiting(session, job->id);
    begun = advance(session, *job, now);
  });
  note_begun(begun);
  if (found) {
    log_.write(LogLevel::info, enabled ? "jobs.enabled" : "jobs.disabled",
               {{"store", database_->name()}, {"job", name}});
    database_->announce();
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
  std::size_t begun = 0;
  database_->write({}, [&](storage::WriteSession& session) {
    auto& store = database_->jobs();
    auto job = store.lock(session, name);
    found = job.has_value();
    if (!found) return;
    const auto now = store.now(session);
    begun = advance(session, *job, now);  // first what its schedule says of this very moment
    auto time = now;
    int tries = 1;
    for (; tries <= 1'000 && !store.add_run(session, *job, {id, time, true}); ++tries) {
      time += WallTime::duration{1};  // two in one microsecond are two runs
    }
    if (tries > 1'000) throw InvalidOperation("there was no time left for another run of " + job->name);
    begun += advance(session, *job, now);
  });
  if (!found) return std::nullopt;
  note_begun(begun);
  log_.write(LogLevel::info, "jobs.triggered",
             {{"store", database_->name()}, {"job", name}, {"run_id", id.to_string()}});
  database_->announce();
  return id;
}

// --- scheduling
// ----------------------------------------------------------------------------------------------

/// Puts messages of runs that wait into the outbox.
std::size_t Jobs::start_waiting(storage::WriteSession& session, const Job& job, int most) {
  auto& store = database_->jobs();
  const auto runs = store.waiting(session, job.id, most);
  for (const auto& run : runs) {
    const auto run_id = run.id.to_string();
    const auto correlation_id = "job-run-" + run_id;
    storage::NewMessage message{.id = OutboxMessageId{run.id.uuid()},
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
    message.headers = core::to_json(Headers{{std::string{job_header}, job.name},
                                            {std::string{run_header}, run_id},
                                            {std::string{time_header}, to_string(run.scheduled_time)}});
    database_->outbox().enqueue(session, message, storage::Announcement::later);
    store.release(session, run.id);
  }
  return runs.size();
}

std::size_t Jobs::advance(storage::WriteSession& session, Job& job, WallTime now) {
  auto& store = database_->jobs();
  const bool is_due = job.enabled && job.next_due_at && *job.next_due_at <= now;
  auto counts = store.counts(session, job.id);
  if (is_due) {
    const auto schedule = schedule_of(job.cron, job.time_zone);
    for (const auto time :
         occurrences_to_run(schedule, job.misfire, job.misfire_limit, *job.next_due_at, now)) {
      if (!may_wait(job, counts)) {
        metrics_.count("jobs.skipped", 1, {{"store", database_->name()}, {"job", job.name}});
        log_.write(LogLevel::info, "jobs.skipped",
                   {{"store", database_->name()}, {"job", job.name}, {"scheduled_time", to_string(time)}});
      } else if (store.add_run(session, job, {JobRunId::generate(), time, false})) {
        ++counts.waiting;
      }
    }
    job.next_due_at = next_occurrence(schedule.cron, schedule.zone, now);
  }
  const auto room =
      job.max_concurrent_runs == 0 ? releases_at_once : std::max(0, job.max_concurrent_runs - counts.active);
  std::size_t started = 0;
  if (counts.waiting > 0 && room > 0) {
    started = start_waiting(session, job, std::min(room, releases_at_once));
    counts.waiting -= static_cast<int>(started);
  }
  // What still waits is looked at when a run ends; more than one transaction's worth, at once.
  const bool more = counts.waiting > 0 && room > static_cast<int>(started);
  store.plan(session, job.id, job.next_due_at, more ? std::optional{now} : job.next_due_at);
  return started;
}

/// Jobs that this process cannot understand: somebody changed the table, or this system lacks their time zone. Others may:
/// so it is nobody else's business, and not written down.
struct Jobs::Broken {
  std::mutex mutex;
  std::map<JobId, MonoTime> until;

  bool contains(JobId job) {
    const std::lock_guard lock(mutex);
    const auto found = until.find(job);
    return found != until.end() && found->second > std::chrono::steady_clock::now();
  }
  void add(JobId job) {
    const std::lock_guard lock(mutex);
    until[job] = std::chrono::steady_clock::now() + broken_pause;
  }
  int count() {
    const std::lock_guard lock(mutex);
    return static_cast<int>(until.size());
  }
};

std::size_t Jobs::schedule_due(const std::stop_token& stop) {
  std::size_t total = 0;
  bool more = true;
  while (more && !stop.stop_requested()) {
    std::size_t started = 0;
    const auto most = static_cast<int>(jobs_at_once) + broken_->count();
    database_->write({.service = true, .stop = stop}, [&](storage::WriteSession& session) {
      auto& store = database_->jobs();
      started = 0;
      auto due = store.lock_due(session, most);
      std::erase_if(due, [&](const Job& job) { return broken_->contains(job.id); });
      more = due.size() >= jobs_at_once;
      if (due.empty()) return;
      const auto now = store.now(session);
      for (auto& job : due) {
        started += try_advance(session, job, now);
        if (started >= runs_at_once) {
          more = true;  // the rest with the next transaction
          break;
        }
      }
    });
    total += started;
  }
  note_begun(total);
  if (total > 0) database_->announce();
  return total;
}

void Jobs::note_begun(std::size_t runs) const {
  if (runs == 0) return;
  metrics_.count("jobs.started", runs, {{"store", database_->name()}});
  log_.write(LogLevel::debug, "jobs.started", {{"store", database_->name()}, {"count", runs}});
}

/// One job that cannot be understood must not keep the others from running.
std::size_t Jobs::try_advance(storage::WriteSession& session, Job& job, WallTime now) {
  try {
    (void)schedule_of(job.cron, job.time_zone);
  } catch (const std::exception& failure) {
    broken_->add(job.id);
    log_.write(LogLevel::error, "jobs.broken",
               {{"store", database_->name()}, {"job", job.name}, {"error", failure.what()}});
    return 0;
  }
  return advance(session, job, now);
}

void Jobs::require_zones() {
  const auto jobs = list();
  if (std::ranges::any_of(jobs, [](const Job& job) { return job.time_zone != "UTC"; })) {
    require_time_zone_database();
  }
}

std::optional<std::chrono::microseconds> Jobs::next_due(const std::stop_token& stop) {
  std::optional<std::chrono::microseconds> next;
  database_->read([&](storage::ReadSession& session) { next = database_->jobs().next_due(session); },
                  {.service = true, .stop = stop});
  return next;
}

// --- runs
// ----------------------------------------------------------------------------------------------------

std::optional<JobRunId> Jobs::run_of(const OutboxMessage& message) {
  const auto found = message.headers.find(run_header);
  if (found == message.headers.end()) return std::nullopt;
  // Not a message that merely carries another's headers along.
  const auto run = JobRunId::parse(found->second);
  return run && run->uuid() == message.message_id.uuid() ? run : std::nullopt;
}

void Jobs::note_started(JobRunId run) {
  database_->write({.single_statement = true, .repeatable = true, .service = true},
                   [&](storage::WriteSession& session) { database_->jobs().note_started(session, run); });
}

bool Jobs::set_output(JobRunId run, std::string_view output) {
  core::require_text("output", output);
  bool found = false;
  database_->write({.single_statement = true, .repeatable = true}, [&](storage::WriteSession& session) {
    found = database_->jobs().set_output(session, run, core::trimmed(output, max_output_bytes));
  });
  return found;
}

bool Jobs::set_output(Transaction& transaction, JobRunId run, std::string_view output) {
  core::require_text("output", output);
  return database_->jobs().set_output(transaction.session(), run, core::trimmed(output, max_output_bytes));
}

std::optional<Job> Jobs::get(std::string_view name) {
  require_name("name", name);
  std::optional<Job> found;
  database_->read([&](storage::ReadSession& session) { found = database_->jobs().get(session, name); });
  return found;
}

std::vector<Job> Jobs::list() {
  std::vector<Job> found;
  database_->read([&](storage::ReadSession& session) { found = database_->jobs().list(session); });
  return found;
}

std::vector<JobRun> Jobs::runs(std::string_view name, const RunPage& page) {
  require_name("name", name);
  if (page.before) core::require_time("before", *page.before);
  core::require_batch_size("size", page.size);
  std::vector<JobRun> found;
  database_->read(
      [&](storage::ReadSession& session) { found = database_->jobs().runs(session, name, page); });
  return found;
}

std::size_t Jobs::purge_runs(std::chrono::seconds age, const std::stop_token& stop) {
  if (age < std::chrono::seconds::zero() || age > std::chrono::hours{24 * 3650}) {
    throw std::out_of_range("age must be zero to ten years");
  }
  return storage::in_portions(
      *database_,
      [&](storage::WriteSession& session) {
        return database_->jobs().purge_runs(session, age, storage::portion);
      },
      stop);
}

}  // namespace dovetail
