#include "postgres/inbox_store.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "postgres/queue_rows.hpp"
#include "postgres/session.hpp"
#include "postgres/sql.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::int64_t count_limit = 100'000;
constexpr std::size_t calls_at_once = 200;  // in one round trip

std::optional<std::span<const std::byte>> hash_or_null(ContentHash hash) {
  return hash.empty() ? std::nullopt : std::optional{hash};
}

std::optional<std::string_view> text_or_null(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional{text};
}

Params key_params(const storage::InboxKey& key) {
  Params params;
  params.add(key.source).add(key.message_id);
  return params;
}

void add_fence(Params& params, const std::optional<storage::InboxFence>& fence) {
  if (fence) {
    params.add(fence->owner.uuid()).add(fence->epoch);
  } else {
    params.add(nullptr).add(nullptr);
  }
}

Params receive_params(const storage::InboxArrival& arrival, bool notify) {
  const auto& message = arrival.message;
  auto params = key_params(arrival.key);
  params.add(hash_or_null(arrival.hash))
      .add(message.id.uuid())
      .add(message.topic)
      .add(message.payload)
      .add(message.correlation_id)
      .add(message.due_at)
      .add(core::view_of(message.headers))
      .add(message.expires_at)
      .add(std::int32_t{message.priority})
      .add(notify)
      .add(message.stream);
  return params;
}

Params filter_params(const InboxDeadLetterFilter& filter) {
  Params params;
  params.add(core::view_of(filter.source))
      .add(core::view_of(filter.message_id))
      .add(core::view_of(filter.topic))
      .add(filter.failed_after)
      .add(filter.failed_before);
  return params;
}

InboxEntry read_entry(const Result& result, int row) {
  using Column = sql::columns::inbox_guard_find;
  InboxEntry entry;
  entry.source = result.text(row, Column::source);
  entry.message_id = result.text(row, Column::message_id);
  if (!result.is_null(row, Column::hash)) {
    const auto hash = std::as_bytes(std::span{result.bytes(row, Column::hash)});
    entry.hash.assign(hash.begin(), hash.end());
  }
  entry.status = storage::inbox_status_of(result.bytes(row, Column::status));
  entry.first_seen_at = result.time(row, Column::first_seen_at);
  entry.last_seen_at = result.time(row, Column::last_seen_at);
  entry.processed_at = result.time_or_null(row, Column::processed_at);
  entry.sightings = result.integer(row, Column::sightings);
  entry.attempts = static_cast<int>(result.integer(row, Column::attempts));
  entry.last_error = result.text_or_null(row, Column::last_error);
  entry.topic = result.text_or_null(row, Column::topic);
  if (!result.is_null(row, Column::item_id))
    entry.id = MessageId{result.uuid(row, Column::item_id)};
  entry.lease_until = result.time_or_null(row, Column::lease_until);
  return entry;
}

std::vector<InboxEntry> read_entries(const Result& result) {
  std::vector<InboxEntry> entries;
  entries.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) entries.push_back(read_entry(result, row));
  return entries;
}

}  // namespace

// --- the guard

storage::Sighting InboxStore::record_sighting(storage::WriteSession& session,
                                              const storage::InboxKey& key, ContentHash hash) {
  using Column = sql::columns::inbox_see;
  auto params = key_params(key);
  params.add(hash_or_null(hash));
  const auto result = WriteSession::of(session).run(texts_, sql::inbox_see, params);
  return {static_cast<InboxStatus>(result.integer(0, Column::status)),
          result.boolean(0, Column::matches)};
}

