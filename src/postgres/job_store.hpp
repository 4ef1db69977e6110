#pragma once

#include "storage/job_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class JobStore final : public storage::JobStore {
 public:
  explicit JobStore(const storage::StatementTexts& texts) : texts_(texts) {}

  WallTime now(storage::WriteSession& session) override;
  std::optional<Job> lock(storage::WriteSession& session, std::string_view name) override;
  std::vector<Job> lock_due(storage::WriteSession& session, int most) override;
  bool insert(storage::WriteSession& session, const Job& job) override;
  void update(storage::WriteSession& session, const Job& job) override;
  void plan(storage::WriteSession& session, JobId job, std::optional<WallTime> next_due_at,
            std::optional<WallTime> wake_at) override;
  void note_broken(storage::WriteSession& session, JobId job, std::string_view error,
                   std::optional<WallTime> wake_at) override;
  void remove(storage::WriteSession& session, JobId job) override;
  bool add_run(storage::WriteSession& session, const Job& job, const storage::NewRun& run) override;
  std::vector<WallTime> drop_waiting(storage::WriteSession& session, JobId job,
                                     std::optional<WallTime> before) override;
  storage::RunCounts counts(storage::WriteSession& session, JobId job) override;
  std::vector<storage::NewRun> waiting(storage::WriteSession& session, JobId job,
                                       int most) override;
  void release(storage::WriteSession& session, JobRunId run) override;
  void note_started(storage::WriteSession& session, JobRunId run) override;
  bool set_output(storage::WriteSession& session, JobRunId run, std::string_view output) override;
  std::size_t purge_runs(storage::WriteSession& session, std::chrono::microseconds age,
                         int most) override;
  std::optional<Job> find(storage::ReadSession& session, std::string_view name) override;
  std::vector<Job> list(storage::ReadSession& session) override;
  std::vector<JobRun> runs(storage::ReadSession& session, std::string_view name,
                           const RunPage& page) override;

 private:
  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::postgres
