// Events: appending, reading, the ends of streams, snapshots.
#include <algorithm>
#include <thread>

#include "support/backend.hpp"

namespace dovetail::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::int64_t> versions_of(const std::vector<Event>& events) {
  std::vector<std::int64_t> found;
  for (const auto& event : events) found.push_back(event.version);
  return found;
}

std::vector<NewEvent> some_events(int count, const std::string& type = "T") {
  std::vector<NewEvent> events;
  for (int i = 0; i < count; ++i) events.push_back({.type = type, .data = std::to_string(i)});
  return events;
}

class EventContract : public BackendTest {
 protected:
  const ExpectedVersion any = ExpectedVersion::any();
  const ExpectedVersion no_stream = ExpectedVersion::no_stream();
  const ExpectedVersion stream_exists = ExpectedVersion::stream_exists();
  Platform platform = backend.open();
  Events& events = platform.events();
};
DOVETAIL_CONTRACT(EventContract);

// --- append

TEST_P(EventContract, AnEventIsReadAsItWasAppended) {
  const auto before = backend.now();
  const auto id = EventId::generate();
  const std::string data = "{\"b\": 1.0,  \"a\":\"\u00e9\"}";
  const auto appended = events.append("order-1", no_stream,
                                      {{.type = "OrderPlaced",
                                        .data = data,
                                        .metadata = "meta",
                                        .correlation_id = "c",
                                        .causation_id = "d",
                                        .id = id},
                                       {.type = "OrderPaid", .correlation_id = ""}});
  EXPECT_EQ(appended.first_version, 1);
  EXPECT_EQ(appended.version, 2);
  EXPECT_TRUE(appended.stored);
  const auto found = events.read("order-1");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].id, id);
  EXPECT_EQ(found[0].stream, "order-1");
  EXPECT_EQ(found[0].version, 1);
  EXPECT_EQ(found[0].type, "OrderPlaced");
  EXPECT_EQ(found[0].data, data) << "byte for byte";
  EXPECT_EQ(found[0].metadata, "meta");
  EXPECT_EQ(found[0].correlation_id, "c");
  EXPECT_EQ(found[0].causation_id, "d");
  EXPECT_GE(found[0].at, before);
  EXPECT_EQ(found[1].data, "");
  EXPECT_FALSE(found[1].metadata);
  EXPECT_FALSE(found[1].correlation_id) << "an empty text means none";
  EXPECT_FALSE(found[1].causation_id);
}

TEST_P(EventContract, AnExpectedVersionMustBeTheVersionOfTheStream) {
  const auto one = some_events(1);
  EXPECT_THROW(events.append("s", stream_exists, one), VersionConflict);
  EXPECT_THROW(events.append("s", ExpectedVersion::exactly(1), one), VersionConflict);
  EXPECT_EQ(events.append("s", no_stream, one).version, 1);
  EXPECT_THROW(events.append("s", no_stream, one), VersionConflict);
  EXPECT_EQ(events.append("s", ExpectedVersion::exactly(1), some_events(2)).version, 3);
  EXPECT_EQ(events.append("s", any, one).version, 4);
  EXPECT_EQ(events.append("s", stream_exists, one).version, 5);
  EXPECT_EQ(events.append("t", any, one).version, 1) << "any version, also none";
  EXPECT_THAT(versions_of(events.read("s")), ElementsAre(1, 2, 3, 4, 5));
}

TEST_P(EventContract, AConflictNamesBothVersions) {
  events.append("s", no_stream, some_events(3));
  try {
    events.append("s", ExpectedVersion::exactly(2), some_events(1));
    FAIL();
  } catch (const VersionConflict& conflict) {
    EXPECT_EQ(conflict.stream(), "s");
    EXPECT_EQ(conflict.expected(), ExpectedVersion::exactly(2));
    EXPECT_EQ(conflict.actual(), 3);
    EXPECT_STREQ(conflict.what(), "stream s: expected version 2, actual version 3");
  }
  EXPECT_EQ(platform.metrics().counter("dovetail_events_conflicts_total"), 1U);
}