storage::BeginAnswer InboxStore::try_begin(storage::WriteSession& session,
                                           const storage::InboxKey& key,
                                           const storage::BeginOrder& order) {
  using Column = sql::columns::inbox_try_begin;
  auto params = key_params(key);
  params.add(order.owner.uuid())
      .add(std::int64_t{order.lease.count()})
      .add(hash_or_null(order.hash))
      .add(std::int32_t{order.max_attempts})
      .add(order.counts)
      .add(order.by_process);
  const auto result = WriteSession::of(session).run(texts_, sql::inbox_try_begin, params);
  return {.outcome = storage::begin_outcome_of(result.bytes(0, Column::outcome)),
          .epoch = result.integer(0, Column::claim_epoch),
          .attempts = static_cast<int>(result.integer(0, Column::attempts)),
          .lease_until = result.time_or_null(0, Column::lease_until).value_or(WallTime{}),
          .mine = result.boolean(0, Column::mine),
          .gave_up = result.boolean(0, Column::gave_up),
          .by_process = result.boolean(0, Column::by_process)};
}

bool InboxStore::continue_try(storage::WriteSession& session, const storage::InboxKey& key,
                              const storage::InboxFence& fence, std::chrono::microseconds lease) {
  auto params = key_params(key);
  add_fence(params, fence);
  params.add(std::int64_t{lease.count()});
  return WriteSession::of(session).run(texts_, sql::inbox_continue_try, params).boolean(0, 0);
}

std::optional<InboxStatus> InboxStore::mark_processing(storage::WriteSession& session,
                                                       const storage::InboxKey& key,
                                                       std::chrono::microseconds lease,
                                                       int max_attempts) {
  auto params = key_params(key);
  params.add(std::int64_t{lease.count()}).add(std::int32_t{max_attempts});
  const auto result = WriteSession::of(session).run(texts_, sql::inbox_mark_processing, params);
  if (result.is_null(0, 0)) return std::nullopt;
  return static_cast<InboxStatus>(result.integer(0, 0));
}

bool InboxStore::mark_processed(storage::WriteSession& session, const storage::InboxKey& key,
                                const std::optional<storage::InboxFence>& fence) {
  auto params = key_params(key);
  add_fence(params, fence);
  return WriteSession::of(session).run(texts_, sql::inbox_mark_processed, params).boolean(0, 0);
}

bool InboxStore::mark_dead(storage::WriteSession& session, const storage::InboxKey& key,
                           const std::optional<storage::InboxFence>& fence,
                           std::string_view reason) {
  auto params = key_params(key);
  params.add(text_or_null(reason));
  add_fence(params, fence);
  return WriteSession::of(session).run(texts_, sql::inbox_mark_dead, params).boolean(0, 0);
}

bool InboxStore::is_marked(storage::WriteSession& session, const storage::InboxKey& key,
                           InboxStatus status, const std::optional<storage::InboxFence>& fence) {
  auto params = key_params(key);
  params.add(static_cast<std::int32_t>(status));
  add_fence(params, fence);
  return WriteSession::of(session).run(texts_, sql::inbox_is_marked, params).boolean(0, 0);
}

bool InboxStore::release(storage::WriteSession& session, const storage::InboxKey& key,
                         const storage::InboxFence& fence, std::string_view error, int charge) {
  auto params = key_params(key);
  add_fence(params, fence);
  params.add(text_or_null(error)).add(std::int32_t{charge});
  return WriteSession::of(session).run(texts_, sql::inbox_release, params).boolean(0, 0);
}

std::optional<WallTime> InboxStore::renew(storage::WriteSession& session,
                                          const storage::InboxKey& key,
                                          const storage::InboxFence& fence,
                                          std::chrono::microseconds lease) {
  auto params = key_params(key);
  add_fence(params, fence);
  params.add(std::int64_t{lease.count()});
  return WriteSession::of(session).run(texts_, sql::inbox_renew_ticket, params).time_or_null(0, 0);
}

// --- the queue

