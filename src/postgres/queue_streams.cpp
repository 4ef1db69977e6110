// The operation of a queue's streams in PostgreSQL.
#include "core/text.hpp"
#include "postgres/queue_operator.hpp"
#include "postgres/queue_rows.hpp"

namespace dovetail::postgres {
namespace {

StreamInfo read_stream(const Result& result, int row) {
  using Column = sql::columns::streams;
  StreamInfo info;
  info.stream = result.text(row, Column::stream);
  info.state = static_cast<StreamState>(result.integer(row, Column::state));
  info.messages = result.integer(row, Column::messages);
  if (!result.is_null(row, Column::head_id)) {
    info.head = MessageId{result.uuid(row, Column::head_id)};
    info.head_topic = result.text(row, Column::head_topic);
    info.head_attempts = static_cast<int>(result.integer(row, Column::head_attempts));
    info.next_attempt_at = result.time_or_null(row, Column::next_attempt_at);
    info.last_error = result.text_or_null(row, Column::last_error);
  }
  info.blocked_at = result.time_or_null(row, Column::blocked_at);
  if (!result.is_null(row, Column::owner_token)) {
    info.owner = OwnerToken{result.uuid(row, Column::owner_token)};
    info.lease_until = result.time_or_null(row, Column::lease_until);
  }
  return info;
}

Params stream_params(std::string_view stream) {
  Params params;
  params.add(stream);
  return params;
}

}  // namespace

std::vector<StreamInfo> QueueOperator::streams(storage::ReadSession& session,
                                               const StreamPage& page) {
  Params params;
  params.add(core::view_of(page.after)).add(page.only_blocked).add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(texts_, sql_.streams, params);
  std::vector<StreamInfo> found;
  found.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) found.push_back(read_stream(result, row));
  return found;
}

std::optional<StreamInfo> QueueOperator::find_stream(storage::ReadSession& session,
                                                     std::string_view stream) {
  const auto result = ReadSession::of(session).run(texts_, sql_.stream_find, stream_params(stream));
  if (result.rows() == 0) return std::nullopt;
  return read_stream(result, 0);
}

bool QueueOperator::resume_stream(storage::WriteSession& session, std::string_view stream) {
  return WriteSession::of(session)
      .run(texts_, sql_.stream_resume, stream_params(stream))
      .boolean(0, 0);
}

bool QueueOperator::skip_stream(storage::WriteSession& session, std::string_view stream) {
  return WriteSession::of(session)
      .run(texts_, sql_.stream_skip, stream_params(stream))
      .boolean(0, 0);
}

}  // namespace dovetail::postgres
