#include "sqlite/subscription_store.hpp"

#include <set>

#include "core/headers.hpp"
#include "core/text.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::sqlite {
namespace {

using std::chrono::microseconds;

constexpr std::size_t max_error_bytes = 2048;

std::optional<std::string> filter_json(const std::vector<std::string>& texts) {
  if (texts.empty()) return std::nullopt;
  return core::to_json(std::set<std::string, std::less<>>{texts.begin(), texts.end()});
}

Cursor& bind_part(Cursor& cursor, const storage::PartLease& part) {
  return cursor.bind(std::string_view{part.name}).bind(std::int64_t{part.part}).bind(part.epoch);
}

std::optional<std::int64_t> integer_or_null(const Cursor& cursor, int column) {
  return cursor.is_null(column) ? std::nullopt : std::optional{cursor.integer(column)};
}

std::vector<std::string> texts_of(const Cursor& cursor, int column) {
  return cursor.is_null(column) ? std::vector<std::string>{}
                                : core::texts_from_json(cursor.view(column));
}

SubscriptionStatus read_status(const Cursor& cursor) {
  using Column = sql::columns::subscription_list;
  SubscriptionStatus status{.name = cursor.text(Column::name),
                            .parts = static_cast<int>(cursor.integer(Column::parts)),
                            .types = texts_of(cursor, Column::types),
                            .prefixes = texts_of(cursor, Column::prefixes),
                            .on_failure = cursor.text(Column::on_failure),
                            .created_at = cursor.time(Column::created_at),
                            .paused_at = cursor.time_or_null(Column::paused_at),
                            .position = cursor.integer(Column::position),
                            .head = cursor.integer(Column::head),
                            .lag = cursor.integer(Column::lag),
                            .stopped_at = cursor.time_or_null(Column::stopped_at),
                            .attempts = static_cast<int>(cursor.integer(Column::attempts)),
                            .last_error = cursor.text_or_null(Column::last_error),
                            .held_parts = static_cast<int>(cursor.integer(Column::held_parts)),
                            .parked = cursor.integer(Column::parked)};
  if (const auto parts = integer_or_null(cursor, Column::next_parts))
    status.next_parts = static_cast<int>(*parts);
  if (const auto time = integer_or_null(cursor, Column::lag_time))
    status.lag_time = microseconds{*time};
  return status;
}

SubscriptionPart read_part(const Cursor& cursor) {
  using Column = sql::columns::subscription_parts;
  SubscriptionPart part{.part = static_cast<int>(cursor.integer(Column::part)),
                        .position = cursor.integer(Column::position),
                        .epoch = cursor.integer(Column::epoch),
                        .lease_until = cursor.time_or_null(Column::lease_until),
                        .attempts = static_cast<int>(cursor.integer(Column::attempts)),
                        .retry_at = cursor.time_or_null(Column::retry_at),
                        .stopped_at = cursor.time_or_null(Column::stopped_at),
                        .last_error = cursor.text_or_null(Column::last_error),
                        .moved_at = cursor.time(Column::moved_at)};
  if (!cursor.is_null(Column::owner_token))
    part.owner = OwnerToken{cursor.uuid(Column::owner_token)};
  return part;
}

}  // namespace

bool SubscriptionStore::run(storage::WriteSession& session, const storage::Statement& statement,
                            std::string_view name) {
  return WriteSession::of(session).run(texts_, statement).bind(name).run() > 0;
}

