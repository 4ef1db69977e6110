#include "postgres/job_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {
namespace {

Job read_job(const Result& result, int row) {
  Job job;
  job.id = JobId{result.uuid(row, 0)};
  job.name = result.text(row, 1);
  job.topic = result.text(row, 2);
  job.payload = result.text(row, 3);
  job.cron = result.text(row, 4);
  job.time_zone = result.text(row, 5);
  job.misfire = static_cast<Misfire>(result.integer(row, 6));
  job.misfire_limit = static_cast<int>(result.integer(row, 7));
  job.enabled = result.boolean(row, 8);
  job.max_concurrent_runs = static_cast<int>(result.integer(row, 9));
  job.jitter = std::chrono::milliseconds{result.integer(row, 10)};
  job.created_at = result.time(row, 11);
  job.updated_at = result.time(row, 12);
  job.next_due_at = result.time_or_null(row, 13);
  job.last_run_at = result.time_or_null(row, 14);
  if (!result.is_null(row, 15)) job.last_run_status = storage::run_status_of(result.bytes(row, 15));
  job.last_error = result.text_or_null(row, 16);
  return job;
}

std::vector<Job> read_jobs(const Result& result) {
  std::vector<Job> jobs;
  jobs.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) jobs.push_back(read_job(result, row));
  return jobs;
}

JobRun read_run(const Result& result, int row) {
  JobRun run;
  run.id = JobRunId{result.uuid(row, 0)};
  run.job = result.text(row, 1);
  run.scheduled_time = result.time(row, 2);
  run.status = storage::run_status_of(result.bytes(row, 3));
  run.triggered = result.boolean(row, 4);
  run.created_at = result.time(row, 5);
  run.started_at = result.time_or_null(row, 6);
  run.ended_at = result.time_or_null(row, 7);
  run.output = result.text_or_null(row, 8);
  run.last_error = result.text_or_null(row, 9);
  run.attempts = static_cast<int>(result.integer(row, 10));
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
  Params params;
  params.add(job.uuid());
  const auto result = WriteSession::of(session).run(texts_, sql::job_counts, params);
  return {static_cast<int>(result.integer(0, 0)), static_cast<int>(result.integer(0, 1)),
          static_cast<int>(result.integer(0, 2))};
}

std::vector<storage::NewRun> JobStore::waiting(storage::WriteSession& session, JobId job,
                                               int most) {
  Params params;
  params.add(job.uuid()).add(std::int32_t{most});
  const auto result = WriteSession::of(session).run(texts_, sql::job_waiting, params);
  std::vector<storage::NewRun> runs;
  runs.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    runs.push_back({JobRunId{result.uuid(row, 0)}, result.time(row, 1), result.boolean(row, 2)});
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

std::optional<Job> JobStore::get(storage::ReadSession& session, std::string_view name) {
  Params params;
  params.add(name);
  const auto result = ReadSession::of(session).run(texts_, sql::job_get, params);
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
