#include "postgres/event_store.hpp"

#include <algorithm>

#include "core/assert.hpp"
#include "core/text.hpp"
#include "postgres/session.hpp"
#include "postgres/sql.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::postgres {
namespace {

/// The limit in event_read_all_step_run.
constexpr int largest_run_page = 1'000;

using Text = std::optional<std::string_view>;
using EventPointers = std::vector<const storage::StoredEvent*>;

/// A column of many events as an array, or NULL when no event uses it.
template <class Get>
void add_event_column(Params& params, const EventPointers& events, const Get& get) {
  std::vector<Text> column;
  column.reserve(events.size());
  bool used = false;
  for (const auto* event : events) {
    column.push_back(get(*event));
    used = used || column.back().has_value();
  }
  if (used) {
    params.add(std::span<const Text>{column});
  } else {
    params.add(nullptr);
  }
}

void add_events(Params& params, const EventPointers& events, bool fresh, bool notify) {
  using storage::StoredEvent;
  std::vector<Uuid> ids;
  ids.reserve(events.size());
  for (const auto* event : events) ids.push_back(event->id);
  add_event_column(params, events, [](const StoredEvent& each) { return Text{each.type}; });
  add_event_column(params, events, [](const StoredEvent& each) { return Text{each.data}; });
  add_event_column(params, events, [](const StoredEvent& each) { return each.metadata; });
  params.add(std::span<const Uuid>{ids});
  add_event_column(params, events, [](const StoredEvent& each) { return each.correlation_id; });
  add_event_column(params, events, [](const StoredEvent& each) { return each.causation_id; });
  params.add(fresh).add(notify);
}

void add_texts(Params& params, const std::vector<std::string>& texts) {
  if (texts.empty()) {
    params.add(nullptr);
    return;
  }
  const std::vector<Text> views{texts.begin(), texts.end()};
  params.add(std::span<const Text>{views});
}

storage::AppendOutcome append_outcome_of(std::string_view word) {
  using storage::AppendOutcome;
  if (word == "appended") return AppendOutcome::appended;
  if (word == "repeated") return AppendOutcome::repeated;
  if (word == "closed") return AppendOutcome::closed;
  if (word == "duplicate") return AppendOutcome::duplicate;
  DOVETAIL_ASSERT(word == "conflict");
  return AppendOutcome::conflict;
}

/// Announces appended events: the commit does it, or the statement has done it.
void wake_stamper(storage::WriteSession& session, bool announced) {
  if (announced) {
    session.wakes_here(storage::queue_names::events);
  } else {
    session.wakes(storage::queue_names::events);
  }
}

std::vector<Event> read_stream_page(SessionCore& core, const storage::StatementTexts& texts,
                                    std::string_view stream, const EventPage& page) {
  using Column = sql::columns::event_read_stream;
  Params params;
  params.add(stream).add(page.from).add(std::int32_t{page.size}).add(page.backwards);
  const auto result = core.run(texts, sql::event_read_stream, params);
  std::vector<Event> events;
  events.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    events.push_back({.id = EventId{result.uuid(row, Column::id)},
                      .stream = std::string{stream},
                      .version = result.integer(row, Column::version),
                      .at = result.time(row, Column::at),
                      .type = result.text(row, Column::type),
                      .data = result.text(row, Column::data),
                      .metadata = result.text_or_null(row, Column::metadata),
                      .correlation_id = result.text_or_null(row, Column::correlation_id),
                      .causation_id = result.text_or_null(row, Column::causation_id)});
  }
  return events;
}

Event read_feed_event(const Result& result, int row) {
  using Column = sql::columns::event_read_all;
  return {.id = EventId{result.uuid(row, Column::id)},
          .stream = result.text(row, Column::stream),
          .version = result.integer(row, Column::version),
          .position = result.integer(row, Column::position),
          .at = result.time(row, Column::at),
          .type = result.text(row, Column::type),
          .data = result.text(row, Column::data),
          .metadata = result.text_or_null(row, Column::metadata),
          .correlation_id = result.text_or_null(row, Column::correlation_id),
          .causation_id = result.text_or_null(row, Column::causation_id)};
}

