#include "sqlite/join_store.hpp"

#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {
namespace {

constexpr std::int64_t stored_done = 1;  // the numbers in the table of the outbox
constexpr std::int64_t stored_failed = 3;
constexpr std::int64_t most_steps_purged =
    200;  // joins and steps in one transaction, which blocks all other writers

Join read_join(const Cursor& row) {
  using Column = sql::columns::join_find;
  Join join;
  join.id = JoinId{row.uuid(Column::join_id)};
  join.grouping_key = row.text_or_null(Column::grouping_key);
  join.expected_steps = static_cast<int>(row.integer(Column::expected_steps));
  join.completed_steps = static_cast<int>(row.integer(Column::completed_steps));
  join.failed_steps = static_cast<int>(row.integer(Column::failed_steps));
  join.status = static_cast<JoinStatus>(row.integer(Column::status));
  join.created_at = row.time(Column::created_at);
  join.last_updated_at = row.time(Column::last_updated_at);
  join.finished_at = row.time_or_null(Column::finished_at);
  join.deadline = row.time_or_null(Column::deadline);
  join.reason = row.text_or_null(Column::reason);
  join.metadata = row.text_or_null(Column::metadata);
  return join;
}

}  // namespace

// --- counting

bool JoinStore::is_installed(Connection& connection) {
  auto exists = connection.run(texts_, sql::join_report_step_installed);
  exists.step();
  return exists.integer(0) != 0;
}

bool JoinStore::spares(Connection& connection, const Uuid& message) {
  return is_installed(connection) &&
         connection.run(texts_, sql::join_wait_step_waits).bind(message).step();
}

bool JoinStore::watches_any(Connection& connection) {
  if (!is_installed(connection)) return false;
  auto any = connection.run(texts_, sql::join_report_step_any);
  any.step();
  return any.integer(0) != 0;
}

std::vector<Uuid> JoinStore::watched(Connection& connection, std::span<const Uuid> messages) {
  std::vector<Uuid> found;
  if (messages.empty() || !watches_any(connection)) return found;
  for (const auto& message : messages) {
    if (connection.run(texts_, sql::join_report_step_joins).bind(message).step())
      found.push_back(message);
  }
  return found;
}

void JoinStore::ended(Connection& connection, std::span<const Uuid> messages, Ending ending,
                      WallTime now) {
  Tally tally(*this, connection);
  for (const auto& message : messages) {
    tally.add(message, ending == Ending::done ? StepStatus::completed : StepStatus::failed);
  }
  tally.count(now);
}

void JoinStore::Tally::add(const Uuid& message, StepStatus status) {
  std::vector<JoinId> joins;
  {
    auto cursor = connection_.run(store_.texts_, sql::join_report_step_joins);
    cursor.bind(message);
    while (cursor.step()) joins.emplace_back(cursor.uuid(0));
  }
  for (const auto& join : joins) add(join, message, status);
}

bool JoinStore::Tally::add(const JoinId& join, const Uuid& message, StepStatus status) {
  auto cursor = connection_.run(store_.texts_, sql::join_report_step_member);
  cursor.bind(join.uuid()).bind(message).bind(static_cast<std::int64_t>(status));
  if (cursor.run() == 0) return false;
  auto& steps = joins_[join];
  ++(status == StepStatus::completed ? steps.completed : steps.failed);
  return true;
}

void JoinStore::Tally::count(WallTime now) {
  for (const auto& [join, steps] : joins_) {
    bool ended = false;
    {
      auto cursor = connection_.run(store_.texts_, sql::join_report_step_join);
      cursor.bind(join.uuid()).bind(steps.completed).bind(steps.failed).bind(now);
      ended = cursor.step() && cursor.integer(0) != 0;
    }
    if (ended) store_.wake(connection_, join, now);
  }
  joins_.clear();
}

void JoinStore::wake(Connection& connection, const JoinId& join, WallTime now) {
  if (connection.run(texts_, sql::join_report_step_wake).bind(join.uuid()).bind(now).run() > 0)
    bell_.ring();
}

// --- the store

bool JoinStore::start(storage::WriteSession& session, const storage::NewJoin& join) {
  auto cursor = WriteSession::of(session).run(texts_, sql::join_start);
  cursor.bind(join.id.uuid())
      .bind(join.grouping_key)
      .bind(std::int64_t{join.expected_steps})
      .bind(join.metadata)
      .bind(join.deadline)
      .bind(clock_->wall());
  return cursor.run() == 1;
}

void JoinStore::expect(storage::WriteSession& session, JoinId join, int steps) {
  WriteSession::of(session)
      .run(texts_, sql::join_expect)
      .bind(join.uuid())
      .bind(std::int64_t{steps})
      .run();
}

