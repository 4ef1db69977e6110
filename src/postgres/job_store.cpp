#include "postgres/job_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {
namespace {

Job read_job(const Result& result, int row) {
  using Column = sql::columns::job_find;
  Job job;
  job.id = JobId{result.uuid(row, Column::id)};
  job.name = result.text(row, Column::name);
  job.topic = result.text(row, Column::topic);
  job.payload = result.text(row, Column::payload);
  job.cron = result.text(row, Column::cron);
  job.time_zone = result.text(row, Column::time_zone);
  job.misfire = static_cast<Misfire>(result.integer(row, Column::misfire));
  job.misfire_limit = static_cast<int>(result.integer(row, Column::misfire_limit));
  job.enabled = result.boolean(row, Column::enabled);
  job.max_concurrent_runs = static_cast<int>(result.integer(row, Column::max_concurrent_runs));
  job.jitter = std::chrono::milliseconds{result.integer(row, Column::jitter)};
  job.created_at = result.time(row, Column::created_at);
  job.updated_at = result.time(row, Column::updated_at);
  job.next_due_at = result.time_or_null(row, Column::next_due_at);
  job.last_run_at = result.time_or_null(row, Column::last_run_at);
  if (!result.is_null(row, Column::last_run_status))
    job.last_run_status = storage::run_status_of(result.bytes(row, Column::last_run_status));
  job.last_error = result.text_or_null(row, Column::last_error);
  return job;
}

std::vector<Job> read_jobs(const Result& result) {
  std::vector<Job> jobs;
  jobs.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) jobs.push_back(read_job(result, row));
  return jobs;
}

JobRun read_run(const Result& result, int row) {
  using Column = sql::columns::job_runs;
  JobRun run;
  run.id = JobRunId{result.uuid(row, Column::id)};
  run.job = result.text(row, Column::job);
  run.scheduled_time = result.time(row, Column::scheduled_time);
  run.status = storage::run_status_of(result.bytes(row, Column::status));
  run.triggered = result.boolean(row, Column::triggered);
  run.created_at = result.time(row, Column::created_at);
  run.started_at = result.time_or_null(row, Column::started_at);
  run.ended_at = result.time_or_null(row, Column::ended_at);
  run.output = result.text_or_null(row, Column::output);
  run.last_error = result.text_or_null(row, Column::last_error);
  run.attempts = static_cast<int>(result.integer(row, Column::attempts));
  return run;
}

Params definition(const Job& job) {
  Params params;
  params.add(job.id.uuid())
      .add(std::string_view{job.name})
      .add(std::string_view{job.topic})
      .add(std::string_view{job.payload})
      .add(std::string_view{job.cron})
      .add(std::string_view{job.time_zone})
      .add(static_cast<std::int32_t>(job.misfire))
      .add(std::int32_t{job.misfire_limit})
      .add(job.enabled)
      .add(std::int32_t{job.max_concurrent_runs})
      .add(std::int64_t{job.jitter.count()})
      .add(job.next_due_at);
  return params;
}

}  // namespace

WallTime JobStore::now(storage::WriteSession& session) {
  return WriteSession::of(session).run(texts_, sql::job_now, {}).time(0, 0);
}

std::optional<Job> JobStore::lock(storage::WriteSession& session, std::string_view name) {
  Params params;
  params.add(name);
  const auto result = WriteSession::of(session).run(texts_, sql::job_lock, params);
  return result.rows() == 0 ? std::nullopt : std::optional{read_job(result, 0)};
}

std::vector<Job> JobStore::lock_due(storage::WriteSession& session, int most) {
  Params params;
  params.add(std::int32_t{most});
  return read_jobs(WriteSession::of(session).run(texts_, sql::job_lock_due, params));
}

bool JobStore::insert(storage::WriteSession& session, const Job& job) {
  return WriteSession::of(session).run(texts_, sql::job_insert, definition(job)).affected() == 1;
}

void JobStore::update(storage::WriteSession& session, const Job& job) {
  WriteSession::of(session).run(texts_, sql::job_update, definition(job));
}

