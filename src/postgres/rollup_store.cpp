#include "postgres/rollup_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {

bool RollupStore::flush(storage::WriteSession& session, const storage::RollupFlush& flush) {
  const auto rows = storage::to_json(flush.rows);
  Params params;
  params.add(flush.source).add(flush.number).add(std::string_view{rows});
  return WriteSession::of(session).run(texts_, sql::rollup_flush, params).integer(0, 0) > 0;
}

std::size_t RollupStore::fold(storage::WriteSession& session, std::chrono::microseconds age) {
  Params params;
  params.add(std::int64_t{age.count()});
  const auto folded = WriteSession::of(session).run(texts_, sql::rollup_fold, params).integer(0, 0);
  return static_cast<std::size_t>(folded);
}

std::size_t RollupStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                               int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return WriteSession::of(session).run(texts_, sql::rollup_purge, params).affected();
}

std::size_t RollupStore::purge_sources(storage::WriteSession& session,
                                       std::chrono::microseconds age, int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return WriteSession::of(session).run(texts_, sql::rollup_purge_sources, params).affected();
}

std::vector<HistoryBucket> RollupStore::list(storage::ReadSession& session,
                                             const HistoryRequest& request) {
  using Column = sql::columns::rollup_list;
  using std::chrono::microseconds;
  Params params;
  params.add(std::string_view{request.queue})
      .add(std::string_view{request.topic})
      .add(request.by_topic)
      .add(request.from)
      .add(request.to)
      .add(std::int64_t{request.step.count()});
  const auto result = ReadSession::of(session).run(texts_, sql::rollup_list, params);
  std::vector<HistoryBucket> buckets;
  buckets.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    buckets.push_back(
        {.begin = result.time(row, Column::bucket),
         .topic = result.text(row, Column::topic),
         .enqueued = result.integer(row, Column::enqueued),
         .done = result.integer(row, Column::done),
         .retried = result.integer(row, Column::retried),
         .failed = result.integer(row, Column::failed),
         .calls = result.integer(row, Column::calls),
         .handler_time = microseconds{result.integer(row, Column::handler_time)},
         .handler_time_max = microseconds{result.integer(row, Column::handler_time_max)}});
  }
  return buckets;
}

}  // namespace dovetail::postgres
