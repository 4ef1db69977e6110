#include "sqlite/operation_store.hpp"

#include "core/text.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {
namespace {

/// A running replay reports at least this often.
constexpr std::chrono::minutes replay_silence{1};

Replay read_replay(const Cursor& row) {
  using Column = sql::columns::replay_find;
  Replay replay;
  auto& request = replay.request;
  replay.id = ReplayId{row.uuid(Column::id)};
  request.kind = storage::replay_kind(row.text(Column::kind));
  replay.state = storage::replay_state(row.text(Column::state));
  request.queue = row.text(Column::queue);
  request.actor = row.text(Column::actor);
  request.filter.topic = row.text_or_null(Column::topic);
  request.filter.failed_after = row.time_or_null(Column::failed_after);
  request.filter.failed_before = row.time_or_null(Column::failed_before);
  request.error = row.text_or_null(Column::error);
  if (!row.is_null(Column::most)) request.limit = row.integer(Column::most);
  if (!row.is_null(Column::rate)) request.rate = static_cast<int>(row.integer(Column::rate));
  replay.examined = row.integer(Column::examined);
  replay.changed = row.integer(Column::changed);
  replay.started_at = row.time(Column::started_at);
  replay.updated_at = row.time(Column::updated_at);
  replay.finished_at = row.time_or_null(Column::finished_at);
  replay.failure = row.text_or_null(Column::failure).value_or("");
  return replay;
}

}  // namespace

void AuditStore::record(storage::WriteSession& session, const AuditRecord& record) {
  auto cursor = WriteSession::of(session).run(texts_, sql::audit_record);
  cursor.bind(std::string_view{record.actor})
      .bind(std::string_view{record.action})
      .bind(std::string_view{record.target})
      .bind(std::string_view{record.detail})
      .bind(record.count)
      .bind(std::string_view{record.result})
      .bind(clock_->wall())
      .run();
}

std::vector<AuditEntry> AuditStore::list(storage::ReadSession& session, const AuditPage& page) {
  using Column = sql::columns::audit_list;
  auto cursor = ReadSession::of(session).run(texts_, sql::audit_list);
  cursor.bind(page.before).bind(std::int64_t{page.size});
  std::vector<AuditEntry> entries;
  while (cursor.step()) {
    entries.push_back({.id = cursor.integer(Column::id),
                       .at = cursor.time(Column::at),
                       .record = {.actor = cursor.text(Column::actor),
                                  .action = cursor.text(Column::action),
                                  .target = cursor.text(Column::target),
                                  .detail = cursor.text(Column::detail),
                                  .result = cursor.text(Column::result)}});
    if (!cursor.is_null(Column::count)) entries.back().record.count = cursor.integer(Column::count);
  }
  return entries;
}

std::size_t AuditStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                              int most) {
  auto cursor = WriteSession::of(session).run(texts_, sql::audit_purge);
  return cursor.bind(clock_->wall() - age).bind(std::int64_t{most}).run();
}

WallTime ReplayStore::add(storage::WriteSession& session, ReplayId id,
                          const ReplayRequest& request) {
  auto cursor = WriteSession::of(session).run(texts_, sql::replay_add);
  cursor.bind(id.uuid())
      .bind(to_string(request.kind))
      .bind(std::string_view{request.queue})
      .bind(std::string_view{request.actor})
      .bind(core::view_of(request.filter.topic))
      .bind(request.filter.failed_after)
      .bind(request.filter.failed_before)
      .bind(core::view_of(request.error))
      .bind(request.limit)
      .bind(request.rate ? std::optional{std::int64_t{*request.rate}} : std::nullopt)
      .bind(clock_->wall())
      .step();
  return cursor.time(0);
}

bool ReplayStore::advance(storage::WriteSession& session, ReplayId id,
                          const storage::ReplayProgress& progress) {
  auto cursor = WriteSession::of(session).run(texts_, sql::replay_advance);
  cursor.bind(id.uuid()).bind(progress.examined).bind(progress.changed).bind(clock_->wall());
  return cursor.run() == 1;
}

bool ReplayStore::finish(storage::WriteSession& session, ReplayId id, ReplayState state,
                         std::string_view failure) {
  auto cursor = WriteSession::of(session).run(texts_, sql::replay_finish);
  cursor.bind(id.uuid()).bind(to_string(state)).bind(failure).bind(clock_->wall());
  return cursor.run() == 1;
}

std::optional<Replay> ReplayStore::find(storage::ReadSession& session, ReplayId id) {
  auto cursor = ReadSession::of(session).run(texts_, sql::replay_find);
  if (!cursor.bind(id.uuid()).bind(clock_->wall() - replay_silence).step()) return std::nullopt;
  return read_replay(cursor);
}

std::vector<Replay> ReplayStore::list(storage::ReadSession& session, const ReplayPage& page) {
  auto cursor = ReadSession::of(session).run(texts_, sql::replay_list);
  cursor.bind(page.before ? std::optional{page.before->uuid()} : std::nullopt)
      .bind(clock_->wall() - replay_silence)
      .bind(std::int64_t{page.size});
  std::vector<Replay> replays;
  while (cursor.step()) replays.push_back(read_replay(cursor));
  return replays;
}

std::size_t ReplayStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                               int most) {
  auto cursor = WriteSession::of(session).run(texts_, sql::replay_purge);
  return cursor.bind(clock_->wall() - age).bind(std::int64_t{most}).run();
}

}  // namespace dovetail::sqlite
