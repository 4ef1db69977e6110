#include "postgres/fanout_store.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "postgres/session.hpp"
#include "postgres/sql.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::postgres {
namespace {

using std::chrono::milliseconds;

Params fanout_key_params(const storage::FanoutKey& key) {
  Params params;
  params.add(key.topic).add(key.work_key);
  return params;
}

Params slice_params(const FanoutSlice& slice) {
  Params params;
  params.add(std::string_view{slice.topic})
      .add(std::string_view{slice.work_key})
      .add(std::string_view{slice.shard_key});
  return params;
}

/// The work keys: a single one if all candidates have the same.
void add_work_keys(Params& params, std::span<const FanoutCandidate> candidates) {
  using Text = std::optional<std::string_view>;
  const auto& first = candidates.front().work_key;
  const bool same = std::ranges::all_of(
      candidates, [&](const FanoutCandidate& each) { return each.work_key == first; });
  std::vector<Text> keys;
  keys.reserve(candidates.size());
  for (const auto& each : candidates.first(same ? 1 : candidates.size()))
    keys.emplace_back(each.work_key);
  params.add(std::span<const Text>{keys});
}

Params plan_params(std::string_view topic, std::span<const FanoutCandidate> candidates) {
  using Text = std::optional<std::string_view>;
  std::vector<Text> shards;
  std::vector<Uuid> ids;
  shards.reserve(candidates.size());
  ids.reserve(candidates.size());
  for (const auto& each : candidates) {
    shards.emplace_back(each.shard_key);
    ids.push_back(MessageId::generate().uuid());
  }
  Params params;
  params.add(topic).add(std::span<const Text>{shards});
  add_work_keys(params, candidates);
  params.add(std::span<const Uuid>{ids});
  return params;
}

std::optional<milliseconds> duration_or_null(const Result& result, int row, int column) {
  return result.is_null(row, column) ? std::nullopt
                                     : std::optional{milliseconds{result.integer(row, column)}};
}

FanoutPolicy read_policy(const Result& result, int row) {
  using Column = sql::columns::fanout_policies;
  return {.topic = result.text(row, Column::topic),
          .work_key = result.text_or_null(row, Column::work_key),
          .every = milliseconds{result.integer(row, Column::every)},
          .jitter = milliseconds{result.integer(row, Column::jitter)},
          .default_every = duration_or_null(result, row, Column::default_every),
          .default_jitter = duration_or_null(result, row, Column::default_jitter),
          .settle = milliseconds{result.integer(row, Column::settle)},
          .set_by_operator = result.boolean(row, Column::set_by_operator),
          .job = result.text_or_null(row, Column::job),
          .created_at = result.time(row, Column::created_at),
          .updated_at = result.time(row, Column::updated_at)};
}

FanoutCursor read_cursor(const Result& result, int row) {
  using Column = sql::columns::fanout_cursors;
  FanoutCursor cursor{.topic = result.text(row, Column::topic),
                      .work_key = result.text(row, Column::work_key),
                      .shard_key = result.text(row, Column::shard_key),
                      .last_completed_at = result.time_or_null(row, Column::last_completed_at),
                      .status = storage::fanout_status_of(result.text(row, Column::status)),
                      .enqueued_at = result.time_or_null(row, Column::enqueued_at),
                      .last_error = result.text_or_null(row, Column::last_error),
                      .created_at = result.time(row, Column::created_at),
                      .updated_at = result.time(row, Column::updated_at)};
  if (!result.is_null(row, Column::message_id))
    cursor.message_id = MessageId{result.uuid(row, Column::message_id)};
  return cursor;
}

}  // namespace

// --- cadences

void FanoutStore::register_policy(storage::WriteSession& session,
                                  const storage::NewFanoutPolicy& policy) {
  auto params = fanout_key_params(policy.key);
  params.add(std::int64_t{policy.every.count()})
      .add(std::int64_t{policy.jitter.count()})
      .add(policy.job)
      .add(std::int64_t{policy.settle.count()});
  WriteSession::of(session).run(texts_, sql::fanout_register, params);
}

bool FanoutStore::set_cadence(storage::WriteSession& session, const storage::FanoutKey& key,
                              milliseconds every, std::optional<milliseconds> jitter) {
  auto params = fanout_key_params(key);
  params.add(std::int64_t{every.count()})
      .add(jitter ? std::optional{std::int64_t{jitter->count()}} : std::nullopt);
  return WriteSession::of(session).run(texts_, sql::fanout_set_cadence, params).boolean(0, 0);
}

