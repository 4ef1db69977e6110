#include "sqlite/job_store.hpp"

#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {
namespace {

Job read_job(const Cursor& row) {
  using Column = sql::columns::job_find;
  Job job;
  job.id = JobId{row.uuid(Column::id)};
  job.name = row.text(Column::name);
  job.topic = row.text(Column::topic);
  job.payload = row.text(Column::payload);
  job.cron = row.text(Column::cron);
  job.time_zone = row.text(Column::time_zone);
  job.misfire = static_cast<Misfire>(row.integer(Column::misfire));
  job.misfire_limit = static_cast<int>(row.integer(Column::misfire_limit));
  job.enabled = row.integer(Column::enabled) != 0;
  job.max_concurrent_runs = static_cast<int>(row.integer(Column::max_concurrent_runs));
  job.jitter = std::chrono::milliseconds{row.integer(Column::jitter)};
  job.created_at = row.time(Column::created_at);
  job.updated_at = row.time(Column::updated_at);
  job.next_due_at = row.time_or_null(Column::next_due_at);
  job.last_run_at = row.time_or_null(Column::last_run_at);
  if (!row.is_null(Column::last_run_status))
    job.last_run_status = storage::run_status_of(row.text(Column::last_run_status));
  job.last_error = row.text_or_null(Column::last_error);
  return job;
}

std::vector<Job> read_jobs(Cursor& cursor) {
  std::vector<Job> jobs;
  while (cursor.step()) jobs.push_back(read_job(cursor));
  return jobs;
}

JobRun read_run(const Cursor& row) {
  using Column = sql::columns::job_runs;
  JobRun run;
  run.id = JobRunId{row.uuid(Column::id)};
  run.job = row.text(Column::job);
  run.scheduled_time = row.time(Column::scheduled_time);
  run.status = storage::run_status_of(row.text(Column::status));
  run.triggered = row.integer(Column::triggered) != 0;
  run.created_at = row.time(Column::created_at);
  run.started_at = row.time_or_null(Column::started_at);
  run.ended_at = row.time_or_null(Column::ended_at);
  run.output = row.text_or_null(Column::output);
  run.last_error = row.text_or_null(Column::last_error);
  run.attempts = static_cast<int>(row.integer(Column::attempts));
  return run;
}

void bind_definition(Cursor& cursor, const Job& job, WallTime now) {
  cursor.bind(job.id.uuid())
      .bind(std::string_view{job.name})
      .bind(std::string_view{job.topic})
      .bind(std::string_view{job.payload})
      .bind(std::string_view{job.cron})
      .bind(std::string_view{job.time_zone})
      .bind(static_cast<std::int64_t>(job.misfire))
      .bind(std::int64_t{job.misfire_limit})
      .bind(std::int64_t{job.enabled})
      .bind(std::int64_t{job.max_concurrent_runs})
      .bind(std::int64_t{job.jitter.count()})
      .bind(job.next_due_at)
      .bind(now);
}

}  // namespace

// --- jobs

WallTime JobStore::now(storage::WriteSession& session) {
  auto cursor = WriteSession::of(session).run(texts_, sql::job_now);
  cursor.bind(clock_->wall()).step();
  return cursor.time(0);
}

std::optional<Job> JobStore::lock(storage::WriteSession& session, std::string_view name) {
  auto cursor = WriteSession::of(session).run(texts_, sql::job_lock);
  return cursor.bind(name).step() ? std::optional{read_job(cursor)} : std::nullopt;
}

std::vector<Job> JobStore::lock_due(storage::WriteSession& session, int most) {
  auto cursor = WriteSession::of(session).run(texts_, sql::job_lock_due);
  cursor.bind(std::int64_t{most}).bind(clock_->wall());
  return read_jobs(cursor);
}

bool JobStore::insert(storage::WriteSession& session, const Job& job) {
  auto cursor = WriteSession::of(session).run(texts_, sql::job_insert);
  bind_definition(cursor, job, clock_->wall());
  return cursor.run() == 1;
}

void JobStore::update(storage::WriteSession& session, const Job& job) {
  auto& connection = WriteSession::of(session);
  {
    auto cursor = connection.run(texts_, sql::job_update);
    bind_definition(cursor, job, clock_->wall());
    cursor.run();
  }
  connection.run(texts_, sql::job_update_step_rename)
      .bind(job.id.uuid())
      .bind(std::string_view{job.name})
      .run();
}

void JobStore::plan(storage::WriteSession& session, JobId job, std::optional<WallTime> next_due_at,
                    std::optional<WallTime> wake_at) {
  auto cursor = WriteSession::of(session).run(texts_, sql::job_plan);
  cursor.bind(job.uuid()).bind(next_due_at).bind(wake_at).run();
}

void JobStore::note_broken(storage::WriteSession& session, JobId job, std::string_view error,
                           std::optional<WallTime> wake_at) {
  auto cursor = WriteSession::of(session).run(texts_, sql::job_note_broken);
  cursor.bind(job.uuid()).bind(error).bind(wake_at).run();
}

void JobStore::remove(storage::WriteSession& session, JobId job) {
  auto& connection = WriteSession::of(session);
  connection.run(texts_, sql::job_remove_step_messages).bind(job.uuid()).run();
  connection.run(texts_, sql::job_remove_step_runs).bind(job.uuid()).run();
  connection.run(texts_, sql::job_remove).bind(job.uuid()).run();
}