Feed feed_of(const Result& result, std::int64_t after) {
  using Column = sql::columns::event_read_all;
  Feed feed{.upto = after};
  feed.events.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    feed.upto = result.integer(row, Column::upto);
    if (!result.is_null(row, Column::position)) feed.events.push_back(read_feed_event(result, row));
  }
  DOVETAIL_ASSERT(std::ranges::is_sorted(feed.events, {}, &Event::position));
  return feed;
}

Params key_params(std::string_view stream) {
  Params params;
  params.add(stream);
  return params;
}

}  // namespace

// --- append

storage::EventOutcome EventStore::append(storage::WriteSession& session,
                                         const storage::EventAppend& order) {
  using Column = sql::columns::event_append;
  auto& core = WriteSession::of(session);
  const bool notify = core.is_borrowed() || core.take_turn(storage::queue_names::events);
  EventPointers events;
  events.reserve(order.events.size());
  for (const auto& event : order.events) events.push_back(&event);
  Params params;
  params.add(order.stream).add(order.expected.value());
  add_events(params, events, order.fresh, notify);
  const auto result = core.run(texts_, sql::event_append, params);
  const storage::EventOutcome outcome{append_outcome_of(result.bytes(0, Column::outcome)),
                                      result.integer(0, Column::version)};
  if (outcome.outcome == storage::AppendOutcome::appended) wake_stamper(session, notify);
  return outcome;
}

std::vector<storage::EventOutcome> EventStore::append_many(
    storage::WriteSession& session, std::span<const storage::EventAppend> orders) {
  using Column = sql::columns::event_append_step_many;
  auto& core = WriteSession::of(session);
  const bool notify = core.is_borrowed() || core.take_turn(storage::queue_names::events);
  std::vector<Text> streams;
  std::vector<std::int64_t> expected;
  std::vector<std::int64_t> of;
  EventPointers events;
  for (const auto& order : orders) {
    streams.emplace_back(order.stream);
    expected.push_back(order.expected.value());
    for (const auto& event : order.events) {
      of.push_back(static_cast<std::int64_t>(streams.size()));
      events.push_back(&event);
    }
  }
  const bool fresh = std::ranges::all_of(orders, &storage::EventAppend::fresh);
  Params params;
  params.add(std::span<const Text>{streams})
      .add(std::span<const std::int64_t>{expected})
      .add(std::span<const std::int64_t>{of});
  add_events(params, events, fresh, notify);
  const auto result = core.run(texts_, sql::event_append_step_many, params);
  std::vector<storage::EventOutcome> outcomes(orders.size());
  for (int row = 0; row < result.rows(); ++row) {
    const auto found =
        std::ranges::find(orders, result.bytes(row, Column::stream), &storage::EventAppend::stream);
    DOVETAIL_ASSERT(found != orders.end());
    outcomes[static_cast<std::size_t>(found - orders.begin())] = {
        append_outcome_of(result.bytes(row, Column::outcome)),
        result.integer(row, Column::version)};
  }
  const bool appended = std::ranges::all_of(outcomes, [](const storage::EventOutcome& each) {
    return each.outcome == storage::AppendOutcome::appended;
  });
  if (appended) wake_stamper(session, notify);
  return outcomes;
}

// --- read

std::vector<Event> EventStore::read_stream(storage::ReadSession& session, std::string_view stream,
                                           const EventPage& page) {
  return read_stream_page(ReadSession::of(session), texts_, stream, page);
}

std::vector<Event> EventStore::read_stream(storage::WriteSession& session, std::string_view stream,
                                           const EventPage& page) {
  return read_stream_page(WriteSession::of(session), texts_, stream, page);
}

Feed EventStore::read_all(storage::ReadSession& session, const storage::FeedQuery& query) {
  const auto& page = query.page;
  const bool in_run = query.catches_up && page.types.empty() && page.prefixes.empty();
  Params params;
  params.add(page.after).add(std::int32_t{page.size}).add(std::int32_t{page.scan});
  if (!in_run) {
    add_texts(params, page.types);
    add_texts(params, page.prefixes);
  }
  params.add(query.parts > 1 ? std::optional{std::int32_t{query.parts}} : std::nullopt)
      .add(std::int32_t{query.part});
  auto feed =
      feed_of(ReadSession::of(session).run(
                  texts_, in_run ? sql::event_read_all_step_run : sql::event_read_all, params),
              page.after);
  const auto full = static_cast<std::size_t>(std::min(page.size, largest_run_page));
  if (in_run && feed.events.size() == full) feed.upto = feed.events.back().position;
  return feed;
}

