// Cron jobs and their runs, as a backend stores them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "dovetail/schedule.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

struct NewRun {
  JobRunId id;
  WallTime scheduled_time;
  bool triggered = false;
};

struct RunCounts {
  int active = 0;     ///< Their messages are in the outbox.
  int waiting = 0;    ///< Waiting for a free slot.
  int triggered = 0;  ///< Waiting runs that were triggered.
};

/// The status that the views name. Any other word is a bug.
[[nodiscard]] RunStatus run_status_of(std::string_view word);

class JobStore {
 public:
  virtual ~JobStore() = default;

  /// The time of the database, which decides everything durable.
  virtual WallTime now(WriteSession& session) = 0;

  // The returned job is locked until the transaction ends.
  virtual std::optional<Job> lock(WriteSession& session, std::string_view name) = 0;
  /// Due jobs that no other transaction has locked. They stay locked until the transaction ends.
  virtual std::vector<Job> lock_due(WriteSession& session, int most) = 0;

  /// Returns false if a job of this name exists.
  virtual bool insert(WriteSession& session, const Job& job) = 0;
  /// Updates the definition, not `id`, `created_at` or run history. Renames the runs of the job,
  /// too.
  virtual void update(WriteSession& session, const Job& job) = 0;
  /// Stores the next due time and the time of the next check. Clears the error.
  virtual void plan(WriteSession& session, JobId job, std::optional<WallTime> next_due_at,
                    std::optional<WallTime> wake_at) = 0;
  /// Stores why the job cannot be scheduled. With `wake_at`, the next check is at that time.
  virtual void note_broken(WriteSession& session, JobId job, std::string_view error,
                           std::optional<WallTime> wake_at) = 0;
  /// Removes the job, its runs that no worker has begun, and their messages.
  virtual void remove(WriteSession& session, JobId job) = 0;

  /// Returns false if the job has a run for this time.
  virtual bool add_run(WriteSession& session, const Job& job, const NewRun& run) = 0;
  /// Deletes waiting runs of the schedule: all of them, or those before a time. Returns their
  /// times.
  virtual std::vector<WallTime> drop_waiting(WriteSession& session, JobId job,
                                             std::optional<WallTime> before = {}) = 0;
  virtual RunCounts counts(WriteSession& session, JobId job) = 0;
  /// Returns waiting runs, the earliest first.
  virtual std::vector<NewRun> waiting(WriteSession& session, JobId job, int most) = 0;
  /// Records that the message of the run is now in the outbox.
  virtual void release(WriteSession& session, JobRunId run) = 0;
  virtual void note_started(WriteSession& session, JobRunId run) = 0;
  virtual bool set_output(WriteSession& session, JobRunId run, std::string_view output) = 0;
  virtual std::size_t purge_runs(WriteSession& session, std::chrono::microseconds age,
                                 int most) = 0;

  virtual std::optional<Job> find(ReadSession& session, std::string_view name) = 0;
  virtual std::vector<Job> list(ReadSession& session) = 0;
  virtual std::vector<JobRun> runs(ReadSession& session, std::string_view name,
                                   const RunPage& page) = 0;
};

}  // namespace dovetail::storage
