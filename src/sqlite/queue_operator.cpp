#include "sqlite/queue_operator.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/text.hpp"
#include "sqlite/queue_rows.hpp"
#include "sqlite/queue_streams.hpp"
#include "sqlite/session.hpp"
#include "storage/failures.hpp"
#include "storage/queue_consumer.hpp"

namespace dovetail::sqlite {
namespace {

/// A message of priority p that makes its stream claimable has the lane p + 20.
constexpr int ticket_lanes = 20;

void bind_filter(Cursor& cursor, const DeadLetterFilter& filter, int most) {
  cursor.bind(core::view_of(filter.topic))
      .bind(filter.failed_after)
      .bind(filter.failed_before)
      .bind(std::int64_t{most});
}

StoredMessage read_stored(const Cursor& row) {
  using Column = sql::columns::find;
  StoredMessage stored;
  stored.message = read_message<Column>(row);
  stored.status = static_cast<MessageStatus>(row.integer(Column::status));
  stored.processed_at = row.time_or_null(Column::processed_at);
  if (!row.is_null(Column::processed_by))
    stored.processed_by = OwnerToken{row.uuid(Column::processed_by)};
  stored.last_error = row.text_or_null(Column::last_error);
  stored.failures = storage::failures_of(row.text_or_null(Column::failures), stored.last_error);
  stored.past_attempts = static_cast<int>(row.integer(Column::past_attempts));
  stored.unique_key = row.text_or_null(Column::unique_key);
  stored.next_attempt_at = row.time_or_null(Column::next_attempt_at);
  stored.message.stream = row.text_or_null(Column::stream);
  return stored;
}

}  // namespace

std::size_t QueueOperator::replay(storage::WriteSession& session,
                                  std::optional<std::span<const MessageId>> ids,
                                  const DeadLetterFilter& filter, int most) {
  auto& connection = WriteSession::of(session);
  const auto now = context_.now();
  std::vector<Uuid> back;
  std::vector<std::pair<Uuid, std::string>> of_streams;
  const auto run = [&](Cursor& cursor) {
    while (cursor.step()) {
      back.push_back(cursor.uuid(0));
      if (!cursor.is_null(1)) of_streams.emplace_back(cursor.uuid(0), cursor.text(1));
    }
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
  QueueStreams streams{context_, connection};
  for (const auto& [id, stream] : of_streams) {
    context_.run(connection, context_.sql.replay_step_tail).bind(id).run();
    streams.ticket(stream);
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

QueueCounts QueueOperator::counts(storage::ReadSession& session, std::int64_t up_to) {
  using Column = sql::columns::counts;
  auto cursor = context_.run(ReadSession::of(session), context_.sql.counts);
  cursor.bind(up_to).bind(context_.now()).step();
  QueueCounts counts;
  counts.ready = cursor.integer(Column::ready);
  counts.scheduled = cursor.integer(Column::scheduled);
  counts.in_progress = cursor.integer(Column::in_progress);
  counts.done = cursor.integer(Column::done);
  counts.failed = cursor.integer(Column::failed);
  counts.paused = cursor.integer(Column::paused);
  counts.counted_up_to = up_to;
  if (!cursor.is_null(Column::oldest_due))
    counts.oldest_due = std::chrono::microseconds{cursor.integer(Column::oldest_due)};
  return counts;
}

std::vector<storage::DueTopic> QueueOperator::due_topics(storage::ReadSession& session,
                                                         std::chrono::microseconds waiting,
                                                         int scan_limit) {
  using Column = sql::columns::due_topics;
  const auto now = context_.now();
  std::map<std::string, storage::DueTopic> found;
  for (int lane = storage::lowest_priority; lane <= ticket_lanes + storage::highest_priority;
       lane +=
       lane == storage::highest_priority ? ticket_lanes - 2 * storage::highest_priority : 1) {
    auto cursor = context_.run(ReadSession::of(session), context_.sql.due_topics);
    cursor.bind(std::int64_t{lane}).bind(now).bind(now - waiting).bind(std::int64_t{scan_limit});
    while (cursor.step()) {
      auto& topic = found[cursor.text(Column::topic)];
      topic.seen += cursor.integer(Column::seen);
      topic.oldest_wait = std::max(topic.oldest_wait,
                                   std::chrono::microseconds{cursor.integer(Column::oldest_wait)});
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
  using Column = sql::columns::dead_letter_summary;
  auto cursor = context_.run(ReadSession::of(session), context_.sql.dead_letter_summary);
  cursor.bind(core::view_of(filter.topic))
      .bind(filter.failed_after)
      .bind(filter.failed_before)
      .bind(std::int64_t{limits.letters})
      .bind(std::int64_t{limits.groups});
  DeadLetterSummary summary;
  while (cursor.step()) {
    if (cursor.is_null(Column::topic)) {
      summary.letters_read = cursor.integer(Column::letters);
      continue;
    }
    auto error = cursor.is_null(Column::last_error)
                     ? std::nullopt
                     : std::optional{cursor.text(Column::last_error)};
    summary.groups.push_back({cursor.text(Column::topic), std::move(error),
                              cursor.integer(Column::letters), cursor.time(Column::first_failed_at),
                              cursor.time(Column::last_failed_at)});
  }
  return summary;
}

std::vector<PausedTopic> QueueOperator::paused(storage::ReadSession& session) {
  using Column = sql::columns::paused;
  auto cursor = context_.run(ReadSession::of(session), context_.sql.paused);
  std::vector<PausedTopic> paused;
  while (cursor.step())
    paused.push_back({cursor.text(Column::topic), cursor.time(Column::paused_at)});
  return paused;
}

}  // namespace dovetail::sqlite