bool SubscriptionStore::create(storage::WriteSession& session,
                               const storage::SubscriptionOrder& order) {
  using Column = sql::columns::subscription_create_step_find;
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  const auto types = filter_json(order.types);
  const auto prefixes = filter_json(order.prefixes);
  const bool created = connection.run(texts_, sql::subscription_create)
                           .bind(order.name)
                           .bind(std::int64_t{order.parts})
                           .bind(core::view_of(types))
                           .bind(core::view_of(prefixes))
                           .bind(order.on_failure)
                           .bind(now)
                           .run() == 1;
  for (std::int64_t part = 0; created && part < order.parts; ++part) {
    auto cursor = connection.run(texts_, sql::subscription_create_step_part);
    cursor.bind(order.name).bind(part).bind(order.start).bind(std::int64_t{0}).bind(now).run();
  }
  if (created) return true;
  connection.run(texts_, sql::subscription_create_step_change)
      .bind(order.name)
      .bind(core::view_of(types))
      .bind(core::view_of(prefixes))
      .bind(order.on_failure)
      .run();
  std::int64_t parts = 0;
  std::int64_t wanted = 0;
  {
    auto cursor = connection.run(texts_, sql::subscription_create_step_find);
    cursor.bind(order.name).step();
    parts = cursor.integer(Column::parts);
    wanted = integer_or_null(cursor, Column::next_parts).value_or(parts);
  }
  if (wanted == order.parts) return false;
  const bool back = parts == order.parts;
  if (!back) run(session, sql::subscription_create_step_fence, order.name);
  connection.run(texts_, sql::subscription_create_step_drain)
      .bind(order.name)
      .bind(back ? std::nullopt : std::optional{std::int64_t{order.parts}})
      .run();
  return false;
}

// --- leases

void SubscriptionStore::divide(Connection& connection, std::string_view name) {
  using Found = sql::columns::subscription_create_step_find;
  using Drained = sql::columns::subscription_acquire_step_drained;
  std::optional<std::int64_t> parts;
  std::int64_t drain_to = 0;
  {
    auto cursor = connection.run(texts_, sql::subscription_create_step_find);
    if (!cursor.bind(name).step()) return;
    parts = integer_or_null(cursor, Found::next_parts);
    if (!parts) return;
    drain_to = cursor.integer(Found::drain_to);
  }
  std::int64_t epoch = 0;
  {
    auto cursor = connection.run(texts_, sql::subscription_acquire_step_drained);
    cursor.bind(name).bind(drain_to).step();
    if (cursor.integer(Drained::undrained) > 0) return;
    epoch = cursor.integer(Drained::epoch) + 1;
  }
  connection.run(texts_, sql::subscription_acquire_step_clear).bind(name).run();
  for (std::int64_t part = 0; part < *parts; ++part) {
    auto cursor = connection.run(texts_, sql::subscription_create_step_part);
    cursor.bind(name).bind(part).bind(drain_to).bind(epoch).bind(clock_->wall()).run();
  }
  connection.run(texts_, sql::subscription_acquire_step_divided).bind(name).run();
}

std::optional<storage::PartLease> SubscriptionStore::acquire(storage::WriteSession& session,
                                                             std::string_view name, int part,
                                                             OwnerToken owner, microseconds lease) {
  using Column = sql::columns::subscription_acquire;
  auto& connection = WriteSession::of(session);
  divide(connection, name);
  const auto now = clock_->wall();
  auto cursor = connection.run(texts_, sql::subscription_acquire);
  cursor.bind(name).bind(std::int64_t{part}).bind(owner.uuid()).bind(now).bind(now + lease);
  if (!cursor.step()) return std::nullopt;
  return storage::PartLease{
      .name = std::string{name},
      .part = part,
      .epoch = cursor.integer(Column::epoch),
      .position = cursor.integer(Column::position),
      .parts = static_cast<int>(cursor.integer(Column::parts)),
      .drain_to = integer_or_null(cursor, Column::drain_to),
      .attempts = static_cast<int>(cursor.integer(Column::attempts)),
      .retry_in = microseconds{integer_or_null(cursor, Column::retry_in).value_or(0)},
      .changes = cursor.integer(Column::changes)};
}

bool SubscriptionStore::renew(storage::WriteSession& session, const storage::PartLease& part,
                              microseconds lease) {
  auto cursor = WriteSession::of(session).run(texts_, sql::subscription_renew);
  return bind_part(cursor, part).bind(clock_->wall() + lease).run() == 1;
}