void JoinStore::grow(storage::WriteSession& session, JoinId join, int steps) {
  WriteSession::of(session)
      .run(texts_, sql::join_grow)
      .bind(join.uuid())
      .bind(std::int64_t{steps})
      .run();
}

std::optional<JoinId> JoinStore::missing(storage::WriteSession& session,
                                         std::span<const JoinId> joins) {
  for (const auto& join : joins) {
    auto cursor = WriteSession::of(session).run(texts_, sql::join_missing);
    cursor.bind(join.uuid()).step();
    if (cursor.integer(0) != 0) return join;
  }
  return std::nullopt;
}

std::optional<std::int64_t> JoinStore::stored_status(Connection& connection, MessageId message) {
  auto cursor = connection.run(texts_, sql::join_attach_step_state);
  return cursor.bind(message.uuid()).step() ? std::optional{cursor.integer(0)} : std::nullopt;
}

storage::AttachAnswer JoinStore::attach(storage::WriteSession& session,
                                        std::span<const storage::Membership> members,
                                        bool known_only) {
  auto& connection = WriteSession::of(session);
  storage::AttachAnswer answer;
  for (const auto& member : members) {
    answer.missing = missing(session, std::span{&member.join, 1});
    if (answer.missing) return answer;
    if (!stored_status(connection, member.message)) answer.unknown = member.message;
  }
  if (known_only && answer.unknown) return answer;
  const auto now = clock_->wall();
  Tally tally(*this, connection);
  for (const auto& member : members) {
    auto cursor = connection.run(texts_, sql::join_attach);
    answer.attached += cursor.bind(member.join.uuid()).bind(member.message.uuid()).bind(now).run();
    const auto status = stored_status(connection, member.message);
    if (status == stored_done) tally.add(member.join, member.message.uuid(), StepStatus::completed);
    if (status == stored_failed) tally.add(member.join, member.message.uuid(), StepStatus::failed);
  }
  tally.count(now);
  return answer;
}

std::optional<bool> JoinStore::report(storage::WriteSession& session, JoinId join,
                                      MessageId message, StepStatus status) {
  auto& connection = WriteSession::of(session);
  {
    auto member = connection.run(texts_, sql::join_report);
    member.bind(join.uuid()).bind(message.uuid()).step();
    if (member.integer(0) == 0) return std::nullopt;
  }
  Tally tally(*this, connection);
  const bool counted = tally.add(join, message.uuid(), status);
  tally.count(clock_->wall());
  return counted;
}

bool JoinStore::is_reported(storage::WriteSession& session, JoinId join, MessageId message,
                            StepStatus status) {
  auto cursor = WriteSession::of(session).run(texts_, sql::join_is_reported);
  cursor.bind(join.uuid()).bind(message.uuid()).bind(static_cast<std::int64_t>(status)).step();
  return cursor.integer(0) != 0;
}

bool JoinStore::is_cancelled(storage::WriteSession& session, JoinId join) {
  auto cursor = WriteSession::of(session).run(texts_, sql::join_is_cancelled);
  cursor.bind(join.uuid()).step();
  return cursor.integer(0) != 0;
}

std::optional<bool> JoinStore::cancel(storage::WriteSession& session, JoinId join) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  if (connection.run(texts_, sql::join_cancel).bind(join.uuid()).bind(now).run() == 1) {
    wake(connection, join, now);
    return true;
  }
  if (missing(session, std::span{&join, 1})) return std::nullopt;
  return false;
}

void JoinStore::fail_for_deadline(Connection& connection, const JoinId& join, WallTime now) {
  connection.run(texts_, sql::join_fail_overdue_step_one).bind(join.uuid()).bind(now).run();
  wake(connection, join, now);
}

std::optional<Join> JoinStore::find(Connection& connection, const JoinId& join) {
  auto cursor = connection.run(texts_, sql::join_find);
  if (!cursor.bind(join.uuid()).step()) return std::nullopt;
  return read_join(cursor);
}

void JoinStore::await(storage::WriteSession& session, JoinId join, MessageId message) {
  WriteSession::of(session)
      .run(texts_, sql::join_await)
      .bind(join.uuid())
      .bind(message.uuid())
      .run();
}

std::optional<storage::AwaitedJoin> JoinStore::wait(storage::WriteSession& session, JoinId join,
                                                    MessageId message) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  auto found = find(connection, join);
  if (!found) return std::nullopt;
  if (found->status == JoinStatus::pending && found->deadline && *found->deadline <= now) {
    fail_for_deadline(connection, join, now);
    found = find(connection, join);
  }
  storage::AwaitedJoin awaited{*found, std::nullopt};
  const bool pending = found->status == JoinStatus::pending;
  if (pending) connection.run(texts_, sql::join_wait_step_look).bind(message.uuid()).run();
  connection.run(texts_, pending ? sql::join_await : sql::join_wait)
      .bind(join.uuid())
      .bind(message.uuid())
      .run();
  if (found->deadline) awaited.until_deadline = *found->deadline - now;
  return awaited;
}

