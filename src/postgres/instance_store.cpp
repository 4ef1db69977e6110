#include "postgres/instance_store.hpp"

#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {

WallTime InstanceStore::beat(storage::WriteSession& session, const storage::InstanceEntry& entry,
                             InstanceState state) {
  Params params;
  params.add(entry.id.uuid())
      .add(std::string_view{entry.host})
      .add(entry.pid)
      .add(std::string_view{entry.version})
      .add(std::string_view{entry.handlers})
      .add(to_string(state))
      .add(entry.started_at);
  return WriteSession::of(session).run(texts_, sql::instance_beat, params).time(0, 0);
}

void InstanceStore::remove(storage::WriteSession& session, InstanceId id) {
  Params params;
  params.add(id.uuid());
  WriteSession::of(session).run(texts_, sql::instance_remove, params);
}

std::size_t InstanceStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                                 int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return WriteSession::of(session).run(texts_, sql::instance_purge, params).affected();
}

std::vector<InstanceInfo> InstanceStore::list(storage::ReadSession& session, int most) {
  using Column = sql::columns::instance_list;
  Params params;
  params.add(std::int64_t{most});
  const auto result = ReadSession::of(session).run(texts_, sql::instance_list, params);
  std::vector<InstanceInfo> instances;
  instances.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    instances.push_back({.id = InstanceId{result.uuid(row, Column::instance_id)},
                         .host = result.text(row, Column::host),
                         .pid = result.integer(row, Column::pid),
                         .version = result.text(row, Column::version),
                         .started_at = result.time(row, Column::started_at),
                         .heartbeat_at = result.time(row, Column::heartbeat_at),
                         .state = storage::instance_state(result.bytes(row, Column::state)),
                         .stale = result.boolean(row, Column::stale),
                         .queues = storage::queues_from_json(result.bytes(row, Column::handlers))});
  }
  return instances;
}

}  // namespace dovetail::postgres
