// Lists of messages and topics.
#include "core/text.hpp"
#include "postgres/queue_operator.hpp"
#include "postgres/queue_rows.hpp"

namespace dovetail::postgres {
namespace {

using ListColumn = sql::columns::list_newest;

void add_range(Params& params, const MessageFilter& filter) {
  params.add(filter.finished_after).add(filter.finished_before);
}

Params list_params(const storage::ListRequest& request) {
  const auto& filter = request.filter;
  Params params;
  params.add(std::int64_t{request.scan_limit})
      .add(std::int64_t{request.size})
      .add(core::view_of(filter.topic))
      .add(core::view_of(filter.correlation_id))
      .add(core::view_of(filter.stream))
      .add(filter.created_after)
      .add(filter.created_before);
  return params;
}

/// The statement of the state, after the parameters that it has in addition to the common ones.
const storage::Statement& list_statement(const sql::Queue& sql, const storage::ListRequest& request,
                                         Params& params) {
  const auto after_id = request.after ? request.after->id : std::nullopt;
  if (!request.filter.state) {
    params.add(after_id);
    return sql.list_newest;
  }
  switch (*request.filter.state) {
    case MessageState::failed:
      add_range(params, request.filter);
      params.add(after_id);
      return sql.list_failed;
    case MessageState::done:
      add_range(params, request.filter);
      params.add(request.after
                     ? std::optional{WallTime{std::chrono::microseconds{request.after->at}}}
                     : std::nullopt);
      params.add(after_id);
      return sql.list_done;
    default:
      params.add(std::int64_t{static_cast<int>(*request.filter.state)}).add(after_id);
      return sql.list_waiting;
  }
}

ListedMessage read_listed(const Result& result, int row) {
  ListedMessage listed;
  auto& stored = listed.stored;
  stored.message = read_message<ListColumn>(result, row);
  stored.message.stream = result.text_or_null(row, ListColumn::stream);
  stored.status = static_cast<MessageStatus>(result.integer(row, ListColumn::status));
  stored.processed_at = result.time_or_null(row, ListColumn::processed_at);
  if (!result.is_null(row, ListColumn::processed_by))
    stored.processed_by = OwnerToken{result.uuid(row, ListColumn::processed_by)};
  stored.last_error = result.text_or_null(row, ListColumn::last_error);
  stored.past_attempts = static_cast<int>(result.integer(row, ListColumn::past_attempts));
  stored.unique_key = result.text_or_null(row, ListColumn::unique_key);
  stored.next_attempt_at = result.time_or_null(row, ListColumn::next_attempt_at);
  listed.state = static_cast<MessageState>(result.integer(row, ListColumn::state));
  return listed;
}

}  // namespace

storage::ListResult QueueOperator::list(storage::ReadSession& session,
                                        const storage::ListRequest& request) {
  auto params = list_params(request);
  const auto& statement = list_statement(sql_, request, params);
  const auto result = ReadSession::of(session).run(texts_, statement, params);
  storage::ListResult found;
  for (int row = 0; row < result.rows(); ++row) {
    found.read = result.integer(row, ListColumn::walked);
    if (found.read > 0) {
      found.last_read.id = result.uuid(row, ListColumn::last_id);
      found.last_read.at = result.integer(row, ListColumn::last_at);
    }
    if (result.is_null(row, ListColumn::id)) continue;
    found.messages.push_back(read_listed(result, row));
    found.places.push_back(
        {.id = result.uuid(row, ListColumn::id), .at = result.integer(row, ListColumn::place_at)});
  }
  return found;
}

std::pair<std::vector<TopicCounts>, std::int64_t> QueueOperator::topics(
    storage::ReadSession& session, const TopicPage& page) {
  using Column = sql::columns::topics;
  Params params;
  params.add(std::int64_t{page.scan_limit})
      .add(core::view_of(page.after))
      .add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(texts_, sql_.topics, params);
  std::vector<TopicCounts> topics;
  std::int64_t read = 0;
  for (int row = 0; row < result.rows(); ++row) {
    read = result.integer(row, Column::walked);
    if (result.is_null(row, Column::topic)) continue;
    topics.push_back({.topic = result.text(row, Column::topic),
                      .ready = result.integer(row, Column::ready),
                      .scheduled = result.integer(row, Column::scheduled),
                      .in_progress = result.integer(row, Column::in_progress),
                      .done = result.integer(row, Column::done),
                      .failed = result.integer(row, Column::failed),
                      .paused = result.integer(row, Column::paused)});
  }
  return {std::move(topics), read};
}

}  // namespace dovetail::postgres
