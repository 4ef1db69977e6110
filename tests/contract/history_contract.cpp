// The history of work: flushes that count once, folding, deletion, and the reader.
#include "history/component.hpp"

#include "storage/rollup_store.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HistoryContract : public BackendTest {
 protected:
  bool flush(std::int64_t number, std::vector<storage::RollupRow> rows, const Uuid& source) {
    bool stored = false;
    database->write({}, [&](storage::WriteSession& session) {
      stored = store.flush(session, {source, number, rows});
    });
    return stored;
  }
  static storage::RollupRow row(const std::string& topic, std::int64_t done,
                                std::chrono::microseconds age = 0s) {
    return {.queue = "outbox",
            .age = age,
            .counts = {.topic = topic,
                       .enqueued = done + 1,
                       .done = done,
                       .retried = 2,
                       .failed = 3,
                       .calls = 4,
                       .handler_time = 5ms,
                       .handler_time_max = std::chrono::milliseconds{done}}};
  }
  std::size_t fold() {
    std::size_t folded = 0;
    database->write({}, [&](storage::WriteSession& session) { folded = store.fold(session, 1h); });
    return folded;
  }
  std::vector<HistoryBucket> buckets(HistoryRequest request = {}) {
    if (request.to == WallTime{}) request.to = backend.now() + 1min;
    if (request.from == WallTime{}) request.from = request.to - 24h;
    return platform.history().buckets(request);
  }

  bool is_known() {
    bool known = false;
    database->read([&](storage::ReadSession& session) { known = backlogs.is_known(session); });
    return known;
  }
  void add_backlog(const std::string& queue, std::int64_t ready, std::int64_t in_progress) {
    database->write({}, [&](storage::WriteSession& session) {
      backlogs.add(session, queue, {.ready = ready, .in_progress = in_progress});
    });
  }
  std::size_t fold_backlog() {
    std::size_t folded = 0;
    database->write({},
                    [&](storage::WriteSession& session) { folded = backlogs.fold(session, 1h); });
    return folded;
  }
  std::vector<BacklogBucket> backlog(HistoryRequest request = {.step = 10s}) {
    request.to = backend.now() + 1min;
    request.from = request.to - 24h;
    return platform.history().backlog(request);
  }

  Platform platform = backend.open();
  std::unique_ptr<storage::Database> database = backend.open_database();
  storage::RollupStore& store = database->store<storage::RollupStore>();
  storage::BacklogStore& backlogs = database->store<storage::BacklogStore>();
  Uuid source = Uuid::random();
};
DOVETAIL_CONTRACT(HistoryContract);

TEST_P(HistoryContract, AFlushCountsOnce) {
  EXPECT_TRUE(flush(1, {row("a", 10), row("b", 20)}, source));
  EXPECT_FALSE(flush(1, {row("a", 10), row("b", 20)}, source)) << "repeated after a doubt";
  const auto all = buckets({.step = 24h});
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].topic, "");
  EXPECT_EQ(all[0].enqueued, 32);
  EXPECT_EQ(all[0].done, 30);
  EXPECT_EQ(all[0].retried, 4);
  EXPECT_EQ(all[0].failed, 6);
  EXPECT_EQ(all[0].calls, 8);
  EXPECT_EQ(all[0].handler_time, 10ms);
  EXPECT_EQ(all[0].handler_time_max, 20ms);
}

TEST_P(HistoryContract, FlushesOfProcessesAreAdded) {
  EXPECT_TRUE(flush(1, {row("a", 1)}, source));
  EXPECT_TRUE(flush(2, {row("a", 2), row("a", 4)}, source)) << "two rows of one bucket";
  EXPECT_TRUE(flush(1, {row("a", 8)}, Uuid::random()));
  const auto all = buckets({.topic = "a", .step = 24h});
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].done, 15);
  EXPECT_EQ(all[0].handler_time_max, 8ms);
  EXPECT_THAT(buckets({.topic = "nothing"}), IsEmpty());
  EXPECT_THAT(buckets({.queue = "inbox"}), IsEmpty());
}

TEST_P(HistoryContract, ARollbackLeavesNothing) {
  try {
    database->write({.once = true}, [&](storage::WriteSession& session) {
      store.flush(session, {source, 1, {row("a", 1)}});
      throw std::runtime_error("no");
    });
  } catch (const std::runtime_error&) {
  }
  EXPECT_THAT(buckets(), IsEmpty());
  EXPECT_TRUE(flush(1, {row("a", 1)}, source));
}

TEST_P(HistoryContract, BucketsAreGroupedByStepAndTopic) {
  EXPECT_TRUE(flush(1, {row("a", 1, 10min), row("a", 2, 5min), row("b", 4, 5min)}, source));
  EXPECT_THAT(buckets({.step = 10s}), SizeIs(2));
  EXPECT_THAT(buckets({.by_topic = true, .step = 10s}), SizeIs(3));
  const auto day = buckets({.by_topic = true, .step = 24h});
  std::int64_t done = 0;
  for (const auto& each : day) done += each.done;
  EXPECT_EQ(done, 7);
}

