#include "sqlite/backlog_store.hpp"

#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {

bool BacklogStore::is_known(storage::ReadSession& session) {
  auto cursor = ReadSession::of(session).run(texts_, sql::backlog_is_known);
  cursor.bind(clock_->wall()).step();
  return cursor.integer(0) != 0;
}

void BacklogStore::add(storage::WriteSession& session, std::string_view queue,
                       const BacklogBucket& bucket) {
  auto cursor = WriteSession::of(session).run(texts_, sql::backlog_add);
  cursor.bind(queue).bind(bucket.ready).bind(bucket.in_progress).bind(clock_->wall()).run();
}

std::size_t BacklogStore::fold(storage::WriteSession& session, std::chrono::microseconds age) {
  auto& writing = WriteSession::of(session);
  auto oldest = writing.run(texts_, sql::backlog_fold_step_oldest);
  const WallTime before = std::chrono::floor<std::chrono::minutes>(clock_->wall() - age);
  oldest.bind(before).step();
  if (oldest.is_null(0)) return 0;
  const auto minute = oldest.integer(0);
  writing.run(texts_, sql::backlog_fold).bind(minute).run();
  return writing.run(texts_, sql::backlog_fold_step_delete).bind(minute).run();
}

std::size_t BacklogStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                                int most) {
  auto cursor = WriteSession::of(session).run(texts_, sql::backlog_purge);
  return cursor.bind(clock_->wall() - age).bind(std::int64_t{most}).run();
}

std::vector<BacklogBucket> BacklogStore::list(storage::ReadSession& session,
                                              const HistoryRequest& request) {
  using Column = sql::columns::backlog_list;
  auto cursor = ReadSession::of(session).run(texts_, sql::backlog_list);
  cursor.bind(std::string_view{request.queue})
      .bind(request.from)
      .bind(request.to)
      .bind(std::int64_t{std::chrono::microseconds{request.step}.count()});
  std::vector<BacklogBucket> buckets;
  while (cursor.step()) {
    buckets.push_back({.begin = cursor.time(Column::bucket),
                       .ready = cursor.integer(Column::ready),
                       .in_progress = cursor.integer(Column::in_progress)});
  }
  return buckets;
}

}  // namespace dovetail::sqlite
