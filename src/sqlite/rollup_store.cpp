#include "sqlite/rollup_store.hpp"

#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {
namespace {

using std::chrono::microseconds;

WallTime whole_minute(WallTime time) {
  return std::chrono::floor<std::chrono::minutes>(time);
}

}  // namespace

bool RollupStore::flush(storage::WriteSession& session, const storage::RollupFlush& flush) {
  const auto now = clock_->wall();
  auto begin = WriteSession::of(session).run(texts_, sql::rollup_flush_step_begin);
  if (begin.bind(flush.source).bind(flush.number).bind(now).run() == 0) return false;
  const auto rows = storage::to_json(flush.rows);
  auto cursor = WriteSession::of(session).run(texts_, sql::rollup_flush);
  cursor.bind(std::string_view{rows}).bind(now).run();
  return true;
}

std::size_t RollupStore::fold(storage::WriteSession& session, microseconds age) {
  auto& writing = WriteSession::of(session);
  auto oldest = writing.run(texts_, sql::rollup_fold_step_oldest);
  oldest.bind(whole_minute(clock_->wall() - age)).step();
  if (oldest.is_null(0)) return 0;
  const auto minute = oldest.integer(0);
  auto fold = writing.run(texts_, sql::rollup_fold);
  fold.bind(minute).run();
  auto erase = writing.run(texts_, sql::rollup_fold_step_delete);
  return erase.bind(minute).run();
}

std::size_t RollupStore::purge(storage::WriteSession& session, microseconds age, int most) {
  auto cursor = WriteSession::of(session).run(texts_, sql::rollup_purge);
  return cursor.bind(clock_->wall() - age).bind(std::int64_t{most}).run();
}

std::size_t RollupStore::purge_sources(storage::WriteSession& session, microseconds age, int most) {
  auto cursor = WriteSession::of(session).run(texts_, sql::rollup_purge_sources);
  return cursor.bind(clock_->wall() - age).bind(std::int64_t{most}).run();
}

std::vector<HistoryBucket> RollupStore::list(storage::ReadSession& session,
                                             const HistoryRequest& request) {
  using Column = sql::columns::rollup_list;
  auto cursor = ReadSession::of(session).run(texts_, sql::rollup_list);
  cursor.bind(std::string_view{request.queue})
      .bind(std::string_view{request.topic})
      .bind(std::int64_t{request.by_topic ? 1 : 0})
      .bind(request.from)
      .bind(request.to)
      .bind(std::int64_t{microseconds{request.step}.count()});
  std::vector<HistoryBucket> buckets;
  while (cursor.step()) {
    buckets.push_back({.begin = cursor.time(Column::bucket),
                       .topic = cursor.text(Column::topic),
                       .enqueued = cursor.integer(Column::enqueued),
                       .done = cursor.integer(Column::done),
                       .retried = cursor.integer(Column::retried),
                       .failed = cursor.integer(Column::failed),
                       .calls = cursor.integer(Column::calls),
                       .handler_time = microseconds{cursor.integer(Column::handler_time)},
                       .handler_time_max = microseconds{cursor.integer(Column::handler_time_max)}});
  }
  return buckets;
}

}  // namespace dovetail::sqlite
