#include "sqlite/sample_store.hpp"

#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {

std::vector<storage::JoinCount> SampleStore::joins(storage::ReadSession& session, int most) {
  using Column = sql::columns::sample_joins;
  auto cursor = ReadSession::of(session).run(texts_, sql::sample_joins);
  cursor.bind(std::int64_t{most});
  std::vector<storage::JoinCount> counts;
  while (cursor.step()) {
    counts.push_back(
        {static_cast<JoinStatus>(cursor.integer(Column::status)), cursor.integer(Column::joins)});
  }
  return counts;
}

std::vector<storage::JobSuccess> SampleStore::jobs(storage::ReadSession& session, int most) {
  using Column = sql::columns::sample_jobs;
  auto cursor = ReadSession::of(session).run(texts_, sql::sample_jobs);
  cursor.bind(std::int64_t{most});
  std::vector<storage::JobSuccess> jobs;
  while (cursor.step()) {
    storage::JobSuccess job{.job = cursor.text(Column::name), .ended_at = {}};
    if (!cursor.is_null(Column::ended_at)) job.ended_at = cursor.time(Column::ended_at);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace dovetail::sqlite
