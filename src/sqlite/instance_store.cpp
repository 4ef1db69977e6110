#include "sqlite/instance_store.hpp"

#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {

WallTime InstanceStore::beat(storage::WriteSession& session, const storage::InstanceEntry& entry,
                             InstanceState state) {
  auto cursor = WriteSession::of(session).run(texts_, sql::instance_beat);
  cursor.bind(entry.id.uuid())
      .bind(std::string_view{entry.host})
      .bind(entry.pid)
      .bind(std::string_view{entry.version})
      .bind(std::string_view{entry.handlers})
      .bind(to_string(state))
      .bind(entry.started_at)
      .bind(clock_->wall())
      .step();
  return cursor.time(0);
}

void InstanceStore::remove(storage::WriteSession& session, InstanceId id) {
  auto cursor = WriteSession::of(session).run(texts_, sql::instance_remove);
  cursor.bind(id.uuid()).run();
}

std::size_t InstanceStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                                 int most) {
  auto cursor = WriteSession::of(session).run(texts_, sql::instance_purge);
  return cursor.bind(clock_->wall() - age).bind(std::int64_t{most}).run();
}

std::vector<InstanceInfo> InstanceStore::list(storage::ReadSession& session, int most) {
  using Column = sql::columns::instance_list;
  auto cursor = ReadSession::of(session).run(texts_, sql::instance_list);
  cursor.bind(std::int64_t{most}).bind(clock_->wall());
  std::vector<InstanceInfo> instances;
  while (cursor.step()) {
    instances.push_back({.id = InstanceId{cursor.uuid(Column::instance_id)},
                         .host = cursor.text(Column::host),
                         .pid = cursor.integer(Column::pid),
                         .version = cursor.text(Column::version),
                         .started_at = cursor.time(Column::started_at),
                         .heartbeat_at = cursor.time(Column::heartbeat_at),
                         .state = storage::instance_state(cursor.text(Column::state)),
                         .stale = cursor.integer(Column::stale) != 0,
                         .queues = storage::queues_from_json(cursor.text(Column::handlers))});
  }
  return instances;
}

}  // namespace dovetail::sqlite
