// Events as a backend stores them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/event.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// A checked event on its way into the store.
struct StoredEvent {
  Uuid id;
  std::string_view type;
  std::string_view data;
  std::optional<std::string_view> metadata;
  std::optional<std::string_view> correlation_id;
  std::optional<std::string_view> causation_id;
};

struct EventAppend {
  std::string_view stream;
  ExpectedVersion expected = ExpectedVersion::any();
  std::vector<StoredEvent> events{};
  bool fresh = true;  ///< The ids were generated for this run: no stored event can have them.
};

enum class AppendOutcome : std::uint8_t {
  appended,
  repeated,  ///< All of the events were appended before, by the same call.
  conflict,
  closed,
  duplicate,  ///< Some of the ids belong to events that were appended before.
};

struct EventOutcome {
  AppendOutcome outcome = AppendOutcome::appended;
  std::int64_t version = 0;  ///< Of the last event of the append, or of the stream.
};

/// A page of the feed, for one of several parts. A stream belongs to one part.
struct FeedQuery {
  const FeedPage& page;
  int parts = 1;
  int part = 0;
  /// The last page was full: many events follow. The page may then end earlier than it must, if
  /// that makes it cheaper.
  bool catches_up = false;
};

/// What a stamp did. `head` is absent if another process stamps.
struct Stamped {
  std::optional<std::int64_t> head{};
  std::int64_t count = 0;
};

class EventStore {
 public:
  virtual ~EventStore() = default;

  /// An append wakes the stamper when the transaction commits.
  virtual EventOutcome append(WriteSession& session, const EventAppend& order) = 0;
  /// All or none. Returns the outcomes in the order of `orders`. If one of them is a conflict or
  /// closed, nothing was written, and those of other streams mean nothing.
  virtual std::vector<EventOutcome> append_many(WriteSession& session,
                                                std::span<const EventAppend> orders) = 0;

  virtual std::vector<Event> read_stream(ReadSession& session, std::string_view stream,
                                         const EventPage& page) = 0;
  virtual std::vector<Event> read_stream(WriteSession& session, std::string_view stream,
                                         const EventPage& page) = 0;
  virtual Feed read_all(ReadSession& session, const FeedQuery& query) = 0;

  static constexpr int stamp_size = 10'000;
  /// Gives positions to up to stamp_size events. With `wait`, waits for another process that
  /// stamps.
  virtual Stamped stamp(WriteSession& session, bool wait, bool durable) = 0;
  virtual std::optional<std::int64_t> position(ReadSession& session, std::string_view stream,
                                               std::int64_t version) = 0;

  virtual std::vector<EventStream> streams(ReadSession& session, const EventStreamPage& page) = 0;
  virtual std::optional<EventStream> find(ReadSession& session, std::string_view stream) = 0;
  virtual bool close(WriteSession& session, std::string_view stream) = 0;
  virtual std::size_t truncate(WriteSession& session, std::string_view stream,
                               std::int64_t before) = 0;
  virtual bool remove(WriteSession& session, std::string_view stream) = 0;

  virtual bool store_snapshot(WriteSession& session, const EventSnapshot& snapshot) = 0;
  virtual std::optional<EventSnapshot> find_snapshot(ReadSession& session, std::string_view stream,
                                                     std::string_view name, int schema) = 0;
};

}  // namespace dovetail::storage
