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
  int waiting = 0;    ///< For their turn.
  int triggered = 0;  ///< Of those that wait.
};

/// What the views call it. Anything else is a bug.
[[nodiscard]] RunStatus run_status_of(std::string_view word);

class JobStore {
 public:
  virtual ~JobStore() = default;

  /// The time that decides.
  virtual WallTime now(WriteSession& session) = 0;

  // A job that is returned from here is locked until the transaction ends.
  virtual std::optional<Job> lock(WriteSession& session, std::string_view name) = 0;
  /// Those that have something to do, and nobody else has locked.
  virtual std::vector<Job> lock_due(WriteSession& session, int most) = 0;

  /// False when there is one of this name.
  virtual bool insert(WriteSession& session, const Job& job) = 0;
  /// All but its id, its creation and what follows from runs. Runs take the name along.
  virtual void update(WriteSession& session, const Job& job) = 0;
  /// When it is due next, and when to look at it again. Clears its error.
  virtual void plan(WriteSession& session, JobId job, std::optional<WallTime> next_due_at,
                    std::optional<WallTime> wake_at) = 0;
  /// Stores why the job cannot be scheduled; with `wake_at`, nobody looks at it before then.
  virtual void note_broken(WriteSession& session, JobId job, std::string_view error,
                           std::optional<WallTime> wake_at) = 0;
  /// With its runs that nobody has begun, and their messages.
  virtual void remove(WriteSession& session, JobId job) = 0;

  /// False when there is a run for this time.
  virtual bool add_run(WriteSession& session, const Job& job, const NewRun& run) = 0;
  /// Deletes runs that wait and come from the schedule, all or those before a time. Returns their
  /// times.
  virtual std::vector<WallTime> drop_waiting(WriteSession& session, JobId job,
                                             std::optional<WallTime> before = {}) = 0;
  virtual RunCounts counts(WriteSession& session, JobId job) = 0;
  /// The earliest first.
  virtual std::vector<NewRun> waiting(WriteSession& session, JobId job, int most) = 0;
  /// Its message is in the outbox from now on.
  virtual void release(WriteSession& session, JobRunId run) = 0;
  virtual void note_started(WriteSession& session, JobRunId run) = 0;
  virtual bool set_output(WriteSession& session, JobRunId run, std::string_view output) = 0;
  virtual std::size_t purge_runs(WriteSession& session, std::chrono::microseconds age,
                                 int most) = 0;

  virtual std::optional<Job> get(ReadSession& session, std::string_view name) = 0;
  virtual std::vector<Job> list(ReadSession& session) = 0;
  virtual std::vector<JobRun> runs(ReadSession& session, std::string_view name,
                                   const RunPage& page) = 0;
};

}  // namespace dovetail::storage
