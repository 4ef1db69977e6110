// The order of all events, and published events.
#include <atomic>
#include <map>
#include <thread>

#include "support/backend.hpp"

namespace dovetail::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EventFeedContract : public BackendTest {
 protected:
  const ExpectedVersion any = ExpectedVersion::any();
  void append(const std::string& stream, const std::string& type = "T") {
    events.append(stream, any, {{.type = type, .data = "d"}});
  }
  /// "stream/version" of each event of the page.
  static std::vector<std::string> names(const Feed& feed) {
    std::vector<std::string> found;
    for (const auto& event : feed.events)
      found.push_back(event.stream + "/" + std::to_string(event.version));
    return found;
  }
  static std::vector<std::int64_t> positions(const Feed& feed) {
    std::vector<std::int64_t> found;
    for (const auto& event : feed.events) found.push_back(event.position);
    return found;
  }
  Platform platform = backend.open();
  Events& events = platform.events();
};
DOVETAIL_CONTRACT(EventFeedContract);

TEST_P(EventFeedContract, EventsHavePositionsWithoutGapsInTheOrderOfTheirAppends) {
  EXPECT_EQ(events.stamp(), 0);
  EXPECT_THAT(events.read_all().events, IsEmpty());
  append("a");
  append("b");
  append("a");
  EXPECT_EQ(events.stamp(), 3);
  const auto feed = events.read_all();
  EXPECT_THAT(names(feed), ElementsAre("a/1", "b/1", "a/2"));
  EXPECT_THAT(positions(feed), ElementsAre(1, 2, 3));
  EXPECT_EQ(feed.upto, 3);
  EXPECT_EQ(events.position("a", 2), 3);
  EXPECT_FALSE(events.position("a", 3));
  EXPECT_FALSE(events.position("nothing", 1));
}

TEST_P(EventFeedContract, ARolledBackAppendLeavesNoGap) {
  append("a");
  for (int i = 0; i < 3; ++i) {
    auto tx = platform.begin();
    events.append(tx, "b", any, {{.type = "T"}, {.type = "T"}});
    tx.rollback();
  }
  append("c");
  EXPECT_EQ(events.stamp(), 2);
  append("d");
  EXPECT_EQ(events.stamp(), 3);
  EXPECT_THAT(positions(events.read_all()), ElementsAre(1, 2, 3));
  EXPECT_THAT(names(events.read_all()), ElementsAre("a/1", "c/1", "d/1"));
}

TEST_P(EventFeedContract, TheFeedIsReadInPages) {
  for (int i = 0; i < 7; ++i) append("s");
  events.stamp();
  const auto first = events.read_all({.size = 3});
  EXPECT_THAT(positions(first), ElementsAre(1, 2, 3));
  EXPECT_EQ(first.upto, 3);
  const auto second = events.read_all({.after = first.upto, .size = 3});
  EXPECT_THAT(positions(second), ElementsAre(4, 5, 6));
  const auto third = events.read_all({.after = second.upto, .size = 3});
  EXPECT_THAT(positions(third), ElementsAre(7));
  EXPECT_EQ(third.upto, 7);
  EXPECT_EQ(events.read_all({.after = 7}).upto, 7);
  EXPECT_EQ(events.read_all({.after = 50}).upto, 50) << "a position of the future";
}

TEST_P(EventFeedContract, AFilteredPageSaysHowFarItCame) {
  for (int i = 0; i < 10; ++i) append(i % 2 == 0 ? "order-1" : "customer-1", i == 7 ? "Rare" : "T");
  events.stamp();
  EXPECT_THAT(names(events.read_all({.types = {"Rare", "None"}})), ElementsAre("customer-1/4"));
  EXPECT_EQ(events.read_all({.types = {"Rare"}}).upto, 10);
  EXPECT_THAT(events.read_all({.types = {"None"}}).events, IsEmpty());
  EXPECT_EQ(events.read_all({.types = {"None"}}).upto, 10);
  EXPECT_EQ(events.read_all({.scan = 4, .types = {"None"}}).upto, 4);
  EXPECT_EQ(events.read_all({.size = 1, .types = {"Rare"}}).upto, 8) << "behind a full page";
  EXPECT_THAT(events.read_all({.prefixes = {"order-"}}).events, SizeIs(5));
  EXPECT_THAT(events.read_all({.prefixes = {"order-", "customer-"}}).events, SizeIs(10));
  EXPECT_THAT(events.read_all({.types = {"Rare"}, .prefixes = {"order-"}}).events, IsEmpty());
}

