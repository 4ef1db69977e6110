// Lists of messages and topics.
#include <array>
#include <limits>

#include "core/text.hpp"
#include "sqlite/queue_operator.hpp"
#include "sqlite/queue_rows.hpp"
#include "sqlite/session.hpp"

namespace dovetail::sqlite {
namespace {

using ListColumn = sql::columns::list_newest;

constexpr std::int64_t first_number = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t last_number = std::numeric_limits<std::int64_t>::max();
/// Longer than every id, and behind all of them.
constexpr std::array<std::byte, 17> behind_all_ids = [] {
  std::array<std::byte, 17> bytes{};
  bytes.fill(std::byte{0xFF});
  return bytes;
}();

void bind_common(Cursor& cursor, const storage::ListRequest& request) {
  const auto& filter = request.filter;
  cursor.bind(std::int64_t{request.scan_limit})
      .bind(std::int64_t{request.size})
      .bind(core::view_of(filter.topic))
      .bind(core::view_of(filter.correlation_id))
      .bind(core::view_of(filter.stream))
      .bind(filter.created_after)
      .bind(filter.created_before);
}

void bind_range(Cursor& cursor, const MessageFilter& filter) {
  cursor.bind(filter.finished_after).bind(filter.finished_before);
}

void bind_id(Cursor& cursor, const storage::ListRequest& request) {
  if (request.after && request.after->id) {
    cursor.bind(*request.after->id);
  } else {
    cursor.bind(std::span<const std::byte>{behind_all_ids});
  }
}

void bind_waiting(Cursor& cursor, const storage::ListRequest& request, WallTime now) {
  const auto after = request.after.value_or(
      storage::ListPlace{.lane = first_number, .at = first_number, .seq = first_number});
  cursor.bind(std::int64_t{static_cast<int>(*request.filter.state)})
      .bind(after.lane)
      .bind(after.at)
      .bind(after.seq)
      .bind(now);
}

void bind_done(Cursor& cursor, const storage::ListRequest& request) {
  const auto after =
      request.after.value_or(storage::ListPlace{.at = last_number, .seq = last_number});
  bind_range(cursor, request.filter);
  cursor.bind(after.at).bind(after.seq);
}

const storage::Statement& list_statement(const sql::Queue& sql,
                                         const std::optional<MessageState>& state) {
  if (!state) return sql.list_newest;
  if (*state == MessageState::failed) return sql.list_failed;
  return *state == MessageState::done ? sql.list_done : sql.list_waiting;
}

void bind_list(Cursor& cursor, const storage::ListRequest& request, WallTime now) {
  bind_common(cursor, request);
  const auto& state = request.filter.state;
  if (!state) {
    bind_id(cursor, request);
    cursor.bind(now);
  } else if (*state == MessageState::failed) {
    bind_range(cursor, request.filter);
    bind_id(cursor, request);
  } else if (*state == MessageState::done) {
    bind_done(cursor, request);
  } else {
    bind_waiting(cursor, request, now);
  }
}

ListedMessage read_listed(const Cursor& row) {
  ListedMessage listed;
  auto& stored = listed.stored;
  stored.message = read_message<ListColumn>(row);
  stored.message.stream = row.text_or_null(ListColumn::stream);
  stored.status = static_cast<MessageStatus>(row.integer(ListColumn::status));
  stored.processed_at = row.time_or_null(ListColumn::processed_at);
  if (!row.is_null(ListColumn::processed_by))
    stored.processed_by = OwnerToken{row.uuid(ListColumn::processed_by)};
  stored.last_error = row.text_or_null(ListColumn::last_error);
  stored.past_attempts = static_cast<int>(row.integer(ListColumn::past_attempts));
  stored.unique_key = row.text_or_null(ListColumn::unique_key);
  stored.next_attempt_at = row.time_or_null(ListColumn::next_attempt_at);
  listed.state = static_cast<MessageState>(row.integer(ListColumn::state));
  return listed;
}

}  // namespace

storage::ListResult QueueOperator::list(storage::ReadSession& session,
                                        const storage::ListRequest& request) {
  auto cursor =
      context_.run(ReadSession::of(session), list_statement(context_.sql, request.filter.state));
  bind_list(cursor, request, context_.now());
  storage::ListResult found;
  while (cursor.step()) {
    found.read = cursor.integer(ListColumn::walked);
    if (found.read > 0) {
      found.last_read = {.lane = cursor.integer(ListColumn::last_lane),
                         .at = cursor.integer(ListColumn::last_at),
                         .seq = cursor.integer(ListColumn::last_seq)};
      if (!cursor.is_null(ListColumn::last_id))
        found.last_read.id = cursor.uuid(ListColumn::last_id);
    }
    if (cursor.is_null(ListColumn::id)) continue;
    found.messages.push_back(read_listed(cursor));
    found.places.push_back({.id = cursor.uuid(ListColumn::id),
                            .lane = cursor.integer(ListColumn::place_lane),
                            .at = cursor.integer(ListColumn::place_at),
                            .seq = cursor.integer(ListColumn::place_seq)});
  }
  return found;
}

std::pair<std::vector<TopicCounts>, std::int64_t> QueueOperator::topics(
    storage::ReadSession& session, const TopicPage& page) {
  using Column = sql::columns::topics;
  auto cursor = context_.run(ReadSession::of(session), context_.sql.topics);
  cursor.bind(std::int64_t{page.scan_limit})
      .bind(core::view_of(page.after))
      .bind(std::int64_t{page.size})
      .bind(context_.now());
  std::vector<TopicCounts> topics;
  std::int64_t read = 0;
  while (cursor.step()) {
    read = cursor.integer(Column::walked);
    if (cursor.is_null(Column::topic)) continue;
    topics.push_back({.topic = cursor.text(Column::topic),
                      .ready = cursor.integer(Column::ready),
                      .scheduled = cursor.integer(Column::scheduled),
                      .in_progress = cursor.integer(Column::in_progress),
                      .done = cursor.integer(Column::done),
                      .failed = cursor.integer(Column::failed),
                      .paused = cursor.integer(Column::paused)});
  }
  return {std::move(topics), read};
}

}  // namespace dovetail::sqlite
