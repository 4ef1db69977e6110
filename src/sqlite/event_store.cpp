#include "sqlite/event_store.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "core/headers.hpp"
#include "core/text.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::sqlite {
namespace {

using storage::AppendOutcome;

/// The stream of an append as it is stored.
struct StreamRow {
  std::optional<std::int64_t> no;  ///< Absent: there is no row.
  std::int64_t version = 0;
  bool closed = false;
};

StreamRow find_stream_row(Connection& connection, const storage::StatementTexts& texts,
                          std::string_view stream) {
  using Column = sql::columns::event_append_step_stream;
  auto cursor = connection.run(texts, sql::event_append_step_stream);
  if (!cursor.bind(stream).step()) return {};
  return {cursor.integer(Column::no), cursor.integer(Column::version),
          !cursor.is_null(Column::closed_at)};
}

bool is_at(const StreamRow& row, ExpectedVersion expected) {
  if (expected == ExpectedVersion::any()) return true;
  if (expected == ExpectedVersion::stream_exists()) return row.version > 0;
  return row.version == expected.value();
}

/// The outcome for ids that exist. Absent: none of them does.
std::optional<storage::EventOutcome> known_outcome(Connection& connection,
                                                   const storage::StatementTexts& texts,
                                                   const storage::EventAppend& order) {
  using Column = sql::columns::event_append_step_known;
  std::size_t here = 0;
  bool elsewhere = false;
  std::int64_t last = 0;
  for (const auto& event : order.events) {
    auto cursor = connection.run(texts, sql::event_append_step_known);
    if (!cursor.bind(event.id).bind(order.stream).step()) continue;
    const bool is_here = cursor.integer(Column::is_here) != 0;
    here += is_here ? 1 : 0;
    elsewhere = elsewhere || !is_here;
    last = std::max(last, cursor.integer(Column::version));
  }
  if (here == order.events.size()) return storage::EventOutcome{AppendOutcome::repeated, last};
  if (here > 0 || elsewhere) return storage::EventOutcome{AppendOutcome::duplicate, 0};
  return std::nullopt;
}

std::optional<std::string> json_array(const std::vector<std::string>& texts) {
  if (texts.empty()) return std::nullopt;
  return core::to_json(std::set<std::string, std::less<>>{texts.begin(), texts.end()});
}

std::vector<Event> read_stream_page(Connection& connection, const storage::StatementTexts& texts,
                                    std::string_view stream, const EventPage& page) {
  using Column = sql::columns::event_read_stream;
  auto cursor = connection.run(
      texts, page.backwards ? sql::event_read_stream_step_backwards : sql::event_read_stream);
  constexpr auto last = std::numeric_limits<std::int64_t>::max();
  cursor.bind(stream)
      .bind(page.from.value_or(page.backwards ? last : 1))
      .bind(std::int64_t{page.size});
  std::vector<Event> events;
  while (cursor.step()) {
    events.push_back({.id = EventId{cursor.uuid(Column::id)},
                      .stream = std::string{stream},
                      .version = cursor.integer(Column::version),
                      .at = cursor.time(Column::at),
                      .type = cursor.text(Column::type),
                      .data = cursor.text(Column::data),
                      .metadata = cursor.text_or_null(Column::metadata),
                      .correlation_id = cursor.text_or_null(Column::correlation_id),
                      .causation_id = cursor.text_or_null(Column::causation_id)});
  }
  return events;
}

Event read_feed_event(const Cursor& cursor) {
  using Column = sql::columns::event_read_all;
  return {.id = EventId{cursor.uuid(Column::id)},
          .stream = cursor.text(Column::stream),
          .version = cursor.integer(Column::version),
          .position = cursor.integer(Column::position),
          .at = cursor.time(Column::at),
          .type = cursor.text(Column::type),
          .data = cursor.text(Column::data),
          .metadata = cursor.text_or_null(Column::metadata),
          .correlation_id = cursor.text_or_null(Column::correlation_id),
          .causation_id = cursor.text_or_null(Column::causation_id)};
}

}  // namespace

// --- append

storage::EventOutcome EventStore::check(Connection& connection, const storage::EventAppend& order) {
  const auto row = find_stream_row(connection, texts_, order.stream);
  const bool fits = is_at(row, order.expected);
  if (!order.fresh) {
    if (const auto known = known_outcome(connection, texts_, order)) return *known;
  }
  if (row.closed) return {AppendOutcome::closed, row.version};
  return {fits ? AppendOutcome::appended : AppendOutcome::conflict, row.version};
}

storage::EventOutcome EventStore::insert(Connection& connection,
                                         const storage::EventAppend& order) {
  const auto now = clock_->wall();
  auto row = find_stream_row(connection, texts_, order.stream);
  if (!row.no) {
    auto cursor = connection.run(texts_, sql::event_append_step_create);
    cursor.bind(order.stream).bind(now).step();
    row.no = cursor.integer(0);
  }
  for (const auto& event : order.events) {
    connection.run(texts_, sql::event_append)
        .bind(*row.no)
        .bind(++row.version)
        .bind(now)
        .bind(event.id)
        .bind(order.stream)
        .bind(event.type)
        .bind(event.data)
        .bind(event.metadata)
        .bind(event.correlation_id)
        .bind(event.causation_id)
        .run();
  }
  connection.run(texts_, sql::event_append_step_advance).bind(*row.no).bind(row.version).run();
  return {AppendOutcome::appended, row.version};
}

storage::EventOutcome EventStore::append(storage::WriteSession& session,
                                         const storage::EventAppend& order) {
  return append_many(session, std::span{&order, 1}).front();
}

