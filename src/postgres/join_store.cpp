#include "postgres/join_store.hpp"

#include "core/text.hpp"
#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {
namespace {

std::optional<bool> boolean_or_null(const Result& result) {
  return result.is_null(0, 0) ? std::nullopt : std::optional{result.boolean(0, 0)};
}

template <class Column = sql::columns::join_find>
Join read_join(const Result& result, int row) {
  Join join;
  join.id = JoinId{result.uuid(row, Column::join_id)};
  join.grouping_key = result.text_or_null(row, Column::grouping_key);
  join.expected_steps = static_cast<int>(result.integer(row, Column::expected_steps));
  join.completed_steps = static_cast<int>(result.integer(row, Column::completed_steps));
  join.failed_steps = static_cast<int>(result.integer(row, Column::failed_steps));
  join.status = static_cast<JoinStatus>(result.integer(row, Column::status));
  join.created_at = result.time(row, Column::created_at);
  join.last_updated_at = result.time(row, Column::last_updated_at);
  join.finished_at = result.time_or_null(row, Column::finished_at);
  join.deadline = result.time_or_null(row, Column::deadline);
  join.reason = result.text_or_null(row, Column::reason);
  join.metadata = result.text_or_null(row, Column::metadata);
  return join;
}

std::vector<Join> read_joins(const Result& result) {
  std::vector<Join> joins;
  joins.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) joins.push_back(read_join(result, row));
  return joins;
}

}  // namespace

bool JoinStore::start(storage::WriteSession& session, const storage::NewJoin& join) {
  Params params;
  params.add(join.id.uuid())
      .add(join.grouping_key)
      .add(std::int32_t{join.expected_steps})
      .add(join.metadata)
      .add(join.deadline);
  return WriteSession::of(session).run(texts_, sql::join_start, params).boolean(0, 0);
}

void JoinStore::expect(storage::WriteSession& session, JoinId join, int steps) {
  Params params;
  params.add(join.uuid()).add(std::int32_t{steps});
  WriteSession::of(session).run(texts_, sql::join_expect, params);
}

void JoinStore::grow(storage::WriteSession& session, JoinId join, int steps) {
  Params params;
  params.add(join.uuid()).add(std::int32_t{steps});
  WriteSession::of(session).run(texts_, sql::join_grow, params);
}

std::optional<JoinId> JoinStore::missing(storage::WriteSession& session,
                                         std::span<const JoinId> joins) {
  std::vector<Uuid> ids;
  ids.reserve(joins.size());
  for (const auto& join : joins) ids.push_back(join.uuid());
  Params params;
  params.add(std::span<const Uuid>{ids});
  const auto result = WriteSession::of(session).run(texts_, sql::join_missing, params);
  return result.rows() == 0 ? std::nullopt : std::optional{JoinId{result.uuid(0, 0)}};
}

storage::AttachAnswer JoinStore::attach(storage::WriteSession& session,
                                        std::span<const storage::Membership> members,
                                        bool known_only) {
  using Column = sql::columns::join_attach;
  std::vector<Uuid> joins;
  std::vector<Uuid> messages;
  joins.reserve(members.size());
  messages.reserve(members.size());
  for (const auto& member : members) {
    joins.push_back(member.join.uuid());
    messages.push_back(member.message.uuid());
  }
  Params params;
  params.add(std::span<const Uuid>{joins}).add(std::span<const Uuid>{messages}).add(known_only);
  const auto result = WriteSession::of(session).run(texts_, sql::join_attach, params);
  storage::AttachAnswer answer;
  if (!result.is_null(0, Column::missing)) answer.missing = JoinId{result.uuid(0, Column::missing)};
  answer.attached = static_cast<std::size_t>(result.integer(0, Column::attached));
  if (!result.is_null(0, Column::unknown))
    answer.unknown = MessageId{result.uuid(0, Column::unknown)};
  return answer;
}

std::optional<bool> JoinStore::report(storage::WriteSession& session, JoinId join,
                                      MessageId message, StepStatus status) {
  Params params;
  params.add(join.uuid()).add(message.uuid()).add(static_cast<std::int32_t>(status));
  return boolean_or_null(WriteSession::of(session).run(texts_, sql::join_report, params));
}

bool JoinStore::is_reported(storage::WriteSession& session, JoinId join, MessageId message,
                            StepStatus status) {
  Params params;
  params.add(join.uuid()).add(message.uuid()).add(static_cast<std::int32_t>(status));
  return WriteSession::of(session).run(texts_, sql::join_is_reported, params).boolean(0, 0);
}

bool JoinStore::is_cancelled(storage::WriteSession& session, JoinId join) {
  Params params;
  params.add(join.uuid());
  return WriteSession::of(session).run(texts_, sql::join_is_cancelled, params).boolean(0, 0);
}

