#pragma once

#include "storage/event_store.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

class EventStore final : public storage::EventStore {
 public:
  explicit EventStore(const storage::StatementTexts& texts) : texts_(texts) {}

  storage::EventOutcome append(storage::WriteSession& session,
                               const storage::EventAppend& order) override;
  std::vector<storage::EventOutcome> append_many(
      storage::WriteSession& session, std::span<const storage::EventAppend> orders) override;
  std::vector<Event> read_stream(storage::ReadSession& session, std::string_view stream,
                                 const EventPage& page) override;
  std::vector<Event> read_stream(storage::WriteSession& session, std::string_view stream,
                                 const EventPage& page) override;
  Feed read_all(storage::ReadSession& session, const storage::FeedQuery& query) override;
  storage::Stamped stamp(storage::WriteSession& session, bool wait, bool durable) override;
  std::optional<std::int64_t> position(storage::ReadSession& session, std::string_view stream,
                                       std::int64_t version) override;
  std::vector<EventStream> streams(storage::ReadSession& session,
                                   const EventStreamPage& page) override;
  std::optional<EventStream> find(storage::ReadSession& session, std::string_view stream) override;
  bool close(storage::WriteSession& session, std::string_view stream) override;
  std::size_t truncate(storage::WriteSession& session, std::string_view stream,
                       std::int64_t before) override;
  bool remove(storage::WriteSession& session, std::string_view stream) override;
  bool store_snapshot(storage::WriteSession& session, const EventSnapshot& snapshot) override;
  std::optional<EventSnapshot> find_snapshot(storage::ReadSession& session, std::string_view stream,
                                             std::string_view name, int schema) override;

 private:
  std::vector<EventStream> streams(storage::ReadSession& session,
                                   std::optional<std::string_view> stream,
                                   const EventStreamPage& page);

  const storage::StatementTexts& texts_;
};

}  // namespace dovetail::postgres
