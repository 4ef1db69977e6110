#include "postgres/operation_store.hpp"

#include "core/text.hpp"
#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {
namespace {

Replay read_replay(const Result& result, int row) {
  using Column = sql::columns::replay_find;
  Replay replay;
  auto& request = replay.request;
  replay.id = ReplayId{result.uuid(row, Column::id)};
  request.kind = storage::replay_kind(result.text(row, Column::kind));
  replay.state = storage::replay_state(result.text(row, Column::state));
  request.queue = result.text(row, Column::queue);
  request.actor = result.text(row, Column::actor);
  request.filter.topic = result.text_or_null(row, Column::topic);
  request.filter.failed_after = result.time_or_null(row, Column::failed_after);
  request.filter.failed_before = result.time_or_null(row, Column::failed_before);
  request.error = result.text_or_null(row, Column::error);
  if (!result.is_null(row, Column::most)) request.limit = result.integer(row, Column::most);
  if (!result.is_null(row, Column::rate))
    request.rate = static_cast<int>(result.integer(row, Column::rate));
  replay.examined = result.integer(row, Column::examined);
  replay.changed = result.integer(row, Column::changed);
  replay.started_at = result.time(row, Column::started_at);
  replay.updated_at = result.time(row, Column::updated_at);
  replay.finished_at = result.time_or_null(row, Column::finished_at);
  replay.failure = result.text_or_null(row, Column::failure).value_or("");
  return replay;
}

Params purge_params(std::chrono::microseconds age, int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return params;
}

}  // namespace

void AuditStore::record(storage::WriteSession& session, const AuditRecord& record) {
  Params params;
  params.add(std::string_view{record.actor})
      .add(std::string_view{record.action})
      .add(std::string_view{record.target})
      .add(std::string_view{record.detail})
      .add(record.count)
      .add(std::string_view{record.result});
  WriteSession::of(session).run(texts_, sql::audit_record, params);
}

std::vector<AuditEntry> AuditStore::list(storage::ReadSession& session, const AuditPage& page) {
  using Column = sql::columns::audit_list;
  Params params;
  params.add(page.before).add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(texts_, sql::audit_list, params);
  std::vector<AuditEntry> entries;
  entries.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    entries.push_back({.id = result.integer(row, Column::id),
                       .at = result.time(row, Column::at),
                       .record = {.actor = result.text(row, Column::actor),
                                  .action = result.text(row, Column::action),
                                  .target = result.text(row, Column::target),
                                  .detail = result.text(row, Column::detail),
                                  .result = result.text(row, Column::result)}});
    if (!result.is_null(row, Column::count))
      entries.back().record.count = result.integer(row, Column::count);
  }
  return entries;
}

std::size_t AuditStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                              int most) {
  return WriteSession::of(session)
      .run(texts_, sql::audit_purge, purge_params(age, most))
      .affected();
}

WallTime ReplayStore::add(storage::WriteSession& session, ReplayId id,
                          const ReplayRequest& request) {
  Params params;
  params.add(id.uuid())
      .add(to_string(request.kind))
      .add(std::string_view{request.queue})
      .add(std::string_view{request.actor})
      .add(core::view_of(request.filter.topic))
      .add(request.filter.failed_after)
      .add(request.filter.failed_before)
      .add(core::view_of(request.error))
      .add(request.limit)
      .add(request.rate ? std::optional{std::int32_t{*request.rate}} : std::nullopt);
  return WriteSession::of(session).run(texts_, sql::replay_add, params).time(0, 0);
}

bool ReplayStore::advance(storage::WriteSession& session, ReplayId id,
                          const storage::ReplayProgress& progress) {
  Params params;
  params.add(id.uuid()).add(progress.examined).add(progress.changed);
  return WriteSession::of(session).run(texts_, sql::replay_advance, params).affected() == 1;
}

bool ReplayStore::finish(storage::WriteSession& session, ReplayId id, ReplayState state,
                         std::string_view failure) {
  Params params;
  params.add(id.uuid()).add(to_string(state)).add(failure);
  return WriteSession::of(session).run(texts_, sql::replay_finish, params).affected() == 1;
}

std::optional<Replay> ReplayStore::find(storage::ReadSession& session, ReplayId id) {
  Params params;
  params.add(id.uuid());
  const auto result = ReadSession::of(session).run(texts_, sql::replay_find, params);
  return result.rows() == 0 ? std::nullopt : std::optional{read_replay(result, 0)};
}

std::vector<Replay> ReplayStore::list(storage::ReadSession& session, const ReplayPage& page) {
  Params params;
  params.add(page.before ? std::optional{page.before->uuid()} : std::nullopt)
      .add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(texts_, sql::replay_list, params);
  std::vector<Replay> replays;
  replays.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) replays.push_back(read_replay(result, row));
  return replays;
}

std::size_t ReplayStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                               int most) {
  return WriteSession::of(session)
      .run(texts_, sql::replay_purge, purge_params(age, most))
      .affected();
}

}  // namespace dovetail::postgres
