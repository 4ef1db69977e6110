#include "sqlite/fanout_store.hpp"

#include "core/text.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {
namespace {

using std::chrono::milliseconds;

/// A slice that is due, and its message.
struct DueSlice {
  FanoutSlice slice;
  milliseconds settle;
  std::optional<Uuid> replaced;
  MessageId message = MessageId::generate();
  std::string topic = fanout_topic(slice.topic, slice.work_key);
  std::string payload = storage::slice_payload(slice, settle);
};

std::optional<milliseconds> duration_or_null(const Cursor& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional{milliseconds{row.integer(column)}};
}

FanoutPolicy read_policy(const Cursor& row) {
  using Column = sql::columns::fanout_policies;
  return {.topic = row.text(Column::topic),
          .work_key = row.text_or_null(Column::work_key),
          .every = milliseconds{row.integer(Column::every)},
          .jitter = milliseconds{row.integer(Column::jitter)},
          .default_every = duration_or_null(row, Column::default_every),
          .default_jitter = duration_or_null(row, Column::default_jitter),
          .settle = milliseconds{row.integer(Column::settle)},
          .set_by_operator = row.integer(Column::set_by_operator) != 0,
          .job = row.text_or_null(Column::job),
          .created_at = row.time(Column::created_at),
          .updated_at = row.time(Column::updated_at)};
}

FanoutCursor read_cursor(const Cursor& row) {
  using Column = sql::columns::fanout_cursors;
  FanoutCursor cursor{.topic = row.text(Column::topic),
                      .work_key = row.text(Column::work_key),
                      .shard_key = row.text(Column::shard_key),
                      .last_completed_at = row.time_or_null(Column::last_completed_at),
                      .status = storage::fanout_status_of(row.text(Column::status)),
                      .enqueued_at = row.time_or_null(Column::enqueued_at),
                      .last_error = row.text_or_null(Column::last_error),
                      .created_at = row.time(Column::created_at),
                      .updated_at = row.time(Column::updated_at)};
  if (!row.is_null(Column::message_id)) cursor.message_id = MessageId{row.uuid(Column::message_id)};
  return cursor;
}

Cursor& bind_slice(Cursor& cursor, const FanoutSlice& slice) {
  return cursor.bind(std::string_view{slice.topic})
      .bind(std::string_view{slice.work_key})
      .bind(std::string_view{slice.shard_key});
}

}  // namespace

// --- cadences

void FanoutStore::register_policy(storage::WriteSession& session,
                                  const storage::NewFanoutPolicy& policy) {
  WriteSession::of(session)
      .run(texts_, sql::fanout_register)
      .bind(policy.key.topic)
      .bind(policy.key.work_key)
      .bind(std::int64_t{policy.every.count()})
      .bind(std::int64_t{policy.jitter.count()})
      .bind(policy.job)
      .bind(clock_->wall())
      .bind(std::int64_t{policy.settle.count()})
      .run();
}

bool FanoutStore::set_cadence(storage::WriteSession& session, const storage::FanoutKey& key,
                              milliseconds every, std::optional<milliseconds> jitter) {
  return WriteSession::of(session)
             .run(texts_, sql::fanout_set_cadence)
             .bind(key.topic)
             .bind(key.work_key)
             .bind(std::int64_t{every.count()})
             .bind(jitter ? std::optional{std::int64_t{jitter->count()}} : std::nullopt)
             .bind(clock_->wall())
             .run() == 1;
}

bool FanoutStore::reset_cadence(storage::WriteSession& session, const storage::FanoutKey& key) {
  auto& connection = WriteSession::of(session);
  const auto deleted = connection.run(texts_, sql::fanout_reset_cadence_step_unregistered)
                           .bind(key.topic)
                           .bind(key.work_key)
                           .run();
  const auto reset = connection.run(texts_, sql::fanout_reset_cadence)
                         .bind(key.topic)
                         .bind(key.work_key)
                         .bind(clock_->wall())
                         .run();
  return deleted + reset == 1;
}

bool FanoutStore::remove(storage::WriteSession& session, const storage::FanoutKey& key) {
  return WriteSession::of(session)
             .run(texts_, sql::fanout_remove)
             .bind(key.topic)
             .bind(key.work_key)
             .run() == 1;
}

std::vector<FanoutPolicy> FanoutStore::policies(storage::ReadSession& session,
                                                std::optional<std::string_view> topic) {
  auto cursor = ReadSession::of(session).run(texts_, sql::fanout_policies);
  cursor.bind(topic);
  std::vector<FanoutPolicy> policies;
  while (cursor.step()) policies.push_back(read_policy(cursor));
  return policies;
}

// --- slices