TEST_P(EventFeedContract, DeletedEventsLeaveTheirPositionsEmpty) {
  for (int i = 0; i < 3; ++i) append("a");
  append("b");
  events.stamp();
  events.truncate("a", 3);
  EXPECT_THAT(positions(events.read_all()), ElementsAre(3, 4));
  events.remove("b");
  EXPECT_THAT(positions(events.read_all()), ElementsAre(3));
  EXPECT_EQ(events.read_all().upto, 4);
  append("c");
  EXPECT_EQ(events.stamp(), 5) << "the position of a deleted event is not given again";
}

TEST_P(EventFeedContract, AReaderDuringAppendsMissesNothing) {
  constexpr int writers = 4;
  constexpr int appends = 40;
  std::atomic<int> running{writers};
  std::vector<std::jthread> threads;
  for (int writer = 0; writer < writers; ++writer) {
    threads.emplace_back([this, &running, writer] {
      const auto own = "w" + std::to_string(writer);
      for (int i = 0; i < appends; ++i) {
        auto tx = platform.begin();
        events.append(tx, own, any, {{.type = "T"}});
        events.append(tx, "shared", any, {{.type = "T"}});
        if (i % 5 == 4) {
          tx.rollback();
        } else {
          tx.commit();
        }
      }
      --running;
    });
  }
  std::map<std::string, std::int64_t> seen;
  std::int64_t after = 0;
  for (bool last = false; !last;) {
    last = running == 0;
    events.stamp();
    const auto feed = events.read_all({.after = after, .size = 7});
    for (const auto& event : feed.events) {
      EXPECT_EQ(event.position, ++after);
      EXPECT_EQ(event.version, ++seen[event.stream]) << event.stream;
    }
    EXPECT_EQ(feed.upto, after);
    last = last && feed.events.empty();
  }
  EXPECT_EQ(after, writers * appends * 2 * 4 / 5);
}

// --- events that are messages

TEST_P(EventFeedContract, APublishedEventIsAlsoAMessageOnce) {
  const std::vector<NewEvent> both{
      {.type = "OrderPaid", .data = "1", .correlation_id = "c", .id = EventId::generate()},
      {.type = "OrderSent", .data = "2", .id = EventId::generate()}};
  {
    auto tx = platform.begin();
    events.append(tx, "order-1", any, both, {.publish = true});
    tx.rollback();
  }
  EXPECT_EQ(platform.outbox().counts().ready, 0);
  events.append("order-1", any, both, {.publish = true});
  EXPECT_FALSE(events.append("order-1", any, both, {.publish = true}).stored);
  EXPECT_THROW(
      events.append("order-1", ExpectedVersion::exactly(9), {{.type = "No"}}, {.publish = true}),
      VersionConflict);
  EXPECT_EQ(platform.outbox().counts().ready, 2);
  const auto stored = platform.outbox().find(MessageId{both[0].id->uuid()});
  ASSERT_TRUE(stored);
  const auto& message = stored->message;
  EXPECT_EQ(message.topic, "OrderPaid");
  EXPECT_EQ(message.payload, "1");
  EXPECT_EQ(message.correlation_id, "c");
  EXPECT_EQ(message.stream, "order-1");
  EXPECT_EQ(message.headers.at("event-stream"), "order-1");
  EXPECT_EQ(message.headers.at("event-version"), "1");
}

TEST_P(EventFeedContract, EventsOfSeveralStreamsArePublishedTogether) {
  const std::vector<StreamAppend> appends{{.stream = "b", .events = {{.type = "B"}}},
                                          {.stream = "a", .events = {{.type = "A"}}}};
  events.append_many(appends, {.publish = true});
  EXPECT_EQ(platform.outbox().counts().ready, 2);
  auto options = backend.options();
  options.outbox.max_payload_bytes = 3;
  auto small = Platform::open(backend.url(), options);
  EXPECT_THROW(small.events().append("b", any, {{.type = "B", .data = "long"}}, {.publish = true}),
               std::invalid_argument);
  EXPECT_EQ(events.find("b")->version, 1);
}

}  // namespace
}  // namespace dovetail::testing