std::vector<Join> JoinStore::take_unlogged(storage::WriteSession& session, int most) {
  auto& connection = WriteSession::of(session);
  std::vector<Join> joins;
  {
    auto cursor = connection.run(texts_, sql::join_take_unlogged);
    cursor.bind(std::int64_t{most});
    while (cursor.step()) joins.push_back(read_join(cursor));
  }
  for (const auto& join : joins) {
    connection.run(texts_, sql::join_take_unlogged_step_one).bind(join.id.uuid()).run();
  }
  return joins;
}

std::size_t JoinStore::fail_overdue(storage::WriteSession& session, int most) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  std::vector<JoinId> overdue;
  {
    auto cursor = connection.run(texts_, sql::join_fail_overdue);
    cursor.bind(now).bind(std::int64_t{most});
    while (cursor.step()) overdue.emplace_back(cursor.uuid(0));
  }
  for (const auto& join : overdue) fail_for_deadline(connection, join, now);
  return overdue.size();
}

std::size_t JoinStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                             int most) {
  using Column = sql::columns::join_purge;
  auto& connection = WriteSession::of(session);
  std::vector<JoinId> joins;
  {
    auto cursor = connection.run(texts_, sql::join_purge);
    cursor.bind(clock_->wall() - age).bind(std::int64_t{most});
    for (std::int64_t steps = 0; cursor.step();) {
      steps += cursor.integer(Column::expected_steps) + 1;
      if (!joins.empty() && steps > most_steps_purged) break;
      joins.emplace_back(cursor.uuid(Column::join_id));
    }
  }
  for (const auto& join : joins) {
    connection.run(texts_, sql::join_purge_step_waiters).bind(join.uuid()).run();
    connection.run(texts_, sql::join_purge_step_members).bind(join.uuid()).run();
    connection.run(texts_, sql::join_purge_step_join).bind(join.uuid()).run();
  }
  return joins.size();
}

std::optional<Join> JoinStore::find(storage::ReadSession& session, JoinId join) {
  return find(ReadSession::of(session), join);
}

std::vector<Join> JoinStore::list(storage::ReadSession& session, const JoinFilter& filter,
                                  const JoinPage& page) {
  const auto& statement = filter.grouping_key ? sql::join_list_step_group
                          : filter.status     ? sql::join_list_step_status
                                              : sql::join_list;
  auto cursor = ReadSession::of(session).run(texts_, statement);
  cursor
      .bind(filter.status ? std::optional{static_cast<std::int64_t>(*filter.status)} : std::nullopt)
      .bind(filter.created_after)
      .bind(filter.created_before)
      .bind(page.after ? std::optional{page.after->uuid()} : std::nullopt)
      .bind(std::int64_t{page.size});
  if (filter.grouping_key) cursor.bind(std::string_view{*filter.grouping_key});
  std::vector<Join> found;
  while (cursor.step()) found.push_back(read_join(cursor));
  return found;
}

std::vector<JoinMember> JoinStore::members(storage::ReadSession& session, JoinId join,
                                           const MemberPage& page) {
  using Column = sql::columns::join_members;
  auto cursor = ReadSession::of(session).run(texts_, sql::join_members);
  cursor.bind(join.uuid())
      .bind(page.after ? std::optional{page.after->uuid()} : std::nullopt)
      .bind(std::int64_t{page.size});
  std::vector<JoinMember> found;
  while (cursor.step()) {
    found.push_back({MessageId{cursor.uuid(Column::message_id)},
                     static_cast<StepStatus>(cursor.integer(Column::status)),
                     cursor.time(Column::created_at)});
  }
  return found;
}

std::vector<JoinId> JoinStore::joins_of(storage::ReadSession& session, MessageId message,
                                        int most) {
  auto cursor = ReadSession::of(session).run(texts_, sql::join_joins_of);
  cursor.bind(message.uuid()).bind(std::int64_t{most});
  std::vector<JoinId> found;
  while (cursor.step()) found.emplace_back(cursor.uuid(sql::columns::join_joins_of::join_id));
  return found;
}

std::vector<MessageId> JoinStore::waiting(storage::ReadSession& session, JoinId join, int most) {
  auto cursor = ReadSession::of(session).run(texts_, sql::join_waiting);
  cursor.bind(join.uuid()).bind(std::int64_t{most});
  std::vector<MessageId> found;
  while (cursor.step()) found.emplace_back(cursor.uuid(sql::columns::join_waiting::message_id));
  return found;
}

}  // namespace dovetail::sqlite
