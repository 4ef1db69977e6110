#include "postgres/backlog_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {

bool BacklogStore::is_known(storage::ReadSession& session) {
  return ReadSession::of(session).run(texts_, sql::backlog_is_known, {}).boolean(0, 0);
}

void BacklogStore::add(storage::WriteSession& session, std::string_view queue,
                       const BacklogBucket& bucket) {
  Params params;
  params.add(queue).add(bucket.ready).add(bucket.in_progress);
  WriteSession::of(session).run(texts_, sql::backlog_add, params);
}

std::size_t BacklogStore::fold(storage::WriteSession& session, std::chrono::microseconds age) {
  Params params;
  params.add(std::int64_t{age.count()});
  const auto folded =
      WriteSession::of(session).run(texts_, sql::backlog_fold, params).integer(0, 0);
  return static_cast<std::size_t>(folded);
}

std::size_t BacklogStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                                int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return WriteSession::of(session).run(texts_, sql::backlog_purge, params).affected();
}

std::vector<BacklogBucket> BacklogStore::list(storage::ReadSession& session,
                                              const HistoryRequest& request) {
  using Column = sql::columns::backlog_list;
  Params params;
  params.add(std::string_view{request.queue})
      .add(request.from)
      .add(request.to)
      .add(std::int64_t{request.step.count()});
  const auto result = ReadSession::of(session).run(texts_, sql::backlog_list, params);
  std::vector<BacklogBucket> buckets;
  buckets.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    buckets.push_back({.begin = result.time(row, Column::bucket),
                       .ready = result.integer(row, Column::ready),
                       .in_progress = result.integer(row, Column::in_progress)});
  }
  return buckets;
}

}  // namespace dovetail::postgres
