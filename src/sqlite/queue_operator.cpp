#include "sqlite/queue_operator.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/text.hpp"
#include "sqlite/queue_rows.hpp"
#include "sqlite/session.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::sqlite {
namespace {

constexpr std::int64_t queue_count_limit = 100'000;

void bind_filter(Cursor& cursor, const DeadLetterFilter& filter, int most) {
  cursor.bind(core::view_of(filter.topic))
      .bind(filter.failed_after)
      .bind(filter.failed_before)
      .bind(std::int64_t{most});
}

StoredMessage read_stored(const Cursor& row) {
  StoredMessage stored;
  stored.message = read_message(row);
  stored.status = static_cast<MessageStatus>(row.integer(11));
  stored.processed_at = row.time_or_null(12);
  if (!row.is_null(13)) stored.processed_by = OwnerToken{row.uuid(13)};
  stored.last_error = row.text_or_null(14);
  stored.past_attempts = static_cast<int>(row.integer(15));
  stored.unique_key = row.text_or_null(16);
  stored.next_attempt_at = row.time_or_null(17);
  return stored;
}

}  // namespace

std::size_t QueueOperator::replay(storage::WriteSession& session,
                                  std::optional<std::span<const MessageId>> ids,
                                  const DeadLetterFilter& filter, int most) {
  auto& connection = WriteSession::of(session);
  const auto now = context_.now();
  std::vector<Uuid> back;
  const auto run = [&](Cursor& cursor) {
    while (cursor.step()) back.push_back(cursor.uuid(0));
  };
  if (!ids) {
    auto cursor = context_.run(connection, context_.sql.replay);
    bind_filter(cursor, filter, most);
    cursor.bind(now);
    run(cursor);
  } else {
    for (const auto& id : *ids) {
      auto cursor = context_.run(connection, context_.sql.replay_step_one);
      cursor.bind(id.uuid()).bind(now);
      run(cursor);
    }
  }
  context_.watchers.replayed(connection, back);
  return back.size();
}

std::size_t QueueOperator::purge_failed(storage::WriteSession& session,
                                        std::optional<std::span<const MessageId>> ids,
                                        const DeadLetterFilter& filter, int most) {
  auto& connection = WriteSession::of(session);
  if (!ids) {
    auto cursor = context_.run(connection, context_.sql.purge_failed);
    bind_filter(cursor, filter, most);
    return cursor.run();
  }
  std::size_t count = 0;
  for (const auto& id : *ids) {
    count += context_.run(connection, context_.sql.purge_failed_step_one).bind(id.uuid()).run();
  }
  return count;
}

std::size_t QueueOperator::purge_done(storage::WriteSession& session, std::chrono::microseconds age,
                                      int most) {
  auto cursor = context_.run(WriteSession::of(session), context_.sql.purge_done);
  return cursor.bind(context_.now() - age).bind(std::int64_t{most}).run();
}

bool QueueOperator::pause(storage::WriteSession& session, std::string_view topic) {
  auto cursor = context_.run(WriteSession::of(session), context_.sql.pause);
  return cursor.bind(topic).bind(context_.now()).run() == 1;
}

bool QueueOperator::resume(storage::WriteSession& session, std::string_view topic) {
  return context_.run(WriteSession::of(session), context_.sql.resume).bind(topic).run() == 1;
}

WallTime QueueOperator::now(storage::ReadSession& session) {
  auto cursor = context_.run(ReadSession::of(session), context_.sql.clock);
  cursor.bind(context_.now()).step();
  return cursor.time(0);
}

QueueCounts QueueOperator::counts(storage::ReadSession& session) {
  auto cursor = context_.run(ReadSession::of(session), context_.sql.counts);
  cursor.bind(queue_count_limit).bind(context_.now()).step();
  QueueCounts counts;
  counts.ready = cursor.integer(0);
  counts.scheduled = cursor.integer(1);
  counts.in_progress = cursor.integer(2);
  counts.done = cursor.integer(3);
  counts.failed = cursor.integer(4);
  counts.paused = cursor.integer(5);
  counts.counted_up_to = queue_count_limit;
  if (!cursor.is_null(6)) counts.oldest_due = std::chrono::microseconds{cursor.integer(6)};
  return counts;
}

