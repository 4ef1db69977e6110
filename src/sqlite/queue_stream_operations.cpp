// The operation of a queue's streams in SQLite.
#include "core/text.hpp"
#include "sqlite/queue_operator.hpp"
#include "sqlite/queue_streams.hpp"
#include "sqlite/session.hpp"

namespace dovetail::sqlite {
namespace {

StreamInfo read_stream(const Cursor& row) {
  using Column = sql::columns::streams;
  StreamInfo info;
  info.stream = row.text(Column::stream);
  info.state = static_cast<StreamState>(row.integer(Column::state));
  info.messages = row.integer(Column::messages);
  if (!row.is_null(Column::head_id)) {
    info.head = MessageId{row.uuid(Column::head_id)};
    info.head_topic = row.text(Column::head_topic);
    info.head_attempts = static_cast<int>(row.integer(Column::head_attempts));
    info.next_attempt_at = row.time_or_null(Column::next_attempt_at);
    info.last_error = row.text_or_null(Column::last_error);
  }
  info.blocked_at = row.time_or_null(Column::blocked_at);
  if (!row.is_null(Column::owner_token)) {
    info.owner = OwnerToken{row.uuid(Column::owner_token)};
    info.lease_until = row.time_or_null(Column::lease_until);
  }
  return info;
}

}  // namespace

std::vector<StreamInfo> QueueOperator::streams(storage::ReadSession& session,
                                               const StreamPage& page) {
  auto cursor = context_.run(ReadSession::of(session), context_.sql.streams);
  cursor.bind(core::view_of(page.after))
      .bind(std::int64_t{page.only_blocked ? 1 : 0})
      .bind(std::int64_t{page.size});
  std::vector<StreamInfo> found;
  while (cursor.step()) found.push_back(read_stream(cursor));
  return found;
}

std::optional<StreamInfo> QueueOperator::find_stream(storage::ReadSession& session,
                                                     std::string_view stream) {
  auto cursor = context_.run(ReadSession::of(session), context_.sql.stream_find);
  cursor.bind(stream);
  if (!cursor.step()) return std::nullopt;
  return read_stream(cursor);
}

bool QueueOperator::resume_stream(storage::WriteSession& session, std::string_view stream) {
  return QueueStreams{context_, WriteSession::of(session)}.resume(stream);
}

bool QueueOperator::skip_stream(storage::WriteSession& session, std::string_view stream) {
  return QueueStreams{context_, WriteSession::of(session)}.skip(stream);
}

}  // namespace dovetail::sqlite