storage::Stamped EventStore::stamp(storage::WriteSession& session, bool wait, bool durable) {
  using Column = sql::columns::event_stamp;
  Params params;
  params.add(std::int32_t{stamp_size}).add(wait).add(durable);
  const auto result = WriteSession::of(session).run(texts_, sql::event_stamp, params);
  storage::Stamped stamped{.head = std::nullopt, .count = result.integer(0, Column::stamped)};
  if (!result.is_null(0, Column::head)) stamped.head = result.integer(0, Column::head);
  // The function has told the other processes.
  if (stamped.count > 0) session.wakes_here(storage::queue_names::event_feed);
  return stamped;
}

std::optional<std::int64_t> EventStore::position(storage::ReadSession& session,
                                                 std::string_view stream, std::int64_t version) {
  auto params = key_params(stream);
  params.add(version);
  const auto result = ReadSession::of(session).run(texts_, sql::event_position, params);
  return result.is_null(0, 0) ? std::nullopt : std::optional{result.integer(0, 0)};
}

// --- streams

std::vector<EventStream> EventStore::streams(storage::ReadSession& session,
                                             std::optional<std::string_view> stream,
                                             const EventStreamPage& page) {
  using Column = sql::columns::event_streams;
  Params params;
  params.add(stream)
      .add(core::view_of(page.after))
      .add(std::string_view{page.prefix})
      .add(std::int64_t{page.size});
  const auto result = ReadSession::of(session).run(texts_, sql::event_streams, params);
  std::vector<EventStream> streams;
  streams.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    streams.push_back({.key = result.text(row, Column::stream),
                       .version = result.integer(row, Column::version),
                       .first_version = result.integer(row, Column::first_version),
                       .created_at = result.time(row, Column::created_at),
                       .closed_at = result.time_or_null(row, Column::closed_at),
                       .deleted_at = result.time_or_null(row, Column::deleted_at)});
  }
  return streams;
}

std::vector<EventStream> EventStore::streams(storage::ReadSession& session,
                                             const EventStreamPage& page) {
  return streams(session, std::nullopt, page);
}

std::optional<EventStream> EventStore::find(storage::ReadSession& session,
                                            std::string_view stream) {
  const auto found = streams(session, stream, {.size = 1});
  return found.empty() ? std::nullopt : std::optional{found.front()};
}

bool EventStore::close(storage::WriteSession& session, std::string_view stream) {
  return WriteSession::of(session).run(texts_, sql::event_close, key_params(stream)).boolean(0, 0);
}

std::size_t EventStore::truncate(storage::WriteSession& session, std::string_view stream,
                                 std::int64_t before) {
  auto params = key_params(stream);
  params.add(before);
  return static_cast<std::size_t>(
      WriteSession::of(session).run(texts_, sql::event_truncate, params).integer(0, 0));
}

bool EventStore::remove(storage::WriteSession& session, std::string_view stream) {
  return WriteSession::of(session).run(texts_, sql::event_remove, key_params(stream)).boolean(0, 0);
}

// --- snapshots

bool EventStore::store_snapshot(storage::WriteSession& session, const EventSnapshot& snapshot) {
  auto params = key_params(snapshot.stream);
  params.add(std::string_view{snapshot.name})
      .add(snapshot.version)
      .add(std::int32_t{snapshot.schema})
      .add(std::string_view{snapshot.data});
  return WriteSession::of(session).run(texts_, sql::event_snapshot_store, params).boolean(0, 0);
}

std::optional<EventSnapshot> EventStore::find_snapshot(storage::ReadSession& session,
                                                       std::string_view stream,
                                                       std::string_view name, int schema) {
  using Column = sql::columns::event_snapshot_find;
  auto params = key_params(stream);
  params.add(name).add(std::int32_t{schema});
  const auto result = ReadSession::of(session).run(texts_, sql::event_snapshot_find, params);
  if (result.rows() == 0) return std::nullopt;
  return EventSnapshot{.stream = std::string{stream},
                       .name = std::string{name},
                       .version = result.integer(0, Column::version),
                       .schema = schema,
                       .data = result.text(0, Column::data)};
}

}  // namespace dovetail::postgres