std::optional<bool> JoinStore::cancel(storage::WriteSession& session, JoinId join) {
  Params params;
  params.add(join.uuid());
  return boolean_or_null(WriteSession::of(session).run(texts_, sql::join_cancel, params));
}

void JoinStore::await(storage::WriteSession& session, JoinId join, MessageId message) {
  Params params;
  params.add(join.uuid()).add(message.uuid());
  WriteSession::of(session).run(texts_, sql::join_await, params);
}

std::optional<storage::AwaitedJoin> JoinStore::wait(storage::WriteSession& session, JoinId join,
                                                    MessageId message) {
  using Column = sql::columns::join_wait;
  Params params;
  params.add(join.uuid()).add(message.uuid());
  const auto result = WriteSession::of(session).run(texts_, sql::join_wait, params);
  if (result.rows() == 0) return std::nullopt;
  storage::AwaitedJoin awaited{read_join<Column>(result, 0), std::nullopt};
  if (!result.is_null(0, Column::until_deadline))
    awaited.until_deadline = std::chrono::microseconds{result.integer(0, Column::until_deadline)};
  return awaited;
}

storage::CaughtUp JoinStore::catch_up(storage::WriteSession& session, int most) {
  using Column = sql::columns::join_wait_step_catch_up;
  Params params;
  params.add(std::int32_t{most});
  const auto result = WriteSession::of(session).run(texts_, sql::join_wait_step_catch_up, params);
  return {static_cast<std::size_t>(result.integer(0, Column::handled)),
          result.boolean(0, Column::waiting)};
}

std::vector<Join> JoinStore::take_unlogged(storage::WriteSession& session, int most) {
  Params params;
  params.add(std::int32_t{most});
  return read_joins(WriteSession::of(session).run(texts_, sql::join_take_unlogged, params));
}

std::size_t JoinStore::fail_overdue(storage::WriteSession& session, int most) {
  Params params;
  params.add(std::int32_t{most});
  return static_cast<std::size_t>(
      WriteSession::of(session).run(texts_, sql::join_fail_overdue, params).integer(0, 0));
}

std::size_t JoinStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                             int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return static_cast<std::size_t>(
      WriteSession::of(session).run(texts_, sql::join_purge, params).integer(0, 0));
}

std::optional<Join> JoinStore::find(storage::ReadSession& session, JoinId join) {
  Params params;
  params.add(join.uuid());
  const auto result = ReadSession::of(session).run(texts_, sql::join_find, params);
  return result.rows() == 0 ? std::nullopt : std::optional{read_join(result, 0)};
}

std::vector<Join> JoinStore::list(storage::ReadSession& session, const JoinFilter& filter,
                                  const JoinPage& page) {
  Params params;
  params.add(core::view_of(filter.grouping_key))
      .add(filter.status ? std::optional{static_cast<std::int32_t>(*filter.status)} : std::nullopt)
      .add(filter.created_after)
      .add(filter.created_before)
      .add(page.after ? std::optional{page.after->uuid()} : std::nullopt)
      .add(std::int64_t{page.size});
  return read_joins(ReadSession::of(session).run(texts_, sql::join_list, params));
}

std::vector<JoinMember> JoinStore::members(storage::ReadSession& session, JoinId join,
                                           const MemberPage& page) {
  using Column = sql::columns::join_members;
  Params params;
  params.add(join.uuid())
      .add(page.after ? std::optional{page.after->uuid()} : std::nullopt)
      .add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(texts_, sql::join_members, params);
  std::vector<JoinMember> found;
  found.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    found.push_back({MessageId{result.uuid(row, Column::message_id)},
                     static_cast<StepStatus>(result.integer(row, Column::status)),
                     result.time(row, Column::created_at)});
  }
  return found;
}

std::vector<JoinId> JoinStore::joins_of(storage::ReadSession& session, MessageId message,
                                        int most) {
  Params params;
  params.add(message.uuid()).add(std::int64_t{most});
  const auto result = ReadSession::of(session).run(texts_, sql::join_joins_of, params);
  std::vector<JoinId> found;
  found.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row)
    found.emplace_back(result.uuid(row, sql::columns::join_joins_of::join_id));
  return found;
}

std::vector<MessageId> JoinStore::waiting(storage::ReadSession& session, JoinId join, int most) {
  Params params;
  params.add(join.uuid()).add(std::int64_t{most});
  const auto result = ReadSession::of(session).run(texts_, sql::join_waiting, params);
  std::vector<MessageId> found;
  found.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row)
    found.emplace_back(result.uuid(row, sql::columns::join_waiting::message_id));
  return found;
}

}  // namespace dovetail::postgres
