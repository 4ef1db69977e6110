// The event store: streams of events, each with a version, and the order of all events.
//
//   auto& events = platform.events();
//   events.append(tx, "order-42", ExpectedVersion::exactly(3),
//                 {{.type = "OrderPaid", .data = json}});  // throws VersionConflict
//   for (const auto& event : events.read("order-42")) apply(order, event);
//
// aggregate() loads the state of a stream and appends to it. subscription.hpp describes
// subscriptions, which call a handler for the events of all streams.
//
// Guarantees
//   * The events of a stream have the versions 1, 2, 3 … without gaps. Of several transactions that
//     append at the same expected version, one succeeds.
//   * An append through a Transaction takes effect if and only if the transaction commits. After a
//     VersionConflict, the transaction can still be used: nothing was written.
//   * An append that is repeated with the same event ids stores nothing and returns the same
//     versions. So repeat it after an Error that is_in_doubt().
//   * Data and metadata are returned exactly as they were given.
//   * Every event has one position in the order of all events (the feed), without gaps. An event
//     comes after the events that its transaction has read, also those of other streams. A position
//     is visible only when all lower positions are.
//   * A key of a stream is never used again after the stream was deleted.
// Not guaranteed
//   * That an event has its position when its transaction has committed. On PostgreSQL a started
//     Platform with a subscription gives positions some milliseconds later, and stamp() gives them
//     now.
//   * On PostgreSQL, that a position of the last second is the same after a crash of the server,
//     unless EventOptions::durable_positions is set. Progress that is stored in the same database
//     is safe: the crash takes both back.
//   * That a transaction with the isolation level REPEATABLE READ or higher can continue after
//     another transaction has changed the stream: PostgreSQL then reports a serialization failure.
//
// Threads: Events may be shared between threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "dovetail/transaction.hpp"

namespace dovetail {

namespace storage {
class Database;
class EventStore;
class QueueProducer;
class WriteSession;
struct EventAppend;
struct EventOutcome;
}  // namespace storage

namespace queue {
class EnqueuedCount;
}

class Outbox;
class Subscriptions;
class SubscriptionContext;
struct SubscriptionOptions;
template <class State>
class Aggregates;
template <class State>
struct AggregateRules;

struct EventOptions {
  std::size_t max_data_bytes = 1 << 20;  ///< Of data, and of metadata. At most 64 MiB.
  /// PostgreSQL: positions are on disk before they are visible. Set it if readers store positions
  /// in another database. It delays each event by the time of a commit.
  bool durable_positions = false;
  /// A subscription whose oldest event waits longer than this is a health finding: 1 s and more.
  std::chrono::milliseconds max_lag{300'000};
};

/// An event to append. Texts are UTF-8 without NUL.
struct NewEvent {
  std::string type{};                           ///< 1 to 255 characters.
  std::string data{};                           ///< Any text, also empty.
  std::optional<std::string> metadata{};        ///< Any text.
  std::optional<std::string> correlation_id{};  ///< Up to 255 characters; empty means none.
  std::optional<std::string> causation_id{};    ///< Up to 255 characters; empty means none.
  /// With your own id, a repeated append stores nothing. No two events have the same id.
  std::optional<EventId> id{};
};

struct Event {
  EventId id{};
  std::string stream{};
  std::int64_t version = 0;   ///< In its stream, from 1.
  std::int64_t position = 0;  ///< In the feed, from 1. Zero if it was read from its stream.
  WallTime at{};              ///< When it was appended, by the database's clock.
  std::string type{};
  std::string data{};
  std::optional<std::string> metadata{};
  std::optional<std::string> correlation_id{};
  std::optional<std::string> causation_id{};
};

/// The version at which an append expects its stream.
class ExpectedVersion {
 public:
  /// The stream is at version `version`. Zero: it has no events. Throws std::out_of_range if it is
  /// negative.
  [[nodiscard]] static ExpectedVersion exactly(std::int64_t version);
  [[nodiscard]] static ExpectedVersion no_stream() { return ExpectedVersion{0}; }
  [[nodiscard]] static ExpectedVersion any() { return ExpectedVersion{-1}; }
  [[nodiscard]] static ExpectedVersion stream_exists() { return ExpectedVersion{-2}; }

  /// The version, or -1 (any) or -2 (stream_exists), as in SQL.
  [[nodiscard]] std::int64_t value() const { return value_; }
  /// "3", "no_stream", "any" or "stream_exists".
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const ExpectedVersion&, const ExpectedVersion&) = default;

