#include "postgres/queue_operator.hpp"

#include "core/text.hpp"
#include "postgres/queue_rows.hpp"
#include "storage/failures.hpp"

namespace dovetail::postgres {
namespace {

void add_ids(Params& params, std::optional<std::span<const MessageId>> ids) {
  if (!ids) {
    params.add(nullptr);
    return;
  }
  std::vector<Uuid> uuids;
  for (const auto& id : *ids) uuids.push_back(id.uuid());
  params.add(std::span<const Uuid>{uuids});
}

/// The parameters that select dead letters.
Params chosen_params(std::optional<std::span<const MessageId>> ids, const DeadLetterFilter& filter,
                     int most) {
  Params params;
  add_ids(params, ids);
  params.add(core::view_of(filter.topic))
      .add(filter.failed_after)
      .add(filter.failed_before)
      .add(std::int32_t{most});
  return params;
}

StoredMessage read_stored(const Result& result, int row) {
  using Column = sql::columns::find;
  StoredMessage stored;
  stored.message = read_message<Column>(result, row);
  stored.status = static_cast<MessageStatus>(result.integer(row, Column::status));
  stored.processed_at = result.time_or_null(row, Column::processed_at);
  if (!result.is_null(row, Column::processed_by))
    stored.processed_by = OwnerToken{result.uuid(row, Column::processed_by)};
  stored.last_error = result.text_or_null(row, Column::last_error);
  stored.failures =
      storage::failures_of(result.text_or_null(row, Column::failures), stored.last_error);
  stored.past_attempts = static_cast<int>(result.integer(row, Column::past_attempts));
  stored.unique_key = result.text_or_null(row, Column::unique_key);
  stored.next_attempt_at = result.time_or_null(row, Column::next_attempt_at);
  stored.message.stream = result.text_or_null(row, Column::stream);
  return stored;
}

}  // namespace

std::size_t QueueOperator::replay(storage::WriteSession& session,
                                  std::optional<std::span<const MessageId>> ids,
                                  const DeadLetterFilter& filter, int most) {
  return count_of(
      WriteSession::of(session).run(texts_, sql_.replay, chosen_params(ids, filter, most)));
}

std::size_t QueueOperator::purge_failed(storage::WriteSession& session,
                                        std::optional<std::span<const MessageId>> ids,
                                        const DeadLetterFilter& filter, int most) {
  return count_of(
      WriteSession::of(session).run(texts_, sql_.purge_failed, chosen_params(ids, filter, most)));
}

std::size_t QueueOperator::purge_done(storage::WriteSession& session, std::chrono::microseconds age,
                                      int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return count_of(WriteSession::of(session).run(texts_, sql_.purge_done, params));
}

bool QueueOperator::pause(storage::WriteSession& session, std::string_view topic) {
  Params params;
  params.add(topic);
  return WriteSession::of(session).run(texts_, sql_.pause, params).boolean(0, 0);
}

bool QueueOperator::resume(storage::WriteSession& session, std::string_view topic) {
  Params params;
  params.add(topic);
  return WriteSession::of(session).run(texts_, sql_.resume, params).boolean(0, 0);
}

WallTime QueueOperator::now(storage::ReadSession& session) {
  return ReadSession::of(session).run(texts_, sql_.clock, {}).time(0, 0);
}

QueueCounts QueueOperator::counts(storage::ReadSession& session, std::int64_t up_to) {
  using Column = sql::columns::counts;
  Params params;
  params.add(up_to);
  const auto result = ReadSession::of(session).run(texts_, sql_.counts, params);
  QueueCounts counts;
  counts.ready = result.integer(0, Column::ready);
  counts.scheduled = result.integer(0, Column::scheduled);
  counts.in_progress = result.integer(0, Column::in_progress);
  counts.done = result.integer(0, Column::done);
  counts.failed = result.integer(0, Column::failed);
  counts.paused = result.integer(0, Column::paused);
  counts.counted_up_to = up_to;
  if (!result.is_null(0, Column::oldest_due))
    counts.oldest_due = std::chrono::microseconds{result.integer(0, Column::oldest_due)};
  return counts;
}

std::vector<storage::DueTopic> QueueOperator::due_topics(storage::ReadSession& session,
                                                         std::chrono::microseconds waiting,
                                                         int scan_limit) {
  using Column = sql::columns::due_topics;
  Params params;
  params.add(std::int64_t{waiting.count()}).add(std::int32_t{scan_limit});
  const auto result = ReadSession::of(session).run(texts_, sql_.due_topics, params);
  std::vector<storage::DueTopic> topics;
  topics.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    topics.push_back(
        {.topic = result.text(row, Column::topic),
         .seen = result.integer(row, Column::seen),
         .oldest_wait = std::chrono::microseconds{result.integer(row, Column::oldest_wait)}});
  }
  return topics;
}

bool QueueOperator::has_work(storage::ReadSession& session, std::span<const std::string> topics) {
  const std::vector<std::optional<std::string_view>> named(topics.begin(), topics.end());
  Params params;
  params.add(std::span<const std::optional<std::string_view>>{named});
  return ReadSession::of(session).run(texts_, sql_.has_work, params).boolean(0, 0);
}

std::optional<StoredMessage> QueueOperator::find(storage::ReadSession& session, MessageId id) {
  Params params;
  params.add(id.uuid());
  const auto result = ReadSession::of(session).run(texts_, sql_.find, params);
  return result.rows() == 0 ? std::nullopt : std::optional{read_stored(result, 0)};
}

std::vector<StoredMessage> QueueOperator::dead_letters(storage::ReadSession& session,
                                                       const DeadLetterFilter& filter,
                                                       const DeadLetterPage& page) {
  Params params;
  params.add(core::view_of(filter.topic)).add(filter.failed_after).add(filter.failed_before);
  params.add(page.after ? std::optional{page.after->uuid()} : std::nullopt)
      .add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(
      texts_, page.newest_first ? sql_.dead_letters_newest : sql_.dead_letters, params);
  std::vector<StoredMessage> found;
  found.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) found.push_back(read_stored(result, row));
  return found;
}

DeadLetterSummary QueueOperator::dead_letter_summary(storage::ReadSession& session,
                                                     const DeadLetterFilter& filter,
                                                     const DeadLetterSummaryLimits& limits) {
  using Column = sql::columns::dead_letter_summary;
  Params params;
  params.add(core::view_of(filter.topic)).add(filter.failed_after).add(filter.failed_before);
  params.add(std::int64_t{limits.letters}).add(std::int64_t{limits.groups});
  const auto result = ReadSession::of(session).run(texts_, sql_.dead_letter_summary, params);
  DeadLetterSummary summary;
  for (int row = 0; row + 1 < result.rows(); ++row) {
    auto error = result.is_null(row, Column::last_error)
                     ? std::nullopt
                     : std::optional{result.text(row, Column::last_error)};
    summary.groups.push_back(
        {result.text(row, Column::topic), std::move(error), result.integer(row, Column::letters),
         result.time(row, Column::first_failed_at), result.time(row, Column::last_failed_at)});
  }
  summary.letters_read = result.integer(result.rows() - 1, Column::letters);
  return summary;
}

std::vector<PausedTopic> QueueOperator::paused(storage::ReadSession& session) {
  using Column = sql::columns::paused;
  const auto result = ReadSession::of(session).run(texts_, sql_.paused, {});
  std::vector<PausedTopic> paused;
  paused.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row)
    paused.push_back({result.text(row, Column::topic), result.time(row, Column::paused_at)});
  return paused;
}

}  // namespace dovetail::postgres