TEST_P(EventContract, AConflictLeavesTheTransactionUsable) {
  events.append("s", no_stream, some_events(1));
  auto tx = platform.begin();
  EXPECT_THROW(events.append(tx, "s", no_stream, some_events(1)), VersionConflict);
  EXPECT_EQ(events.append(tx, "s", ExpectedVersion::exactly(1), some_events(1)).version, 2);
  EXPECT_EQ(events.append(tx, "other", no_stream, some_events(1)).version, 1);
  tx.commit();
  EXPECT_THAT(versions_of(events.read("s")), ElementsAre(1, 2));
  EXPECT_THAT(events.read("other"), SizeIs(1));
}

TEST_P(EventContract, AnAppendTakesEffectWithItsTransaction) {
  {
    auto tx = platform.begin();
    EXPECT_EQ(events.append(tx, "s", no_stream, some_events(2)).version, 2);
    EXPECT_THAT(versions_of(events.read(tx, "s")), ElementsAre(1, 2)) << "its own events";
    tx.rollback();
  }
  EXPECT_THAT(events.read("s"), IsEmpty());
  EXPECT_FALSE(events.find("s"));
  auto tx = platform.begin();
  EXPECT_EQ(events.append(tx, "s", no_stream, some_events(1)).version, 1);
  tx.commit();
  EXPECT_THAT(versions_of(events.read("s")), ElementsAre(1));
}

TEST_P(EventContract, AnAppendTakesPartInABorrowedTransaction) {
  UserConnection user(backend);
  user.execute(backend.is_postgres() ? "begin" : "begin immediate");
  {
    auto tx = user.borrow();
    EXPECT_EQ(events.append(tx, "s", no_stream, some_events(1)).version, 1);
    EXPECT_THROW(events.append(tx, "s", no_stream, some_events(1)), VersionConflict);
    const std::vector<StreamAppend> both{{.stream = "s", .events = some_events(1)},
                                         {.stream = "t", .events = some_events(1)}};
    EXPECT_EQ(events.append_many(tx, both)[0].version, 2);
  }
  user.execute("commit");
  EXPECT_THAT(versions_of(events.read("s")), ElementsAre(1, 2));
}

TEST_P(EventContract, ARepeatedAppendStoresNothingAndReturnsTheSameVersions) {
  const std::vector<NewEvent> first{{.type = "A", .id = EventId::generate()},
                                    {.type = "B", .id = EventId::generate()}};
  events.append("s", no_stream, first);
  events.append("s", any, some_events(3));
  for (const auto& expected : {no_stream, any, stream_exists, ExpectedVersion::exactly(5)}) {
    const auto again = events.append("s", expected, first);
    EXPECT_EQ(again.first_version, 1) << expected.to_string();
    EXPECT_EQ(again.version, 2);
    EXPECT_FALSE(again.stored);
  }
  EXPECT_THAT(versions_of(events.read("s")), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THROW(events.append("s", no_stream, {{.type = "A", .id = EventId::generate()}}),
               VersionConflict)
      << "other ids";
  events.close("s");
  EXPECT_FALSE(events.append("s", no_stream, first).stored) << "also after the end of the stream";
}

TEST_P(EventContract, AnIdOfAnotherEventIsRefusedAndNothingIsWritten) {
  const auto id = EventId::generate();
  events.append("a", any, {{.type = "T", .id = id}});
  const std::vector<NewEvent> some_known{{.type = "T", .id = EventId::generate()},
                                         {.type = "T", .id = id}};
  EXPECT_THROW(events.append("b", any, {{.type = "T", .id = id}}), InvalidOperation);
  auto transaction = platform.begin();
  EXPECT_THROW(events.append(transaction, "a", any, some_known), InvalidOperation);
  EXPECT_THROW(events.append(transaction, "b", any, some_known), InvalidOperation);
  EXPECT_EQ(events.append(transaction, "b", any, {{.type = "T"}}).version, 1)
      << "the transaction can still be used";
  transaction.commit();
  EXPECT_THAT(events.read("a"), SizeIs(1));
  EXPECT_THAT(events.read("b"), SizeIs(1));
  EXPECT_THROW(events.append("c", any, {{.type = "T", .id = id}, {.type = "T", .id = id}}),
               std::invalid_argument);
}

TEST_P(EventContract, AppendManyWithSomeKnownEventsIsRefused) {
  const auto id = EventId::generate();
  events.append("a", any, {{.type = "T", .id = id}});
  const std::vector<StreamAppend> mixed{
      {.stream = "a", .expected = any, .events = {{.type = "T", .id = id}}},
      {.stream = "b", .expected = any, .events = {{.type = "T", .id = EventId::generate()}}}};
  EXPECT_THROW(events.append_many(mixed), InvalidOperation);
  EXPECT_THAT(events.read("b"), SizeIs(0)) << "nothing is lost silently";
}

TEST_P(EventContract, OneOfManyWritersAppendsAtAVersion) {
  constexpr int writers = 6;
  constexpr int rounds = 5;
  std::atomic<int> conflicts{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < writers; ++i) {
      threads.emplace_back([&] {
        for (int done = 0; done < rounds;) {
          const auto stream = events.find("s");
          try {
            events.append("s", ExpectedVersion::exactly(stream ? stream->version : 0),
                          some_events(1));
            ++done;
          } catch (const VersionConflict&) {
            ++conflicts;
          }
        }
      });
    }
  }
  const auto found = versions_of(events.read("s"));
  ASSERT_THAT(found, SizeIs(writers * rounds));
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], std::int64_t(i) + 1);
}

