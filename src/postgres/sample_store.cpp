#include "postgres/sample_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {

std::vector<storage::JoinCount> SampleStore::joins(storage::ReadSession& session, int most) {
  using Column = sql::columns::sample_joins;
  Params params;
  params.add(std::int64_t{most});
  const auto result = ReadSession::of(session).run(texts_, sql::sample_joins, params);
  std::vector<storage::JoinCount> counts;
  counts.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    counts.push_back({static_cast<JoinStatus>(result.integer(row, Column::status)),
                      result.integer(row, Column::joins)});
  }
  return counts;
}

std::vector<storage::JobSuccess> SampleStore::jobs(storage::ReadSession& session, int most) {
  using Column = sql::columns::sample_jobs;
  Params params;
  params.add(std::int64_t{most});
  const auto result = ReadSession::of(session).run(texts_, sql::sample_jobs, params);
  std::vector<storage::JobSuccess> jobs;
  for (int row = 0; row < result.rows(); ++row) {
    storage::JobSuccess job{.job = result.text(row, Column::name), .ended_at = {}};
    if (!result.is_null(row, Column::ended_at)) job.ended_at = result.time(row, Column::ended_at);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace dovetail::postgres