std::vector<WallTime> JobStore::drop_waiting(storage::WriteSession& session, JobId job,
                                             std::optional<WallTime> before) {
  auto cursor = WriteSession::of(session).run(texts_, sql::job_drop_waiting);
  cursor.bind(job.uuid()).bind(before);
  std::vector<WallTime> times;
  while (cursor.step()) times.push_back(cursor.time(0));
  return times;
}

// --- runs

bool JobStore::add_run(storage::WriteSession& session, const Job& job, const storage::NewRun& run) {
  auto cursor = WriteSession::of(session).run(texts_, sql::job_add_run);
  return cursor.bind(run.id.uuid())
             .bind(job.id.uuid())
             .bind(std::string_view{job.name})
             .bind(run.scheduled_time)
             .bind(std::int64_t{run.triggered})
             .bind(clock_->wall())
             .run() == 1;
}

storage::RunCounts JobStore::counts(storage::WriteSession& session, JobId job) {
  using Column = sql::columns::job_counts;
  auto cursor = WriteSession::of(session).run(texts_, sql::job_counts);
  cursor.bind(job.uuid()).step();
  return {static_cast<int>(cursor.integer(Column::active)),
          static_cast<int>(cursor.integer(Column::waiting)),
          static_cast<int>(cursor.integer(Column::triggered))};
}

std::vector<storage::NewRun> JobStore::waiting(storage::WriteSession& session, JobId job,
                                               int most) {
  using Column = sql::columns::job_waiting;
  auto cursor = WriteSession::of(session).run(texts_, sql::job_waiting);
  cursor.bind(job.uuid()).bind(std::int64_t{most});
  std::vector<storage::NewRun> runs;
  while (cursor.step())
    runs.push_back({JobRunId{cursor.uuid(Column::id)}, cursor.time(Column::scheduled_time),
                    cursor.integer(Column::triggered) != 0});
  return runs;
}

void JobStore::release(storage::WriteSession& session, JobRunId run) {
  WriteSession::of(session)
      .run(texts_, sql::job_release)
      .bind(run.uuid())
      .bind(clock_->wall())
      .run();
}

void JobStore::note_started(storage::WriteSession& session, JobRunId run) {
  WriteSession::of(session)
      .run(texts_, sql::job_note_started)
      .bind(run.uuid())
      .bind(clock_->wall())
      .run();
}

bool JobStore::set_output(storage::WriteSession& session, JobRunId run, std::string_view output) {
  return WriteSession::of(session)
             .run(texts_, sql::job_set_output)
             .bind(run.uuid())
             .bind(output)
             .run() == 1;
}

std::size_t JobStore::purge_runs(storage::WriteSession& session, std::chrono::microseconds age,
                                 int most) {
  auto cursor = WriteSession::of(session).run(texts_, sql::job_purge_runs);
  return cursor.bind(clock_->wall() - age).bind(std::int64_t{most}).run();
}

bool JobStore::watches_any(Connection& connection) {
  {
    auto exists = connection.run(texts_, sql::job_release_step_installed);
    exists.step();
    if (exists.integer(0) == 0) return false;
  }
  auto any = connection.run(texts_, sql::job_release_step_any);
  any.step();
  return any.integer(0) != 0;
}

std::vector<Uuid> JobStore::watched(Connection& connection, std::span<const Uuid> messages) {
  std::vector<Uuid> found;
  if (messages.empty() || !watches_any(connection)) return found;
  for (const auto& message : messages) {
    if (connection.run(texts_, sql::job_release_step_one).bind(message).step())
      found.push_back(message);
  }
  return found;
}

void JobStore::ended(Connection& connection, std::span<const Uuid> messages, Ending ending,
                     WallTime now) {
  std::size_t woken = 0;
  for (const auto& message : messages) {
    const bool failed = ending == Ending::failed;
    const auto ended = connection.run(texts_, sql::job_release_step_ended)
                           .bind(message)
                           .bind(now)
                           .bind(std::int64_t{failed})
                           .run();
    if (ended == 1)
      woken += connection.run(texts_, sql::job_release_step_wake).bind(message).bind(now).run();
  }
  if (woken > 0) bell_.ring();
}

void JobStore::replayed(Connection& connection, std::span<const Uuid> messages) {
  if (messages.empty()) return;
  {
    auto exists = connection.run(texts_, sql::job_release_step_installed);
    exists.step();
    if (exists.integer(0) == 0) return;
  }
  for (const auto& message : messages) {
    connection.run(texts_, sql::job_release_step_replayed).bind(message).run();
  }
}

// --- reading

std::optional<Job> JobStore::find(storage::ReadSession& session, std::string_view name) {
  auto cursor = ReadSession::of(session).run(texts_, sql::job_find);
  return cursor.bind(name).step() ? std::optional{read_job(cursor)} : std::nullopt;
}

std::vector<Job> JobStore::list(storage::ReadSession& session) {
  auto cursor = ReadSession::of(session).run(texts_, sql::job_list);
  return read_jobs(cursor);
}

std::vector<JobRun> JobStore::runs(storage::ReadSession& session, std::string_view name,
                                   const RunPage& page) {
  auto cursor = ReadSession::of(session).run(texts_, sql::job_runs);
  cursor.bind(name).bind(page.before).bind(std::int64_t{page.size});
  std::vector<JobRun> runs;
  while (cursor.step()) runs.push_back(read_run(cursor));
  return runs;
}

}  // namespace dovetail::sqlite
