#include "sqlite/inbox_store.hpp"

#include <array>

#include "core/text.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {
namespace {

constexpr std::int64_t count_limit = 100'000;

std::optional<std::string_view> text_or_null(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional{text};
}

std::optional<std::span<const std::byte>> hash_or_null(ContentHash hash) {
  return hash.empty() ? std::nullopt : std::optional{hash};
}

void bind_filter(Cursor& cursor, const InboxDeadLetterFilter& filter) {
  cursor.bind(core::view_of(filter.source))
      .bind(core::view_of(filter.message_id))
      .bind(core::view_of(filter.topic))
      .bind(filter.failed_after)
      .bind(filter.failed_before);
}

void bind_begun(Cursor& cursor, const storage::InboxKey& key, const storage::InboxFence& fence,
                WallTime now) {
  cursor.bind(key.source).bind(key.message_id).bind(now).bind(fence.owner.uuid()).bind(fence.epoch);
}

InboxEntry read_entry(const Cursor& row) {
  using Column = sql::columns::inbox_guard_find;
  InboxEntry entry;
  entry.source = row.text(Column::source);
  entry.message_id = row.text(Column::message_id);
  if (!row.is_null(Column::hash)) {
    entry.hash = std::get<Bytes>(row.value(Column::hash));
  }
  entry.status = storage::inbox_status_of(row.text(Column::status));
  entry.first_seen_at = row.time(Column::first_seen_at);
  entry.last_seen_at = row.time(Column::last_seen_at);
  entry.processed_at = row.time_or_null(Column::processed_at);
  entry.sightings = row.integer(Column::sightings);
  entry.attempts = static_cast<int>(row.integer(Column::attempts));
  entry.last_error = row.text_or_null(Column::last_error);
  entry.topic = row.text_or_null(Column::topic);
  if (!row.is_null(Column::item_id)) entry.id = MessageId{row.uuid(Column::item_id)};
  entry.lease_until = row.time_or_null(Column::lease_until);
  return entry;
}

std::vector<InboxEntry> read_entries(Cursor& cursor) {
  std::vector<InboxEntry> entries;
  while (cursor.step()) entries.push_back(read_entry(cursor));
  return entries;
}

}  // namespace

/// The row of a message, after this sighting.
struct InboxStore::Seen {
  InboxStatus status;
  bool hash_matches;
  std::int64_t epoch;
  int attempts;
  std::optional<WallTime> lease_until;
  std::optional<Uuid> owner;
  std::optional<Uuid> item;
  bool by_process;

  /// True if no attempt has begun, or if the lease of the attempt has expired.
  [[nodiscard]] bool is_free(WallTime now) const {
    return status == InboxStatus::seen ||
           (status == InboxStatus::processing && (!lease_until || *lease_until <= now));
  }
};

struct InboxStore::DeadRow {
  std::string source;
  std::string message_id;
  std::optional<Uuid> item;
};

// --- the guard

InboxStore::Seen InboxStore::note(Connection& connection, const storage::InboxKey& key,
                                  ContentHash hash, WallTime now, bool counts) {
  using Column = sql::columns::inbox_see;
  auto cursor = connection.run(texts_, sql::inbox_see);
  cursor.bind(key.source)
      .bind(key.message_id)
      .bind(hash_or_null(hash))
      .bind(now)
      .bind(std::int64_t{counts})
      .step();
  return {.status = static_cast<InboxStatus>(cursor.integer(Column::status)),
          .hash_matches = cursor.integer(Column::matches) != 0,
          .epoch = cursor.integer(Column::claim_epoch),
          .attempts = static_cast<int>(cursor.integer(Column::attempts)),
          .lease_until = cursor.time_or_null(Column::lease_until),
          .owner = cursor.is_null(Column::owner_token)
                       ? std::nullopt
                       : std::optional{cursor.uuid(Column::owner_token)},
          .item = cursor.is_null(Column::item_id) ? std::nullopt
                                                  : std::optional{cursor.uuid(Column::item_id)},
          .by_process = cursor.integer(Column::by_process) != 0};
}