 private:
  explicit ExpectedVersion(std::int64_t value) : value_(value) {}
  std::int64_t value_;
};

/// The stream is not at the expected version. Nothing was written.
class VersionConflict : public std::runtime_error {
 public:
  VersionConflict(std::string stream, ExpectedVersion expected, std::int64_t actual);
  [[nodiscard]] const std::string& stream() const { return stream_; }
  [[nodiscard]] ExpectedVersion expected() const { return expected_; }
  /// The version of the stream. Zero: it has no events.
  [[nodiscard]] std::int64_t actual() const { return actual_; }

 private:
  std::string stream_;
  ExpectedVersion expected_;
  std::int64_t actual_;
};

/// The stream was closed or deleted. Nothing was written.
class StreamClosed : public std::runtime_error {
 public:
  explicit StreamClosed(std::string stream);
  [[nodiscard]] const std::string& stream() const { return stream_; }

 private:
  std::string stream_;
};

struct AppendOptions {
  /// Each event is also a message of the outbox, in the same transaction, once. Its topic is the
  /// type of the event, its payload the data, its id the id of the event, and its stream that of
  /// the event. Its headers are `event-stream` and `event-version`.
  bool publish = false;
};

/// The events for one stream, for append_many().
struct StreamAppend {
  std::string stream{};  ///< 1 to 255 characters, case-sensitive.
  ExpectedVersion expected = ExpectedVersion::any();
  std::vector<NewEvent> events{};
};

struct Appended {
  std::int64_t first_version = 0;
  std::int64_t version = 0;  ///< Of the last event.
  bool stored = true;        ///< False if the same events had been appended before.
};

struct EventPage {
  /// The first version of the page. Absent: the first version of the stream, or the last one if
  /// `backwards` is set.
  std::optional<std::int64_t> from{};
  bool backwards = false;
  int size = 1'000;  ///< 1 to 10,000.
};

/// A page of the feed.
struct FeedPage {
  std::int64_t after = 0;  ///< The position before the first one of the page.
  int size = 1'000;        ///< The maximum number of events: 1 to 10,000.
  /// The maximum number of positions that one call examines: 1 to 1,000,000.
  int scan = 10'000;
  std::vector<std::string> types{};     ///< Empty: all types.
  std::vector<std::string> prefixes{};  ///< Of stream keys, such as `order-`. Empty: all streams.
};

struct Feed {
  std::vector<Event> events{};
  /// The position after which the next page begins. All matching events up to it are in this page
  /// or in earlier ones.
  std::int64_t upto = 0;
};

struct EventStream {
  std::string key{};
  std::int64_t version = 0;        ///< Of the last event.
  std::int64_t first_version = 1;  ///< Earlier events were deleted by truncate() or remove().
  WallTime created_at{};
  std::optional<WallTime> closed_at{};
  std::optional<WallTime> deleted_at{};
};

struct EventStreamPage {
  std::string prefix{};                ///< Only streams whose keys begin with it.
  std::optional<std::string> after{};  ///< The key of the last stream of the previous page.
  int size = 1'000;                    ///< 1 to 10,000.
};

/// A stored state of a stream, from which a reader continues.
struct EventSnapshot {
  std::string stream{};
  std::string name{};        ///< 1 to 255 characters; a stream may have several snapshots.
  std::int64_t version = 0;  ///< Of the last event that it contains.
  int schema = 1;            ///< The number of the data's format. Increase it when that changes.
  std::string data{};
};

class Events {
 public:
  Events(storage::Database& database, Outbox& outbox, EventOptions options, Logger log,
         Metrics metrics);
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  // Keys of streams have 1 to 255 characters. Values out of range are rejected before any I/O.

  /// Appends 1 to 10,000 events to a stream, in their order. Durable on return. Throws
  /// VersionConflict or StreamClosed.
  Appended append(std::string_view stream, ExpectedVersion expected,
                  const std::vector<NewEvent>& events, const AppendOptions& options = {});
  /// Appends in your transaction. The row of the stream stays locked until it ends.
  Appended append(Transaction& transaction, std::string_view stream, ExpectedVersion expected,
                  const std::vector<NewEvent>& events, const AppendOptions& options = {});