TEST_P(HistoryContract, AfterAnHourBucketsBecomeMinutes) {
  EXPECT_TRUE(flush(1, {row("a", 1, 0s), row("a", 2, 10s), row("a", 4, 20s)}, source));
  EXPECT_EQ(fold(), 0U) << "too young";
  backend.advance(62min);
  EXPECT_TRUE(flush(2, {row("a", 8)}, source));
  std::size_t folded = 0;
  while (const auto some = fold()) folded += some;
  EXPECT_EQ(folded, 3U);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("rollup") + " where step = 10"),
            1);
  std::int64_t done = 0;
  for (const auto& each : buckets({.step = 10s})) done += each.done;
  EXPECT_EQ(done, 15) << "nothing is lost, and nothing counted twice";
}

TEST_P(HistoryContract, AStartedPlatformCountsFoldsAndDeletes) {
  auto options = backend.options();
  options.worker.lease = 200ms;  // housekeeping runs every second
  auto worker = Platform::open(backend.url(), options);
  EXPECT_TRUE(flush(1, {row("old", 1, 9 * 24h)}, source));
  worker.on("t", [](const Message& message, HandlerContext&) {
    if (message.payload == "bad") throw PermanentFailure("bad");
  });
  worker.start();
  for (const auto* payload : {"", "", "bad"})
    worker.outbox().enqueue({.topic = "t", .payload = payload});
  const auto counted = [&] {
    const auto all = buckets({.topic = "t", .step = 24h});
    return !all.empty() && all.back().enqueued >= 3 && all.back().done >= 2 &&
           all.back().failed >= 1 && all.back().calls >= 3;
  };
  EXPECT_TRUE(eventually(counted));
  EXPECT_TRUE(eventually([&] {
    return backend.number("select count(*) from " + backend.table("rollup") +
                          " where topic = 'old'") == 0;
  }));
}

TEST_P(HistoryContract, APlatformWithoutHistoryCountsNothing) {
  auto options = backend.options();
  options.worker.lease = 200ms;
  options.history.enabled = false;
  auto worker = Platform::open(backend.url(), options);
  std::atomic<int> handled{0};
  worker.on("t", [&](const Message&, HandlerContext&) { ++handled; });
  worker.start();
  worker.outbox().enqueue({.topic = "t"});
  EXPECT_TRUE(eventually([&] { return handled == 1; }));
  worker.stop();
  EXPECT_THAT(buckets(), IsEmpty());
}

// --- the backlog

TEST_P(HistoryContract, TheBacklogOfABucketIsTheLargest) {
  EXPECT_FALSE(is_known());
  add_backlog("outbox", 5, 1);
  EXPECT_TRUE(is_known());
  add_backlog("outbox", 3, 2);
  add_backlog("inbox", 7, 0);
  const auto found = backlog();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].ready, 5);
  EXPECT_EQ(found[0].in_progress, 2);
  backend.advance(10s);
  EXPECT_FALSE(is_known());
  add_backlog("outbox", 0, 0);
  EXPECT_THAT(backlog(), SizeIs(2)) << "nothing to do is known, too";
  EXPECT_EQ(backlog({.step = 24h}).back().ready, 5);
}

TEST_P(HistoryContract, TheBacklogBecomesMinutesAndIsDeleted) {
  for (const std::int64_t ready : {1, 9, 4}) {
    add_backlog("outbox", ready, 0);
    backend.advance(10s);
  }
  backend.advance(62min);
  std::size_t folded = 0;
  while (const auto some = fold_backlog()) folded += some;
  EXPECT_EQ(folded, 3U);
  const auto minutes = backlog({.step = 60s});
  ASSERT_FALSE(minutes.empty());
  EXPECT_LE(minutes.size(), 2U);
  EXPECT_EQ(backlog({.step = 24h}).front().ready, 9);
  database->write({}, [&](storage::WriteSession& session) {
    EXPECT_EQ(backlogs.purge(session, 24h, 100), 0U);
    EXPECT_EQ(backlogs.purge(session, 1min, 100), minutes.size());
  });
  EXPECT_THAT(backlog(), IsEmpty());
}

TEST_P(HistoryContract, AStartedPlatformCountsTheBacklog) {
  auto options = backend.options();
  options.worker.lease = 200ms;  // housekeeping runs every second
  auto worker = Platform::open(backend.url(), options);
  for (int i = 0; i < 3; ++i) worker.outbox().enqueue({.topic = "nobody handles it"});
  worker.start();
  EXPECT_TRUE(eventually([&] {
    const auto found = backlog({.step = 24h});
    return !found.empty() && found.back().ready == 3;
  }));
}

TEST_P(HistoryContract, WrongRequestsAreRefused) {
  const auto now = backend.now();
  auto& history = platform.history();
  EXPECT_THROW((void)history.buckets({.from = now, .to = now}), std::invalid_argument);
  EXPECT_THROW((void)history.buckets({.from = now - 1h, .to = now, .step = 9s}), std::out_of_range);
  EXPECT_THROW((void)history.buckets({.from = now - 1h, .to = now, .step = 15s}),
               std::out_of_range);
  EXPECT_THROW((void)history.buckets({.from = now - 72h, .to = now, .step = 10s}),
               std::out_of_range);
  EXPECT_THROW((void)history.backlog({.topic = "t", .from = now - 1h, .to = now}),
               std::invalid_argument);
  EXPECT_THROW((void)history.backlog({.by_topic = true, .from = now - 1h, .to = now}),
               std::invalid_argument);
}

}  // namespace
}  // namespace dovetail::testing