void JobStore::plan(storage::WriteSession& session, JobId job, std::optional<WallTime> next_due_at,
                    std::optional<WallTime> wake_at) {
  Params params;
  params.add(job.uuid()).add(next_due_at).add(wake_at);
  WriteSession::of(session).run(texts_, sql::job_plan, params);
}

void JobStore::note_broken(storage::WriteSession& session, JobId job, std::string_view error,
                           std::optional<WallTime> wake_at) {
  Params params;
  params.add(job.uuid()).add(error).add(wake_at);
  WriteSession::of(session).run(texts_, sql::job_note_broken, params);
}

void JobStore::remove(storage::WriteSession& session, JobId job) {
  Params params;
  params.add(job.uuid());
  WriteSession::of(session).run(texts_, sql::job_remove, params);
}

std::vector<WallTime> JobStore::drop_waiting(storage::WriteSession& session, JobId job,
                                             std::optional<WallTime> before) {
  Params params;
  params.add(job.uuid()).add(before);
  const auto result = WriteSession::of(session).run(texts_, sql::job_drop_waiting, params);
  std::vector<WallTime> times;
  times.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) times.push_back(result.time(row, 0));
  return times;
}

bool JobStore::add_run(storage::WriteSession& session, const Job& job, const storage::NewRun& run) {
  Params params;
  params.add(run.id.uuid())
      .add(job.id.uuid())
      .add(std::string_view{job.name})
      .add(run.scheduled_time)
      .add(run.triggered);
  return WriteSession::of(session).run(texts_, sql::job_add_run, params).affected() == 1;
}

storage::RunCounts JobStore::counts(storage::WriteSession& session, JobId job) {
  using Column = sql::columns::job_counts;
  Params params;
  params.add(job.uuid());
  const auto result = WriteSession::of(session).run(texts_, sql::job_counts, params);
  return {static_cast<int>(result.integer(0, Column::active)),
          static_cast<int>(result.integer(0, Column::waiting)),
          static_cast<int>(result.integer(0, Column::triggered))};
}

std::vector<storage::NewRun> JobStore::waiting(storage::WriteSession& session, JobId job,
                                               int most) {
  using Column = sql::columns::job_waiting;
  Params params;
  params.add(job.uuid()).add(std::int32_t{most});
  const auto result = WriteSession::of(session).run(texts_, sql::job_waiting, params);
  std::vector<storage::NewRun> runs;
  runs.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    runs.push_back({JobRunId{result.uuid(row, Column::id)},
                    result.time(row, Column::scheduled_time),
                    result.boolean(row, Column::triggered)});
  }
  return runs;
}

void JobStore::release(storage::WriteSession& session, JobRunId run) {
  Params params;
  params.add(run.uuid());
  WriteSession::of(session).run(texts_, sql::job_release, params);
}

void JobStore::note_started(storage::WriteSession& session, JobRunId run) {
  Params params;
  params.add(run.uuid());
  WriteSession::of(session).run(texts_, sql::job_note_started, params);
}

bool JobStore::set_output(storage::WriteSession& session, JobRunId run, std::string_view output) {
  Params params;
  params.add(run.uuid()).add(output);
  return WriteSession::of(session).run(texts_, sql::job_set_output, params).affected() == 1;
}

std::size_t JobStore::purge_runs(storage::WriteSession& session, std::chrono::microseconds age,
                                 int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return WriteSession::of(session).run(texts_, sql::job_purge_runs, params).affected();
}

std::optional<Job> JobStore::find(storage::ReadSession& session, std::string_view name) {
  Params params;
  params.add(name);
  const auto result = ReadSession::of(session).run(texts_, sql::job_find, params);
  return result.rows() == 0 ? std::nullopt : std::optional{read_job(result, 0)};
}

std::vector<Job> JobStore::list(storage::ReadSession& session) {
  return read_jobs(ReadSession::of(session).run(texts_, sql::job_list, {}));
}

std::vector<JobRun> JobStore::runs(storage::ReadSession& session, std::string_view name,
                                   const RunPage& page) {
  Params params;
  params.add(name).add(page.before).add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(texts_, sql::job_runs, params);
  std::vector<JobRun> runs;
  runs.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) runs.push_back(read_run(result, row));
  return runs;
}

}  // namespace dovetail::postgres