  /// Appends to several different streams, all or none. Returns the results in the order of the
  /// requests. Streams are locked in the order of their keys, so that two calls do not deadlock.
  std::vector<Appended> append_many(std::span<const StreamAppend> appends,
                                    const AppendOptions& options = {});
  std::vector<Appended> append_many(Transaction& transaction, std::span<const StreamAppend> appends,
                                    const AppendOptions& options = {});

  /// A page of a stream. Empty if there are no such events.
  [[nodiscard]] std::vector<Event> read(std::string_view stream, const EventPage& page = {});
  /// The same, with the events that your transaction has appended.
  [[nodiscard]] std::vector<Event> read(Transaction& transaction, std::string_view stream,
                                        const EventPage& page = {});

  /// A page of the events of all streams that have positions, in their order.
  [[nodiscard]] Feed read_all(const FeedPage& page = {});

  /// Gives positions to all events that have committed, and returns the last position of the feed.
  /// A started Platform with a subscription does this by itself.
  std::int64_t stamp();

  /// The position of an event. Returns nullopt if it has none yet, or does not exist.
  [[nodiscard]] std::optional<std::int64_t> position(std::string_view stream, std::int64_t version);

  /// Returns nullopt if the stream never had an event and was not closed.
  [[nodiscard]] std::optional<EventStream> find(std::string_view stream);
  /// Streams in the order of their keys.
  [[nodiscard]] std::vector<EventStream> streams(const EventStreamPage& page = {});

  /// Closes a stream: it accepts no more events. Returns whether it was open.
  bool close(std::string_view stream);
  bool close(Transaction& transaction, std::string_view stream);
  /// Deletes the events before version `before`, and returns their number. The last event stays.
  /// The positions of the deleted events stay empty.
  std::size_t truncate(std::string_view stream, std::int64_t before);
  std::size_t truncate(Transaction& transaction, std::string_view stream, std::int64_t before);
  /// Closes a stream, and deletes its events and snapshots. Returns whether there was something to
  /// delete.
  bool remove(std::string_view stream);
  bool remove(Transaction& transaction, std::string_view stream);

  /// Stores a snapshot if it is newer than the stored one: a higher schema, or the same schema and
  /// a higher version. Returns whether it was stored. A stream that does not exist or is not at
  /// that version stores none.
  bool store_snapshot(const EventSnapshot& snapshot);
  /// Returns nullopt if there is no snapshot with this schema.
  [[nodiscard]] std::optional<EventSnapshot> find_snapshot(std::string_view stream,
                                                           std::string_view name, int schema);

  /// Streams that are the states of objects; see aggregate.hpp. Events must outlive the result.
  template <class State>
  [[nodiscard]] Aggregates<State> aggregate(AggregateRules<State> rules);

  /// Calls `handler` for the events of all streams, after the start of the Platform; see
  /// subscription.hpp. The same as subscriptions().add().
  void subscribe(
      std::string_view name, SubscriptionOptions options,
      std::function<void(std::span<const Event> batch, SubscriptionContext& context)> handler);
  /// Waits until the subscription has passed `position`. Returns false after `timeout`.
  [[nodiscard]] bool wait_for(std::string_view subscription, std::int64_t position,
                              std::chrono::milliseconds timeout, const std::stop_token& stop = {});
  [[nodiscard]] Subscriptions& subscriptions() { return *subscriptions_; }

 private:
  using Orders = std::span<const storage::EventAppend>;
  using Outcomes = std::vector<storage::EventOutcome>;
  /// Throws std::invalid_argument if the events cannot be messages.
  void require_appendable(Orders orders, const AppendOptions& options) const;
  Outcomes store_events(storage::WriteSession& session, Orders orders,
                        const AppendOptions& options);
  Outcomes append_alone(std::vector<storage::EventAppend>& orders, const AppendOptions& options);
  Outcomes append_in(Transaction& transaction, Orders orders, const AppendOptions& options);
  /// Throws if a stream refused its events.
  void require_appended(Orders orders, const Outcomes& outcomes) const;
  void note_appended(std::size_t count, bool stored, const queue::EnqueuedCount& published) const;

  storage::Database* database_;
  storage::EventStore* store_;
  storage::QueueProducer* producer_;
  Outbox* outbox_;
  EventOptions options_;
  Logger log_;
  Metrics metrics_;
  std::unique_ptr<Subscriptions> subscriptions_;
};

}  // namespace dovetail