std::vector<storage::DueTopic> QueueOperator::due_topics(storage::ReadSession& session,
                                                         std::chrono::microseconds waiting,
                                                         int look_at) {
  const auto now = context_.now();
  std::map<std::string, storage::DueTopic> found;
  for (int lane = storage::lowest_priority; lane <= storage::highest_priority; ++lane) {
    auto cursor = context_.run(ReadSession::of(session), context_.sql.due_topics);
    cursor.bind(std::int64_t{lane}).bind(now).bind(now - waiting).bind(std::int64_t{look_at});
    while (cursor.step()) {
      auto& topic = found[cursor.text(0)];
      topic.seen += cursor.integer(1);
      topic.oldest_wait = std::max(topic.oldest_wait, std::chrono::microseconds{cursor.integer(2)});
    }
  }
  std::vector<storage::DueTopic> topics;
  topics.reserve(found.size());
  for (auto& [name, topic] : found) {
    topic.topic = name;
    topics.push_back(std::move(topic));
  }
  return topics;
}

bool QueueOperator::has_work(storage::ReadSession& session, std::span<const std::string> topics) {
  auto& connection = ReadSession::of(session);
  return std::ranges::any_of(topics, [&](const std::string& topic) {
    auto cursor = context_.run(connection, context_.sql.has_work);
    cursor.bind(context_.now()).bind(topic).step();
    return cursor.integer(0) != 0;
  });
}

std::optional<StoredMessage> QueueOperator::find(storage::ReadSession& session, MessageId id) {
  auto cursor = context_.run(ReadSession::of(session), context_.sql.find);
  if (!cursor.bind(id.uuid()).step()) return std::nullopt;
  return read_stored(cursor);
}

std::vector<StoredMessage> QueueOperator::dead_letters(storage::ReadSession& session,
                                                       const DeadLetterFilter& filter,
                                                       const DeadLetterPage& page) {
  auto cursor =
      context_.run(ReadSession::of(session), page.newest_first ? context_.sql.dead_letters_newest
                                                               : context_.sql.dead_letters);
  cursor.bind(core::view_of(filter.topic))
      .bind(filter.failed_after)
      .bind(filter.failed_before)
      .bind(page.after ? std::optional{page.after->uuid()} : std::nullopt)
      .bind(std::int64_t{page.size});
  std::vector<StoredMessage> found;
  while (cursor.step()) found.push_back(read_stored(cursor));
  return found;
}

DeadLetterSummary QueueOperator::dead_letter_summary(storage::ReadSession& session,
                                                     const DeadLetterFilter& filter,
                                                     const DeadLetterSummaryLimits& limits) {
  auto cursor = context_.run(ReadSession::of(session), context_.sql.dead_letter_summary);
  cursor.bind(core::view_of(filter.topic))
      .bind(filter.failed_after)
      .bind(filter.failed_before)
      .bind(std::int64_t{limits.letters})
      .bind(std::int64_t{limits.groups});
  DeadLetterSummary summary;
  while (cursor.step()) {
    if (cursor.is_null(0)) {
      summary.letters_read = cursor.integer(2);
      continue;
    }
    auto error = cursor.is_null(1) ? std::nullopt : std::optional{cursor.text(1)};
    summary.groups.push_back(
        {cursor.text(0), std::move(error), cursor.integer(2), cursor.time(3), cursor.time(4)});
  }
  return summary;
}

std::vector<PausedTopic> QueueOperator::paused(storage::ReadSession& session) {
  auto cursor = context_.run(ReadSession::of(session), context_.sql.paused);
  std::vector<PausedTopic> paused;
  while (cursor.step()) paused.push_back({cursor.text(0), cursor.time(1)});
  return paused;
}

}  // namespace dovetail::sqlite