bool FanoutStore::reset_cadence(storage::WriteSession& session, const storage::FanoutKey& key) {
  return WriteSession::of(session)
      .run(texts_, sql::fanout_reset_cadence, fanout_key_params(key))
      .boolean(0, 0);
}

bool FanoutStore::remove(storage::WriteSession& session, const storage::FanoutKey& key) {
  return WriteSession::of(session)
             .run(texts_, sql::fanout_remove, fanout_key_params(key))
             .affected() == 1;
}

std::vector<FanoutPolicy> FanoutStore::policies(storage::ReadSession& session,
                                                std::optional<std::string_view> topic) {
  Params params;
  params.add(topic);
  const auto result = ReadSession::of(session).run(texts_, sql::fanout_policies, params);
  std::vector<FanoutPolicy> policies;
  policies.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) policies.push_back(read_policy(result, row));
  return policies;
}

// --- slices

std::vector<storage::EnqueuedSlice> FanoutStore::plan(storage::WriteSession& session,
                                                      std::string_view topic,
                                                      std::span<const FanoutCandidate> candidates) {
  using Column = sql::columns::fanout_plan;
  if (candidates.empty()) return {};
  const auto result =
      WriteSession::of(session).run(texts_, sql::fanout_plan, plan_params(topic, candidates));
  std::vector<storage::EnqueuedSlice> slices;
  slices.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    slices.push_back(
        {MessageId{result.uuid(row, Column::message_id)}, result.boolean(row, Column::replaced)});
  }
  if (!slices.empty()) session.wakes(storage::queue_names::outbox);
  return slices;
}

bool FanoutStore::mark_completed(storage::WriteSession& session, const FanoutSlice& slice) {
  auto params = slice_params(slice);
  params.add(slice.window_start).add(slice.window_end);
  return WriteSession::of(session).run(texts_, sql::fanout_mark_completed, params).boolean(0, 0);
}

std::size_t FanoutStore::purge(storage::WriteSession& session, storage::FanoutPurge& part) {
  using Column = sql::columns::fanout_purge_step_page;
  auto& core = WriteSession::of(session);
  const auto begin = [&part] {
    Params params;
    params.add(part.topic)
        .add(part.work_key)
        .add(std::string_view{part.after_work_key})
        .add(std::string_view{part.after_shard_key});
    return params;
  };
  auto page = begin();
  page.add(static_cast<std::int64_t>(part.page));
  const auto end = core.run(texts_, sql::fanout_purge_step_page, page);
  const bool is_last = end.rows() == 0;
  const auto work_key = is_last ? std::string{} : end.text(0, Column::work_key);
  const auto shard_key = is_last ? std::string{} : end.text(0, Column::shard_key);
  auto params = begin();
  params.add(is_last ? std::nullopt : std::optional<std::string_view>{work_key})
      .add(std::string_view{shard_key})
      .add(std::chrono::microseconds{part.age}.count());
  const auto deleted = core.run(texts_, sql::fanout_purge, params).affected();
  part.after_work_key = work_key;
  part.after_shard_key = shard_key;
  if (is_last) part.page = 0;
  return static_cast<std::size_t>(deleted);
}

std::optional<WallTime> FanoutStore::last_completed(storage::ReadSession& session,
                                                    const FanoutSlice& slice) {
  using Column = sql::columns::fanout_last_completed;
  const auto result =
      ReadSession::of(session).run(texts_, sql::fanout_last_completed, slice_params(slice));
  return result.rows() == 0 ? std::nullopt : result.time_or_null(0, Column::last_completed_at);
}

std::vector<FanoutCursor> FanoutStore::cursors(storage::ReadSession& session,
                                               std::string_view topic,
                                               const FanoutCursorPage& page) {
  Params params;
  params.add(topic)
      .add(core::view_of(page.work_key))
      .add(core::view_of(page.after_work_key))
      .add(std::string_view{page.after_shard_key})
      .add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(texts_, sql::fanout_cursors, params);
  std::vector<FanoutCursor> cursors;
  cursors.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) cursors.push_back(read_cursor(result, row));
  return cursors;
}

}  // namespace dovetail::postgres
