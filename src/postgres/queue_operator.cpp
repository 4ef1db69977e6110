#include "postgres/queue_operator.hpp"

#include "core/text.hpp"
#include "postgres/queue_rows.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::int64_t queue_count_limit = 100'000;

void add_ids(Params& params, std::optional<std::span<const MessageId>> ids) {
  if (!ids) {
    params.add(nullptr);
    return;
  }
  std::vector<Uuid> uuids;
  for (const auto& id : *ids) uuids.push_back(id.uuid());
  params.add(std::span<const Uuid>{uuids});
}

/// Which dead letters are meant.
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
  StoredMessage stored;
  stored.message = read_message(result, row);
  stored.status = static_cast<MessageStatus>(result.integer(row, 11));
  stored.processed_at = result.time_or_null(row, 12);
  if (!result.is_null(row, 13)) stored.processed_by = OwnerToken{result.uuid(row, 13)};
  stored.last_error = result.text_or_null(row, 14);
  stored.past_attempts = static_cast<int>(result.integer(row, 15));
  stored.unique_key = result.text_or_null(row, 16);
  stored.next_attempt_at = result.time_or_null(row, 17);
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

QueueCounts QueueOperator::counts(storage::ReadSession& session) {
  Params params;
  params.add(queue_count_limit);
  const auto result = ReadSession::of(session).run(texts_, sql_.counts, params);
  QueueCounts counts;
  counts.ready = result.integer(0, 0);
  counts.scheduled = result.integer(0, 1);
  counts.in_progress = result.integer(0, 2);
  counts.done = result.integer(0, 3);
  counts.failed = result.integer(0, 4);
  counts.paused = result.integer(0, 5);
  counts.counted_up_to = queue_count_limit;
  if (!result.is_null(0, 6)) counts.oldest_due = std::chrono::microseconds{result.integer(0, 6)};
  return counts;
}

std::vector<storage::DueTopic> QueueOperator::due_topics(storage::ReadSession& session,
                                                         std::chrono::microseconds waiting,
                                                         int look_at) {
  Params params;
  params.add(std::int64_t{waiting.count()}).add(std::int32_t{look_at});
  const auto result = ReadSession::of(session).run(texts_, sql_.due_topics, params);
  std::vector<storage::DueTopic> topics;
  topics.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    topics.push_back({.topic = result.text(row, 0),
                      .seen = result.integer(row, 1),
                      .oldest_wait = std::chrono::microseconds{result.integer(row, 2)}});
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
  Params params;
  params.add(core::view_of(filter.topic)).add(filter.failed_after).add(filter.failed_before);
  params.add(std::int64_t{limits.letters}).add(std::int64_t{limits.groups});
  const auto result = ReadSession::of(session).run(texts_, sql_.dead_letter_summary, params);
  DeadLetterSummary summary;
  for (int row = 0; row + 1 < result.rows(); ++row) {
    auto error = result.is_null(row, 1) ? std::nullopt : std::optional{result.text(row, 1)};
    summary.groups.push_back({result.text(row, 0), std::move(error), result.integer(row, 2),
                              result.time(row, 3), result.time(row, 4)});
  }
  summary.letters_read = result.integer(result.rows() - 1, 2);
  return summary;
}

std::vector<PausedTopic> QueueOperator::paused(storage::ReadSession& session) {
  const auto result = ReadSession::of(session).run(texts_, sql_.paused, {});
  std::vector<PausedTopic> paused;
  paused.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row)
    paused.push_back({result.text(row, 0), result.time(row, 1)});
  return paused;
}

}  // namespace dovetail::postgres