TEST_P(EventContract, TenThousandAppendsFitIntoATransaction) {
  auto tx = platform.begin();
  for (int i = 0; i < 100; ++i) events.append(tx, "s", any, some_events(100));
  tx.commit();
  EXPECT_EQ(events.find("s")->version, 10'000);
  EXPECT_EQ(events.stamp(), 10'000);
}

// --- several streams

TEST_P(EventContract, AppendManyAppendsToAllStreamsOrToNone) {
  events.append("b", no_stream, some_events(2));
  const std::vector<StreamAppend> appends{
      {.stream = "c", .expected = no_stream, .events = some_events(2)},
      {.stream = "a", .expected = any, .events = some_events(1)},
      {.stream = "b", .expected = ExpectedVersion::exactly(2), .events = some_events(3)}};
  const auto done = events.append_many(appends);
  ASSERT_THAT(done, SizeIs(3));
  EXPECT_EQ(done[0].version, 2);
  EXPECT_EQ(done[1].version, 1);
  EXPECT_EQ(done[2].first_version, 3);
  EXPECT_EQ(done[2].version, 5);
  const std::vector<StreamAppend> again{
      {.stream = "a", .expected = any, .events = some_events(1)},
      {.stream = "b", .expected = ExpectedVersion::exactly(2), .events = some_events(1)}};
  try {
    events.append_many(again);
    FAIL();
  } catch (const VersionConflict& conflict) {
    EXPECT_EQ(conflict.stream(), "b");
    EXPECT_EQ(conflict.actual(), 5);
  }
  EXPECT_EQ(events.find("a")->version, 1) << "all or none";
  EXPECT_THAT(events.append_many({}), IsEmpty());
}

TEST_P(EventContract, ARepeatedAppendManyReturnsTheSameVersions) {
  const std::vector<StreamAppend> appends{
      {.stream = "b", .expected = no_stream, .events = {{.type = "A", .id = EventId::generate()}}},
      {.stream = "a", .events = {{.type = "B", .id = EventId::generate()}}}};
  events.append_many(appends);
  events.append("a", any, some_events(1));
  auto tx = platform.begin();
  const auto again = events.append_many(tx, appends);
  EXPECT_EQ(again[0].version, 1);
  EXPECT_EQ(again[1].version, 1);
  EXPECT_FALSE(again[1].stored);
  tx.commit();
  EXPECT_THAT(events.read("a"), SizeIs(2));
}

TEST_P(EventContract, ConcurrentCallsForTheSameStreamsDoNotDeadlock) {
  constexpr int calls = 20;
  {
    std::vector<std::jthread> threads;
    for (const bool reversed : {false, true}) {
      threads.emplace_back([this, reversed] {
        std::vector<StreamAppend> appends{{.stream = "a", .events = some_events(1)},
                                          {.stream = "b", .events = some_events(1)},
                                          {.stream = "c", .events = some_events(1)}};
        if (reversed) std::ranges::reverse(appends);
        for (int i = 0; i < calls; ++i) events.append_many(appends);
      });
    }
  }
  for (const auto* stream : {"a", "b", "c"}) EXPECT_EQ(events.find(stream)->version, 2 * calls);
  EXPECT_EQ(platform.metrics().counter("dovetail_storage_retries_total"), 0U);
}

// --- arguments

TEST_P(EventContract, BadArgumentsAreRefused) {
  const auto one = some_events(1);
  EXPECT_THROW(events.append("", any, one), std::invalid_argument);
  EXPECT_THROW(events.append(std::string(256, 'x'), any, one), std::invalid_argument);
  EXPECT_THROW(events.append("\xff", any, one), std::invalid_argument);
  EXPECT_THROW(events.append("s", any, {}), std::invalid_argument);
  EXPECT_THROW(events.append("s", any, some_events(10'001)), std::invalid_argument);
  EXPECT_THROW(events.append("s", any, {{.type = ""}}), std::invalid_argument);
  EXPECT_THROW(events.append("s", any, {{.type = std::string(256, 'x')}}), std::invalid_argument);
  EXPECT_THROW(events.append("s", any, {{.type = "T", .data = std::string("a\0b", 3)}}),
               std::invalid_argument);
  EXPECT_THROW(events.append("s", any, {{.type = "T", .data = std::string(1 << 20, 'x') + "x"}}),
               std::invalid_argument);
  EXPECT_THROW(events.append("s", any, {{.type = "T", .correlation_id = std::string(256, 'x')}}),
               std::invalid_argument);
  const auto id = EventId::generate();
  EXPECT_THROW(events.append("s", any, {{.type = "T", .id = id}, {.type = "U", .id = id}}),
               std::invalid_argument);
  const std::vector<StreamAppend> twice{{.stream = "s", .events = one},
                                        {.stream = "s", .events = one}};
  EXPECT_THROW(events.append_many(twice), std::invalid_argument);
  EXPECT_THROW((void)ExpectedVersion::exactly(-1), std::out_of_range);
  EXPECT_THROW((void)events.read("s", {.size = 0}), std::out_of_range);
  EXPECT_THROW((void)events.read_all({.after = -1}), std::out_of_range);
  EXPECT_THROW((void)events.read_all({.scan = 0}), std::out_of_range);
  EXPECT_THROW((void)events.read_all({.types = {""}}), std::invalid_argument);
  EXPECT_THROW(events.store_snapshot({.stream = "s", .name = "", .version = 1}),
               std::invalid_argument);
  EXPECT_THROW(events.store_snapshot({.stream = "s", .name = "n"}), std::out_of_range);
  EXPECT_THAT(events.streams(), IsEmpty());
  auto options = backend.options();
  options.events.max_data_bytes = std::size_t{65} << 20;
  EXPECT_THROW((void)Platform::open(backend.url(), options), std::out_of_range);
}

// --- read

TEST_P(EventContract, AStreamIsReadInPagesForwardsAndBackwards) {
  events.append("s", no_stream, some_events(5));
  EXPECT_THAT(versions_of(events.read("s", {.size = 2})), ElementsAre(1, 2));
  EXPECT_THAT(versions_of(events.read("s", {.from = 3, .size = 2})), ElementsAre(3, 4));
  EXPECT_THAT(versions_of(events.read("s", {.from = 6})), IsEmpty());
  EXPECT_THAT(versions_of(events.read("s", {.backwards = true, .size = 2})), ElementsAre(5, 4));
  EXPECT_THAT(versions_of(events.read("s", {.from = 3, .backwards = true})), ElementsAre(3, 2, 1));
  EXPECT_THAT(events.read("nothing"), IsEmpty());
}

TEST_P(EventContract, StreamsAreListedByPrefixInPages) {
  for (const auto* key : {"order-2", "customer-1", "order-1", "Order-3"})
    events.append(key, no_stream, some_events(1));
  const auto keys = [&](const EventStreamPage& page) {
    std::vector<std::string> found;
    for (const auto& stream : events.streams(page)) found.push_back(stream.key);
    return found;
  };
  EXPECT_THAT(keys({}), ElementsAre("Order-3", "customer-1", "order-1", "order-2"));
  EXPECT_THAT(keys({.prefix = "order-"}), ElementsAre("order-1", "order-2"));
  EXPECT_THAT(keys({.prefix = "order-", .after = "order-1"}), ElementsAre("order-2"));
  EXPECT_THAT(keys({.after = "customer-1", .size = 1}), ElementsAre("order-1"));
  EXPECT_FALSE(events.find("order"));
}

// --- the end of a stream

TEST_P(EventContract, AClosedStreamAcceptsNoEvents) {
  events.append("s", no_stream, some_events(2));
  EXPECT_TRUE(events.close("s"));
  EXPECT_FALSE(events.close("s"));
  EXPECT_THROW(events.append("s", any, some_events(1)), StreamClosed);
  EXPECT_THROW(events.append("s", ExpectedVersion::exactly(2), some_events(1)), StreamClosed);
  const std::vector<StreamAppend> both{{.stream = "a", .events = some_events(1)},
                                       {.stream = "s", .events = some_events(1)}};
  EXPECT_THROW(events.append_many(both), StreamClosed);
  EXPECT_FALSE(events.find("a")) << "all or none";
  EXPECT_THAT(events.read("s"), SizeIs(2));
  EXPECT_TRUE(events.find("s")->closed_at);
  EXPECT_TRUE(events.close("never")) << "a stream without events can be closed";
  EXPECT_THROW(events.append("never", no_stream, some_events(1)), StreamClosed);
}

TEST_P(EventContract, ATruncatedStreamKeepsItsVersions) {
  events.append("s", no_stream, some_events(5));
  EXPECT_EQ(events.truncate("s", 3), 2U);
  EXPECT_EQ(events.truncate("s", 2), 0U);
  EXPECT_THAT(versions_of(events.read("s")), ElementsAre(3, 4, 5));
  EXPECT_EQ(events.find("s")->first_version, 3);
  EXPECT_EQ(events.append("s", ExpectedVersion::exactly(5), some_events(1)).version, 6);
  EXPECT_EQ(events.truncate("s", 100), 3U) << "the last event stays";
  EXPECT_THAT(versions_of(events.read("s")), ElementsAre(6));
  EXPECT_EQ(events.truncate("nothing", 5), 0U);
}

TEST_P(EventContract, AKeyIsNotUsedAgainAfterItsStreamWasDeleted) {
  events.append("s", no_stream, some_events(3));
  ASSERT_TRUE(events.store_snapshot({.stream = "s", .name = "n", .version = 3, .data = "x"}));
  EXPECT_TRUE(events.remove("s"));
  EXPECT_FALSE(events.remove("s"));
  EXPECT_FALSE(events.remove("nothing"));
  EXPECT_THAT(events.read("s"), IsEmpty());
  EXPECT_FALSE(events.find_snapshot("s", "n", 1));
  EXPECT_THROW(events.append("s", no_stream, some_events(1)), StreamClosed);
  EXPECT_THROW(events.append("s", any, some_events(1)), StreamClosed);
  const auto stream = events.find("s");
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->version, 3);
  EXPECT_TRUE(stream->deleted_at);
}

TEST_P(EventContract, TheEndOfAStreamTakesPartInATransaction) {
  events.append("a", no_stream, some_events(3));
  {
    auto tx = platform.begin();
    EXPECT_EQ(events.truncate(tx, "a", 2), 1U);
    EXPECT_TRUE(events.close(tx, "a"));
    EXPECT_TRUE(events.remove(tx, "a"));
    tx.rollback();
  }
  EXPECT_THAT(events.read("a"), SizeIs(3));
  EXPECT_EQ(events.append("a", any, some_events(1)).version, 4);
}

// --- snapshots

TEST_P(EventContract, ASnapshotIsStoredOnlyIfItIsNewer) {
  events.append("s", no_stream, some_events(5));
  const auto store = [&](std::int64_t version, int schema, const std::string& data) {
    return events.store_snapshot(
        {.stream = "s", .name = "n", .version = version, .schema = schema, .data = data});
  };
  EXPECT_TRUE(store(3, 1, "three"));
  EXPECT_FALSE(store(3, 1, "again"));
  EXPECT_FALSE(store(2, 1, "older"));
  EXPECT_TRUE(store(4, 1, "four"));
  EXPECT_EQ(events.find_snapshot("s", "n", 1)->data, "four");
  EXPECT_EQ(events.find_snapshot("s", "n", 1)->version, 4);
  EXPECT_TRUE(store(2, 2, "new format")) << "a higher schema wins";
  EXPECT_FALSE(store(5, 1, "old format"));
  EXPECT_FALSE(events.find_snapshot("s", "n", 1)) << "of another format";
  EXPECT_EQ(events.find_snapshot("s", "n", 2)->data, "new format");
  EXPECT_FALSE(store(6, 3, "x")) << "the stream is not at that version";
  EXPECT_FALSE(events.store_snapshot({.stream = "nothing", .name = "n", .version = 1}));
}

}  // namespace
}  // namespace dovetail::testing