bool SubscriptionStore::release(storage::WriteSession& session, const storage::PartLease& part) {
  auto cursor = WriteSession::of(session).run(texts_, sql::subscription_release);
  return bind_part(cursor, part).run() == 1;
}

// --- positions and failures

bool SubscriptionStore::advance(storage::WriteSession& session, const storage::PartLease& part,
                                storage::PartMove move) {
  auto cursor = WriteSession::of(session).run(texts_, sql::subscription_advance);
  return bind_part(cursor, part).bind(move.from).bind(move.to).bind(clock_->wall()).run() == 1;
}

std::optional<int> SubscriptionStore::fail(storage::WriteSession& session,
                                           const storage::PartLease& part, std::string_view error,
                                           microseconds retry_in, bool stop) {
  const auto now = clock_->wall();
  auto cursor = WriteSession::of(session).run(texts_, sql::subscription_fail);
  bind_part(cursor, part)
      .bind(core::trimmed(error, max_error_bytes))
      .bind(now + retry_in)
      .bind(std::int64_t{stop ? 1 : 0})
      .bind(now);
  return cursor.step() ? std::optional{static_cast<int>(cursor.integer(0))} : std::nullopt;
}

bool SubscriptionStore::park(storage::WriteSession& session, const storage::PartLease& part,
                             storage::PartMove move, ParkedKind kind, std::string_view error) {
  auto& connection = WriteSession::of(session);
  std::int64_t attempts = 0;
  {
    auto cursor = connection.run(texts_, sql::subscription_park_step_attempts);
    cursor.bind(std::string_view{part.name}).bind(std::int64_t{part.part});
    if (cursor.step()) attempts = cursor.integer(0);
  }
  if (!advance(session, part, move)) return false;
  connection.run(texts_, sql::subscription_park)
      .bind(std::string_view{part.name})
      .bind(move.to)
      .bind(attempts)
      .bind(to_string(kind))
      .bind(core::trimmed(error, max_error_bytes))
      .bind(clock_->wall())
      .run();
  return true;
}

bool SubscriptionStore::move_parked(storage::WriteSession& session, const storage::PartLease& part,
                                    std::int64_t position, std::optional<std::int64_t> version) {
  auto& connection = WriteSession::of(session);
  if (!is_held(connection, part)) return false;
  auto cursor = connection.run(
      texts_, version ? sql::subscription_move_parked : sql::subscription_move_parked_step_done);
  cursor.bind(std::string_view{part.name}).bind(position);
  if (version) cursor.bind(*version);
  return cursor.run() == 1;
}

bool SubscriptionStore::is_held(Connection& connection, const storage::PartLease& part) {
  auto cursor = connection.run(texts_, sql::subscription_move_parked_step_held);
  return bind_part(cursor, part).step();
}

bool SubscriptionStore::fail_parked(storage::WriteSession& session, const storage::PartLease& part,
                                    std::int64_t position, std::int64_t failed,
                                    std::string_view error) {
  auto& connection = WriteSession::of(session);
  if (!is_held(connection, part)) return false;
  connection.run(texts_, sql::subscription_fail_parked)
      .bind(std::string_view{part.name})
      .bind(position)
      .bind(failed)
      .bind(core::trimmed(error, max_error_bytes))
      .run();
  return true;
}

std::vector<storage::SubscriptionChanges> SubscriptionStore::changes(
    storage::ReadSession& session) {
  using Column = sql::columns::subscription_changes;
  auto cursor = ReadSession::of(session).run(texts_, sql::subscription_changes);
  std::vector<storage::SubscriptionChanges> all;
  while (cursor.step()) all.push_back({cursor.text(Column::name), cursor.integer(Column::changes)});
  return all;
}

// --- operation