std::vector<storage::EnqueuedSlice> FanoutStore::plan(storage::WriteSession& session,
                                                      std::string_view topic,
                                                      std::span<const FanoutCandidate> candidates) {
  using Column = sql::columns::fanout_plan;
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  const auto json = storage::candidates_json(topic, candidates);
  std::vector<DueSlice> due;
  {
    auto cursor = connection.run(texts_, sql::fanout_plan);
    cursor.bind(topic).bind(std::string_view{json}).bind(now);
    while (cursor.step()) {
      due.push_back({.slice = {.topic = std::string{topic},
                               .work_key = cursor.text(Column::work_key),
                               .shard_key = cursor.text(Column::shard_key),
                               .window_start = cursor.time_or_null(Column::last_completed_at)},
                     .settle = milliseconds{cursor.integer(Column::settle)},
                     .replaced = cursor.is_null(Column::replaced_id)
                                     ? std::nullopt
                                     : std::optional{cursor.uuid(Column::replaced_id)}});
    }
  }
  std::vector<storage::NewMessage> messages;
  std::vector<storage::EnqueuedSlice> slices;
  messages.reserve(due.size());
  slices.reserve(due.size());
  for (const auto& each : due) {
    auto cursor = connection.run(texts_, sql::fanout_plan_step_take);
    bind_slice(cursor, each.slice).bind(now).bind(each.message.uuid()).bind(each.replaced).run();
    storage::NewMessage message{};
    message.id = each.message;
    message.topic = each.topic;
    message.payload = each.payload;
    messages.push_back(std::move(message));
    slices.push_back({each.message, each.replaced.has_value()});
  }
  if (!messages.empty()) outbox_.enqueue_many(session, messages, false);
  return slices;
}

bool FanoutStore::mark_completed(storage::WriteSession& session, const FanoutSlice& slice) {
  auto& connection = WriteSession::of(session);
  const auto now = clock_->wall();
  {
    auto cursor = connection.run(texts_, sql::fanout_mark_completed);
    bind_slice(cursor, slice).bind(slice.window_start).bind(slice.window_end).bind(now);
    if (cursor.run() == 1) return true;
  }
  if (slice.window_start) return false;
  auto cursor = connection.run(texts_, sql::fanout_mark_completed_step_first);
  return bind_slice(cursor, slice).bind(slice.window_end).bind(now).run() == 1;
}

std::size_t FanoutStore::purge(storage::WriteSession& session, storage::FanoutPurge& part) {
  using Column = sql::columns::fanout_purge_step_page;
  auto& connection = WriteSession::of(session);
  std::optional<std::string> work_key;
  std::string shard_key;
  {
    auto end = connection.run(texts_, sql::fanout_purge_step_page);
    end.bind(part.topic)
        .bind(part.work_key)
        .bind(std::string_view{part.after_work_key})
        .bind(std::string_view{part.after_shard_key})
        .bind(static_cast<std::int64_t>(part.page));
    if (end.step()) {
      work_key = end.text(Column::work_key);
      shard_key = end.text(Column::shard_key);
    }
  }
  const auto deleted = connection.run(texts_, sql::fanout_purge)
                           .bind(part.topic)
                           .bind(part.work_key)
                           .bind(std::string_view{part.after_work_key})
                           .bind(std::string_view{part.after_shard_key})
                           .bind(core::view_of(work_key))
                           .bind(std::string_view{shard_key})
                           .bind(std::chrono::microseconds{part.age}.count())
                           .bind(clock_->wall())
                           .run();
  if (!work_key) part.page = 0;
  part.after_work_key = work_key.value_or("");
  part.after_shard_key = shard_key;
  return static_cast<std::size_t>(deleted);
}

std::optional<WallTime> FanoutStore::last_completed(storage::ReadSession& session,
                                                    const FanoutSlice& slice) {
  using Column = sql::columns::fanout_last_completed;
  auto cursor = ReadSession::of(session).run(texts_, sql::fanout_last_completed);
  return bind_slice(cursor, slice).step() ? cursor.time_or_null(Column::last_completed_at)
                                          : std::nullopt;
}

std::vector<FanoutCursor> FanoutStore::cursors(storage::ReadSession& session,
                                               std::string_view topic,
                                               const FanoutCursorPage& page) {
  auto cursor = ReadSession::of(session).run(texts_, sql::fanout_cursors);
  cursor.bind(topic)
      .bind(core::view_of(page.work_key))
      .bind(core::view_of(page.after_work_key))
      .bind(std::string_view{page.after_shard_key})
      .bind(std::int64_t{page.size});
  std::vector<FanoutCursor> cursors;
  while (cursor.step()) cursors.push_back(read_cursor(cursor));
  return cursors;
}

}  // namespace dovetail::sqlite