storage::Sighting InboxStore::record_sighting(storage::WriteSession& session,
                                              const storage::InboxKey& key, ContentHash hash) {
  const auto seen = note(WriteSession::of(session), key, hash, clock_->wall());
  return {seen.status, seen.hash_matches};
}

storage::BeginAnswer InboxStore::try_begin(storage::WriteSession& session,
                                           const storage::InboxKey& key,
                                           const storage::BeginOrder& order) {
  using Column = sql::columns::inbox_try_begin;
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  const auto seen = note(connection, key, order.hash, now, order.counts);
  storage::BeginAnswer answer{.epoch = seen.epoch,
                              .attempts = seen.attempts,
                              .mine = seen.owner == std::optional{order.owner.uuid()}};
  if (!seen.hash_matches) {
    answer.outcome = BeginOutcome::hash_mismatch;
  } else if (seen.status == InboxStatus::processed || seen.status == InboxStatus::dead_letter) {
    answer.outcome = seen.status == InboxStatus::dead_letter ? BeginOutcome::dead_letter
                                                             : BeginOutcome::processed;
  } else if (!seen.is_free(now)) {
    const bool still_mine = seen.status == InboxStatus::processing && answer.mine;
    answer.outcome = still_mine ? BeginOutcome::started : BeginOutcome::in_progress;
    answer.lease_until = seen.lease_until.value_or(WallTime{});
    answer.by_process = seen.status == InboxStatus::processing && seen.by_process;
  } else if (seen.status == InboxStatus::processing && seen.attempts >= order.max_attempts) {
    auto cursor = connection.run(texts_, sql::inbox_try_begin_step_give_up);
    cursor.bind(key.source).bind(key.message_id).bind(now).run();
    answer.outcome = BeginOutcome::dead_letter;
    answer.gave_up = true;
  } else {
    auto cursor = connection.run(texts_, sql::inbox_try_begin);
    cursor.bind(key.source)
        .bind(key.message_id)
        .bind(order.owner.uuid())
        .bind(now + order.lease)
        .bind(std::int64_t{order.by_process})
        .step();
    answer = {.outcome = BeginOutcome::started,
              .epoch = cursor.integer(Column::claim_epoch),
              .attempts = static_cast<int>(cursor.integer(Column::attempts)),
              .lease_until = now + order.lease,
              .mine = true};
  }
  return answer;
}

bool InboxStore::continue_try(storage::WriteSession& session, const storage::InboxKey& key,
                              const storage::InboxFence& fence, std::chrono::microseconds lease) {
  const auto now = clock_->wall();
  auto cursor = WriteSession::of(session).run(texts_, sql::inbox_continue_try);
  bind_begun(cursor, key, fence, now);
  return cursor.bind(now + lease).run() == 1;
}

std::optional<InboxStatus> InboxStore::mark_processing(storage::WriteSession& session,
                                                       const storage::InboxKey& key,
                                                       std::chrono::microseconds lease,
                                                       int max_attempts) {
  const auto now = clock_->wall();
  auto cursor = WriteSession::of(session).run(texts_, sql::inbox_mark_processing);
  cursor.bind(key.source).bind(key.message_id).bind(now).bind(now + lease);
  if (!cursor.bind(std::int64_t{max_attempts}).step()) return std::nullopt;
  return static_cast<InboxStatus>(cursor.integer(0));
}

bool InboxStore::mark_processed(storage::WriteSession& session, const storage::InboxKey& key,
                                const std::optional<storage::InboxFence>& fence) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  if (!fence) {
    auto cursor = connection.run(texts_, sql::inbox_mark_processed);
    return cursor.bind(key.source).bind(key.message_id).bind(now).run() == 1;
  }
  auto cursor = connection.run(texts_, sql::inbox_mark_processed_step_begun);
  bind_begun(cursor, key, *fence, now);
  return cursor.run() == 1;
}