std::vector<storage::EventOutcome> EventStore::append_many(
    storage::WriteSession& session, std::span<const storage::EventAppend> orders) {
  auto& connection = WriteSession::of(session);
  std::vector<storage::EventOutcome> outcomes;
  outcomes.reserve(orders.size());
  for (const auto& order : orders) outcomes.push_back(check(connection, order));
  const auto count = [&](AppendOutcome outcome) {
    return static_cast<std::size_t>(
        std::ranges::count(outcomes, outcome, &storage::EventOutcome::outcome));
  };
  const auto repeated = count(AppendOutcome::repeated);
  if (repeated > 0 && repeated + count(AppendOutcome::appended) == orders.size() &&
      repeated < orders.size()) {
    std::ranges::fill(outcomes, storage::EventOutcome{AppendOutcome::duplicate, 0});
  }
  if (count(AppendOutcome::appended) < orders.size()) return outcomes;
  outcomes.clear();
  for (const auto& order : orders) outcomes.push_back(insert(connection, order));
  session.wakes(storage::queue_names::events);
  session.wakes(storage::queue_names::event_feed);
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
  auto& connection = ReadSession::of(session);
  const auto& page = query.page;
  const auto upto = std::max(page.after, std::min(head(connection), page.after + page.scan));
  const auto types = json_array(page.types);
  const auto prefixes = json_array(page.prefixes);
  auto cursor = connection.run(texts_, sql::event_read_all);
  cursor.bind(page.after)
      .bind(upto)
      .bind(std::int64_t{page.size})
      .bind(core::view_of(types))
      .bind(core::view_of(prefixes))
      .bind(std::int64_t{query.parts})
      .bind(std::int64_t{query.part});
  Feed feed;
  while (cursor.step()) feed.events.push_back(read_feed_event(cursor));
  const bool full = feed.events.size() == static_cast<std::size_t>(page.size);
  feed.upto = full ? feed.events.back().position : upto;
  return feed;
}

std::int64_t EventStore::head(Connection& connection) {
  auto cursor = connection.run(texts_, sql::event_stamp);
  cursor.step();
  return cursor.integer(sql::columns::event_stamp::head);
}

storage::Stamped EventStore::stamp(storage::WriteSession& session, bool /*wait*/,
                                   bool /*durable*/) {
  return {.head = head(WriteSession::of(session))};
}

std::optional<std::int64_t> EventStore::position(storage::ReadSession& session,
                                                 std::string_view stream, std::int64_t version) {
  auto cursor = ReadSession::of(session).run(texts_, sql::event_position);
  return cursor.bind(stream).bind(version).step() ? std::optional{cursor.integer(0)} : std::nullopt;
}

// --- streams

std::vector<EventStream> EventStore::streams(storage::ReadSession& session,
                                             std::optional<std::string_view> stream,
                                             const EventStreamPage& page) {
  using Column = sql::columns::event_streams;
  auto cursor = ReadSession::of(session).run(texts_, sql::event_streams);
  cursor.bind(stream)
      .bind(core::view_of(page.after))
      .bind(std::string_view{page.prefix})
      .bind(std::int64_t{page.size});
  std::vector<EventStream> streams;
  while (cursor.step()) {
    streams.push_back({.key = cursor.text(Column::stream),
                       .version = cursor.integer(Column::version),
                       .first_version = cursor.integer(Column::first_version),
                       .created_at = cursor.time(Column::created_at),
                       .closed_at = cursor.time_or_null(Column::closed_at),
                       .deleted_at = cursor.time_or_null(Column::deleted_at)});
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
  return WriteSession::of(session)
             .run(texts_, sql::event_close)
             .bind(stream)
             .bind(clock_->wall())
             .run() == 1;
}

std::size_t EventStore::truncate(storage::WriteSession& session, std::string_view stream,
                                 std::int64_t before) {
  auto& connection = WriteSession::of(session);
  const auto found =
      connection.run(texts_, sql::event_truncate_step_stream).bind(stream).bind(before).run();
  return found == 0 ? 0 : connection.run(texts_, sql::event_truncate).bind(stream).run();
}

bool EventStore::remove(storage::WriteSession& session, std::string_view stream) {
  auto& connection = WriteSession::of(session);
  const auto found =
      connection.run(texts_, sql::event_remove_step_stream).bind(stream).bind(clock_->wall()).run();
  if (found == 0) return false;
  connection.run(texts_, sql::event_remove).bind(stream).run();
  connection.run(texts_, sql::event_remove_step_snapshots).bind(stream).run();
  return true;
}

// --- snapshots

bool EventStore::store_snapshot(storage::WriteSession& session, const EventSnapshot& snapshot) {
  return WriteSession::of(session)
             .run(texts_, sql::event_snapshot_store)
             .bind(std::string_view{snapshot.stream})
             .bind(std::string_view{snapshot.name})
             .bind(snapshot.version)
             .bind(std::int64_t{snapshot.schema})
             .bind(std::string_view{snapshot.data})
             .bind(clock_->wall())
             .run() == 1;
}

std::optional<EventSnapshot> EventStore::find_snapshot(storage::ReadSession& session,
                                                       std::string_view stream,
                                                       std::string_view name, int schema) {
  using Column = sql::columns::event_snapshot_find;
  auto cursor = ReadSession::of(session).run(texts_, sql::event_snapshot_find);
  if (!cursor.bind(stream).bind(name).bind(std::int64_t{schema}).step()) return std::nullopt;
  return EventSnapshot{.stream = std::string{stream},
                       .name = std::string{name},
                       .version = cursor.integer(Column::version),
                       .schema = schema,
                       .data = cursor.text(Column::data)};
}

}  // namespace dovetail::sqlite