std::vector<InboxEnqueued> InboxStore::receive(storage::WriteSession& session,
                                               std::span<const storage::InboxArrival> arrivals) {
  using Column = sql::columns::inbox_receive;
  const bool notify = WriteSession::of(session).is_borrowed();  // its commit is not visible here
  std::vector<InboxEnqueued> answers;
  answers.reserve(arrivals.size());
  while (!arrivals.empty()) {
    const auto some = arrivals.first(std::min(arrivals.size(), calls_at_once));
    arrivals = arrivals.subspan(some.size());
    std::vector<SessionCore::Call> calls;
    calls.reserve(some.size());
    for (const auto& each : some)
      calls.push_back({&sql::inbox_receive, receive_params(each, notify)});
    for (const auto& result : WriteSession::of(session).run_all(texts_, calls)) {
      InboxEnqueued answer{.outcome =
                               storage::enqueue_outcome_of(result.bytes(0, Column::outcome))};
      if (!result.is_null(0, Column::id)) answer.id = MessageId{result.uuid(0, Column::id)};
      if (answer.stored()) session.wakes(storage::queue_names::inbox);
      answers.push_back(answer);
    }
  }
  return answers;
}

void InboxStore::fail_stored(storage::WriteSession& session, MessageId id, std::string_view error) {
  Params params;
  params.add(id.uuid()).add(error);
  WriteSession::of(session).run(texts_, sql::inbox_fail_stored, params);
}

// --- operating

std::size_t InboxStore::replay(storage::WriteSession& session, const InboxDeadLetterFilter& filter,
                               const ReplayOptions& options, int most) {
  auto params = filter_params(filter);
  const auto delay = std::chrono::microseconds{options.delay};
  params.add(std::int32_t{most}).add(text_or_null(options.reason)).add(std::int64_t{delay.count()});
  return count_of(WriteSession::of(session).run(texts_, sql::inbox_replay_dead_letters, params));
}

std::size_t InboxStore::purge_dead_letters(storage::WriteSession& session,
                                           const InboxDeadLetterFilter& filter, int most) {
  auto params = filter_params(filter);
  params.add(std::int32_t{most});
  return count_of(WriteSession::of(session).run(texts_, sql::inbox_purge_dead_letters, params));
}

std::size_t InboxStore::purge(storage::WriteSession& session, std::chrono::microseconds age,
                              int most) {
  Params params;
  params.add(std::int64_t{age.count()}).add(std::int32_t{most});
  return count_of(WriteSession::of(session).run(texts_, sql::inbox_purge_old, params));
}

std::optional<InboxEntry> InboxStore::find(storage::ReadSession& session,
                                           const storage::InboxKey& key) {
  const auto result = ReadSession::of(session).run(texts_, sql::inbox_guard_find, key_params(key));
  return result.rows() == 0 ? std::nullopt : std::optional{read_entry(result, 0)};
}

std::vector<InboxEntry> InboxStore::dead_letters(storage::ReadSession& session,
                                                 const InboxDeadLetterFilter& filter,
                                                 const InboxPage& page) {
  auto params = filter_params(filter);
  params.add(core::view_of(page.after_source))
      .add(std::string_view{page.after_message_id})
      .add(std::int64_t{page.size});
  return read_entries(ReadSession::of(session).run(texts_, sql::inbox_list_dead_letters, params));
}

std::vector<InboxEntry> InboxStore::stuck(storage::ReadSession& session,
                                          std::chrono::microseconds overdue, int most) {
  Params params;
  params.add(std::int64_t{overdue.count()}).add(std::int64_t{most});
  return read_entries(ReadSession::of(session).run(texts_, sql::inbox_list_stuck, params));
}

InboxCounts InboxStore::counts(storage::ReadSession& session) {
  using Column = sql::columns::inbox_guard_counts;
  Params params;
  params.add(count_limit);
  const auto result = ReadSession::of(session).run(texts_, sql::inbox_guard_counts, params);
  InboxCounts counts;
  counts.seen = result.integer(0, Column::seen);
  counts.processing = result.integer(0, Column::processing);
  counts.overdue = result.integer(0, Column::overdue);
  counts.processed = result.integer(0, Column::processed);
  counts.dead_letters = result.integer(0, Column::dead_letters);
  counts.counted_up_to = count_limit;
  return counts;
}

}  // namespace dovetail::postgres