bool InboxStore::mark_dead(storage::WriteSession& session, const storage::InboxKey& key,
                           const std::optional<storage::InboxFence>& fence,
                           std::string_view reason) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  if (!fence) {
    auto cursor = connection.run(texts_, sql::inbox_mark_dead);
    return cursor.bind(key.source)
               .bind(key.message_id)
               .bind(now)
               .bind(text_or_null(reason))
               .run() == 1;
  }
  auto cursor = connection.run(texts_, sql::inbox_mark_dead_step_begun);
  bind_begun(cursor, key, *fence, now);
  return cursor.bind(text_or_null(reason)).run() == 1;
}

bool InboxStore::is_marked(storage::WriteSession& session, const storage::InboxKey& key,
                           InboxStatus status, const std::optional<storage::InboxFence>& fence) {
  auto cursor = WriteSession::of(session).run(texts_, sql::inbox_is_marked);
  cursor.bind(key.source)
      .bind(key.message_id)
      .bind(static_cast<std::int64_t>(status))
      .bind(fence ? std::optional{fence->owner.uuid()} : std::nullopt)
      .bind(fence ? std::optional{fence->epoch} : std::nullopt)
      .step();
  return cursor.integer(0) != 0;
}

bool InboxStore::release(storage::WriteSession& session, const storage::InboxKey& key,
                         const storage::InboxFence& fence, std::string_view error, int charge) {
  auto cursor = WriteSession::of(session).run(texts_, sql::inbox_release);
  bind_begun(cursor, key, fence, clock_->wall());
  return cursor.bind(text_or_null(error)).bind(std::int64_t{charge}).run() == 1;
}

std::optional<WallTime> InboxStore::renew(storage::WriteSession& session,
                                          const storage::InboxKey& key,
                                          const storage::InboxFence& fence,
                                          std::chrono::microseconds lease) {
  const auto now = clock_->wall();
  auto cursor = WriteSession::of(session).run(texts_, sql::inbox_renew_ticket);
  bind_begun(cursor, key, fence, now);
  cursor.bind(now + lease);
  return cursor.step() ? std::optional{cursor.time(0)} : std::nullopt;
}

// --- the queue

InboxEnqueued InboxStore::receive_one(storage::WriteSession& session,
                                      const storage::InboxArrival& arrival, WallTime now) {
  auto& connection = WriteSession::of(session);
  const auto seen = note(connection, arrival.key, arrival.hash, now);
  InboxEnqueued answer;
  if (seen.item) answer.id = MessageId{*seen.item};
  if (!seen.hash_matches) {
    answer.outcome = InboxEnqueueOutcome::hash_mismatch;
  } else if (seen.is_free(now)) {
    answer.id = queue_.producer.enqueue(session, arrival.message);
    auto cursor = connection.run(texts_, sql::inbox_receive);
    cursor.bind(arrival.key.source)
        .bind(arrival.key.message_id)
        .bind(arrival.message.id.uuid())
        .run();
  } else if (answer.id != std::optional{arrival.message.id}) {
    answer.outcome = InboxEnqueueOutcome::duplicate;
  }
  return answer;
}

std::vector<InboxEnqueued> InboxStore::receive(storage::WriteSession& session,
                                               std::span<const storage::InboxArrival> arrivals) {
  const auto now = clock_->wall();
  std::vector<InboxEnqueued> answers;
  answers.reserve(arrivals.size());
  for (const auto& arrival : arrivals) answers.push_back(receive_one(session, arrival, now));
  return answers;
}

// --- operating

std::vector<InboxStore::DeadRow> InboxStore::dead_rows(Connection& connection,
                                                       const storage::Statement& statement,
                                                       const InboxDeadLetterFilter& filter,
                                                       int most) {
  using Column = sql::columns::inbox_replay_dead_letters;
  std::vector<DeadRow> rows;
  auto cursor = connection.run(texts_, statement);
  bind_filter(cursor, filter);
  cursor.bind(std::int64_t{most});
  while (cursor.step()) {
    rows.push_back({cursor.text(Column::source), cursor.text(Column::message_id),
                    cursor.is_null(Column::item_id) ? std::nullopt
                                                    : std::optional{cursor.uuid(Column::item_id)}});
  }
  return rows;
}