std::vector<ParkedEvent> SubscriptionStore::parked(storage::ReadSession& session,
                                                   std::string_view name, int parts, int part) {
  using Column = sql::columns::subscription_parked;
  auto cursor = ReadSession::of(session).run(texts_, sql::subscription_parked);
  cursor.bind(name).bind(std::int64_t{parts}).bind(std::int64_t{part});
  std::vector<ParkedEvent> parked;
  while (cursor.step()) {
    parked.push_back({.position = cursor.integer(Column::position),
                      .stream = cursor.text(Column::stream),
                      .version = cursor.integer(Column::version),
                      .kind = storage::parked_kind_of(cursor.view(Column::kind)),
                      .attempts = static_cast<int>(cursor.integer(Column::attempts)),
                      .error = cursor.text(Column::error),
                      .parked_at = cursor.time(Column::parked_at),
                      .resumed_at = cursor.time_or_null(Column::resumed_at)});
  }
  return parked;
}

std::vector<SubscriptionStatus> SubscriptionStore::list(storage::ReadSession& session,
                                                        std::optional<std::string_view> name) {
  auto cursor = ReadSession::of(session).run(texts_, sql::subscription_list);
  cursor.bind(name).bind(clock_->wall());
  std::vector<SubscriptionStatus> all;
  while (cursor.step()) all.push_back(read_status(cursor));
  return all;
}

std::vector<SubscriptionPart> SubscriptionStore::parts(storage::ReadSession& session,
                                                       std::string_view name) {
  auto cursor = ReadSession::of(session).run(texts_, sql::subscription_parts);
  cursor.bind(name);
  std::vector<SubscriptionPart> parts;
  while (cursor.step()) parts.push_back(read_part(cursor));
  return parts;
}

bool SubscriptionStore::pause(storage::WriteSession& session, std::string_view name) {
  return WriteSession::of(session)
             .run(texts_, sql::subscription_pause)
             .bind(name)
             .bind(clock_->wall())
             .run() == 1;
}

bool SubscriptionStore::resume(storage::WriteSession& session, std::string_view name) {
  session.wakes(storage::queue_names::event_feed);
  const bool paused = run(session, sql::subscription_resume, name);
  return run(session, sql::subscription_resume_step_parts, name) || paused;
}

std::size_t SubscriptionStore::resume_parked(storage::WriteSession& session, std::string_view name,
                                             std::optional<std::string_view> stream) {
  session.wakes(storage::queue_names::event_feed);
  run(session, sql::subscription_changes_step_count, name);
  auto cursor = WriteSession::of(session).run(texts_, sql::subscription_resume_parked);
  return cursor.bind(name).bind(stream).bind(clock_->wall()).run();
}

bool SubscriptionStore::skip(storage::WriteSession& session, std::string_view name,
                             std::int64_t position) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  const auto try_to = [&](const storage::Statement& statement, bool timed) {
    auto cursor = connection.run(texts_, statement);
    cursor.bind(name).bind(position);
    if (timed) cursor.bind(now);
    return cursor.run() > 0;
  };
  const bool skipped = try_to(sql::subscription_skip_step_stream, true) ||
                       try_to(sql::subscription_skip_step_event, false) ||
                       try_to(sql::subscription_skip, true);
  if (skipped) {
    run(session, sql::subscription_changes_step_count, name);
    run(session, sql::subscription_resume_step_parts, name);
    session.wakes(storage::queue_names::event_feed);
  }
  return skipped;
}

bool SubscriptionStore::rebuild(storage::WriteSession& session, std::string_view name,
                                std::int64_t position) {
  auto& connection = WriteSession::of(session);
  const auto found = connection.run(texts_, sql::subscription_rebuild)
                         .bind(name)
                         .bind(position)
                         .bind(clock_->wall())
                         .run();
  if (found == 0) return false;
  run(session, sql::subscription_changes_step_count, name);
  connection.run(texts_, sql::subscription_rebuild_step_drain).bind(name).bind(position).run();
  run(session, sql::subscription_rebuild_step_parked, name);
  session.wakes(storage::queue_names::event_feed);
  return true;
}

bool SubscriptionStore::remove(storage::WriteSession& session, std::string_view name) {
  run(session, sql::subscription_acquire_step_clear, name);
  run(session, sql::subscription_rebuild_step_parked, name);
  return run(session, sql::subscription_remove, name);
}

}  // namespace dovetail::sqlite