std::size_t InboxStore::replay(storage::WriteSession& session, const InboxDeadLetterFilter& filter,
                               const ReplayOptions& options, int most) {
  auto& connection = WriteSession::of(session);
  const std::int64_t delay = std::chrono::microseconds{options.delay}.count();
  const auto reason = text_or_null(options.reason);
  std::size_t count = 0;
  for (const auto& row : dead_rows(connection, sql::inbox_replay_dead_letters, filter, most)) {
    if (row.item) {
      const std::array ids{MessageId{*row.item}};
      count += queue_.operations.replay(session, ids, {}, 1);
      if (!reason && delay == 0) continue;
      connection.run(texts_, sql::inbox_replay_dead_letters_step_postpone)
          .bind(*row.item)
          .bind(delay)
          .bind(reason)
          .run();
    } else {
      auto cursor = connection.run(texts_, sql::inbox_replay_dead_letters_step_one);
      count += cursor.bind(row.source).bind(row.message_id).bind(reason).run();
    }
  }
  return count;
}

std::size_t InboxStore::purge_dead_letters(storage::WriteSession& session,
                                           const InboxDeadLetterFilter& filter, int most) {
  auto& connection = WriteSession::of(session);
  std::size_t count = 0;
  for (const auto& row : dead_rows(connection, sql::inbox_purge_dead_letters, filter, most)) {
    if (row.item) {
      const std::array ids{MessageId{*row.item}};
      queue_.operations.purge_failed(session, ids, {}, 1);
    }
    count += connection.run(texts_, sql::inbox_purge_dead_letters_step_one)
                 .bind(row.source)
                 .bind(row.message_id)
                 .run();
  }
  return count;
}

std::size_t InboxStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                              int most) {
  auto& connection = WriteSession::of(session);
  const auto before = clock_->wall() - age;
  auto count =
      connection.run(texts_, sql::inbox_purge_old).bind(before).bind(std::int64_t{most}).run();
  for (const auto* rest : {&sql::inbox_purge_old_step_dead, &sql::inbox_purge_old_step_open}) {
    const auto left = most - static_cast<std::int64_t>(count);
    if (left > 0) count += connection.run(texts_, *rest).bind(before).bind(left).run();
  }
  return count;
}

std::optional<InboxEntry> InboxStore::find(storage::ReadSession& session,
                                           const storage::InboxKey& key) {
  auto cursor = ReadSession::of(session).run(texts_, sql::inbox_guard_find);
  if (!cursor.bind(key.source).bind(key.message_id).step()) return std::nullopt;
  return read_entry(cursor);
}

std::vector<InboxEntry> InboxStore::dead_letters(storage::ReadSession& session,
                                                 const InboxDeadLetterFilter& filter,
                                                 const InboxPage& page) {
  auto cursor = ReadSession::of(session).run(texts_, sql::inbox_list_dead_letters);
  bind_filter(cursor, filter);
  cursor.bind(core::view_of(page.after_source))
      .bind(std::string_view{page.after_message_id})
      .bind(std::int64_t{page.size});
  return read_entries(cursor);
}

std::vector<InboxEntry> InboxStore::stuck(storage::ReadSession& session,
                                          std::chrono::microseconds overdue, int most) {
  auto cursor = ReadSession::of(session).run(texts_, sql::inbox_list_stuck);
  cursor.bind(clock_->wall() - overdue).bind(std::int64_t{most});
  return read_entries(cursor);
}

InboxCounts InboxStore::counts(storage::ReadSession& session) {
  using Column = sql::columns::inbox_guard_counts;
  auto cursor = ReadSession::of(session).run(texts_, sql::inbox_guard_counts);
  cursor.bind(count_limit).bind(clock_->wall()).step();
  InboxCounts counts;
  counts.seen = cursor.integer(Column::seen);
  counts.processing = cursor.integer(Column::processing);
  counts.overdue = cursor.integer(Column::overdue);
  counts.processed = cursor.integer(Column::processed);
  counts.dead_letters = cursor.integer(Column::dead_letters);
  counts.counted_up_to = count_limit;
  return counts;
}

}  // namespace dovetail::sqlite
