// The table of instances, and topics that no instance handles.
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/host.hpp"
#include "runtime/instance.hpp"
#include "storage/instance_store.hpp"
#include "support/eventually.hpp"
#include "support/outbox_test.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CountedMetrics final : public MetricsSink {
 public:
  void count(std::string_view name, std::uint64_t by, std::span<const MetricLabel>) override {
    std::lock_guard lock(mutex_);
    counts_[std::string{name}] += by;
  }
  void time(std::string_view, std::chrono::nanoseconds, std::span<const MetricLabel>) override {}
  std::uint64_t of(const std::string& name) {
    std::lock_guard lock(mutex_);
    return counts_[name];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> counts_;
};

class InstanceContract : public OutboxTest {
 protected:
  Instances& instances() { return platform.instances(); }
  std::size_t listed() { return instances().list().size(); }

  /// A row of another process.
  InstanceId add(const std::vector<InstanceQueue>& queues,
                 InstanceState state = InstanceState::running) {
    const storage::InstanceEntry entry{.id = InstanceId::generate(),
                                       .host = "elsewhere",
                                       .pid = 7,
                                       .version = "1.0",
                                       .handlers = storage::handlers_json(queues),
                                       .started_at = std::nullopt};
    database->write({}, [&](storage::WriteSession& session) {
      database->store<storage::InstanceStore>().beat(session, entry, state);
    });
    return entry.id;
  }
  void forget(InstanceId id) {
    database->write({}, [&](storage::WriteSession& session) {
      database->store<storage::InstanceStore>().remove(session, id);
    });
  }
  std::vector<std::string> unhandled(const UnhandledTopicsRequest& request = {}) {
    std::vector<std::string> topics;
    for (const auto& each : instances().unhandled_topics(request)) {
      topics.push_back(each.queue + " " + each.topic + " " + std::to_string(each.seen));
    }
    return topics;
  }
  /// The service of a started Platform, with short intervals.
  std::unique_ptr<runtime::Instance> service(const runtime::InstanceOptions& options,
                                             const std::vector<InstanceQueue>& queues = {}) {
    auto instance = std::make_unique<runtime::Instance>(*database, queues, options, Logger{log},
                                                        Metrics{metrics});
    instance->start();
    return instance;
  }
  static constexpr runtime::InstanceOptions quick{.heartbeat = milliseconds{10},
                                                  .look_interval = milliseconds{10}};

  std::shared_ptr<RecordedLines> log = std::make_shared<RecordedLines>();
  std::shared_ptr<CountedMetrics> metrics = std::make_shared<CountedMetrics>();
  std::unique_ptr<storage::Database> database = backend.open_database();
};
DOVETAIL_CONTRACT(InstanceContract);

// --- a started platform

TEST_P(InstanceContract, AStartedPlatformIsListedUntilItHasStopped) {
  EXPECT_THAT(instances().list(), IsEmpty());
  auto worker = backend.open();
  worker.on("b", [](const Message&, HandlerContext&) {});
  worker.on("a", [](const Message&, HandlerContext&) {});
  worker.on_any_inbox([](const InboxMessage&, HandlerContext&) {});
  worker.start();
  ASSERT_TRUE(eventually([&] { return listed() == 1; }));
  const auto found = instances().list().at(0);
  EXPECT_EQ(found.host, core::host_name());
  EXPECT_EQ(found.pid, ::getpid());
  EXPECT_EQ(found.version, version());
  EXPECT_EQ(found.state, InstanceState::running);
  EXPECT_FALSE(found.stale);
  EXPECT_LE(found.started_at, backend.now());
  EXPECT_GT(found.started_at, backend.now() - minutes{5});
  EXPECT_GE(found.heartbeat_at, found.started_at);
  EXPECT_THAT(found.queues, ElementsAre(InstanceQueue{"inbox", {}, true},
                                        InstanceQueue{"outbox", {"a", "b", "join.wait"}, false}));
  EXPECT_TRUE(worker.stop());
  EXPECT_THAT(instances().list(), IsEmpty());
}

TEST_P(InstanceContract, AHandlerOfAllTopicsIsShown) {
  auto worker = backend.open();
  worker.on_any([](const Message&, HandlerContext&) {});
  worker.start();
  ASSERT_TRUE(eventually([&] { return listed() == 1; }));
  EXPECT_THAT(instances().list().at(0).queues,
              ElementsAre(InstanceQueue{"outbox", {"join.wait"}, true}));
}

TEST_P(InstanceContract, AStoppingPlatformIsDrainingUntilItsHandlersHaveEnded) {
  std::atomic<bool> begun{false};
  std::atomic<bool> may_end{false};
  {
    auto worker = backend.open();
    worker.on("slow", [&](const Message&, HandlerContext&) {
      begun = true;
      EXPECT_TRUE(eventually([&] { return may_end.load(); }));
    });
    outbox.enqueue({.topic = "slow"});
    worker.start();
    ASSERT_TRUE(eventually([&] { return begun && listed() == 1; }));
    EXPECT_FALSE(worker.stop(milliseconds{0}));
    EXPECT_TRUE(
        eventually([&] { return instances().list().at(0).state == InstanceState::draining; }));
    may_end = true;
  }
  EXPECT_THAT(instances().list(), IsEmpty());
}

// --- the service

TEST_P(InstanceContract, HeartbeatsKeepAnInstanceLive) {
  const auto instance = service({.heartbeat = milliseconds{10}});
  ASSERT_TRUE(eventually([&] { return listed() == 1; }));
  const auto first = instances().list().at(0);
  backend.advance(minutes{10});
  ASSERT_TRUE(eventually([&] { return !instances().list().at(0).stale; }));
  const auto later = instances().list().at(0);
  EXPECT_EQ(later.id, instance->id());
  EXPECT_EQ(later.started_at, first.started_at);
  EXPECT_GE(later.heartbeat_at - first.heartbeat_at, minutes{10});
}

TEST_P(InstanceContract, AnInstanceWithoutHeartbeatsIsStaleAfterNinetySeconds) {
  add({});
  backend.advance(seconds{80});
  EXPECT_FALSE(instances().list().at(0).stale);
  backend.advance(seconds{11});
  EXPECT_TRUE(instances().list().at(0).stale);
}

TEST_P(InstanceContract, InstancesWithoutAHeartbeatForAnAgeArePurged) {
  add({});
  backend.advance(minutes{59});
  const auto young = add({});
  EXPECT_EQ(instances().purge(std::chrono::hours{1}), 0U);
  backend.advance(minutes{2});
  EXPECT_EQ(instances().purge(std::chrono::hours{1}), 1U);
  ASSERT_THAT(instances().list(), SizeIs(1));
  EXPECT_EQ(instances().list().at(0).id, young);
  EXPECT_THROW(instances().purge(seconds{-1}), std::out_of_range);
}

TEST_P(InstanceContract, AMissingRowIsInsertedAgain) {
  const auto instance = service({.heartbeat = milliseconds{10}}, {{"outbox", {"a"}, false}});
  ASSERT_TRUE(eventually([&] { return listed() == 1; }));
  const auto first = instances().list().at(0);
  backend.sql("delete from " + backend.table("instance"));
  ASSERT_TRUE(eventually([&] { return listed() == 1; }));
  const auto again = instances().list().at(0);
  EXPECT_EQ(again.id, first.id);
  EXPECT_EQ(again.started_at, first.started_at);
  EXPECT_EQ(again.queues, first.queues);
}

TEST_P(InstanceContract, AFailureIsLoggedOnceAndRetried) {
  const auto instance = service({.heartbeat = milliseconds{10}});
  ASSERT_TRUE(eventually([&] { return listed() == 1; }));
  const auto table = backend.table("instance");
  backend.sql("alter table " + table + " rename to " +
              (backend.is_postgres() ? "away" : table + "_away"));
  ASSERT_TRUE(eventually([&] { return metrics->of("dovetail_heartbeat_failed_total") >= 3; }));
  EXPECT_EQ(log->count("instance.heartbeat_failed"), 1);
  backend.sql(backend.is_postgres() ? "alter table " + backend.table("away") + " rename to instance"
                                    : "alter table " + table + "_away rename to " + table);
  ASSERT_TRUE(eventually([&] { return log->count("instance.heartbeat_recovered") == 1; }));
  instance->stop(MonoTime{});
  EXPECT_THAT(instances().list(), IsEmpty());
}

TEST_P(InstanceContract, LeavingDoesNotWaitForADatabaseThatDoesNotAnswer) {
  const auto instance = service({.heartbeat = milliseconds{10}, .patience = milliseconds{50}});
  ASSERT_TRUE(eventually([&] { return listed() == 1; }));
  UserConnection other(backend);
  other.execute(backend.is_postgres()
                    ? "begin; lock table " + backend.table("instance") + " in access exclusive mode"
                    : "begin immediate");
  instance->request_stop();
  instance->stop(MonoTime{});  // returns although the lock is held
  other.execute("rollback");
}

TEST_P(InstanceContract, AnInstanceThatHasLeftRemovesItsRowOnce) {
  runtime::Instance instance(*database, {}, {.heartbeat = milliseconds{10}}, Logger{log},
                             Metrics{});
  instance.step({});
  ASSERT_EQ(listed(), 1);
  instance.leave_now();
  EXPECT_EQ(listed(), 0);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(instance.step(stopped.get_token()), MonoTime::max());
  EXPECT_EQ(log->count("instance.not_removed"), 0);
}

TEST_P(InstanceContract, HandlersThatHoldAllConnectionsDoNotDelayHeartbeats) {
  if (database->transactions_exclude_writers())
    GTEST_SKIP() << "an open transaction excludes all writers";
  auto small = backend.open_database({.max_connections = 1});
  const auto held = small->begin();
  runtime::Instance instance(*small, {}, {.heartbeat = milliseconds{10}}, Logger{log}, Metrics{});
  instance.start();
  EXPECT_TRUE(eventually([&] { return listed() == 1; }));
}

// --- topics that no instance handles

TEST_P(InstanceContract, ATopicThatNoLiveInstanceHandlesIsFoundAfterAMinute) {
  outbox.enqueue({.topic = "t"});
  outbox.enqueue({.topic = "t", .priority = 5});
  outbox.enqueue({.topic = "later", .due_at = backend.now() + minutes{10}});
  platform.inbox().enqueue({.topic = "i", .source = "s", .message_id = "1"});
  EXPECT_THAT(unhandled(), IsEmpty());
  backend.advance(seconds{30});
  outbox.enqueue({.topic = "t"});
  backend.advance(seconds{31});
  EXPECT_THAT(unhandled(), ::testing::UnorderedElementsAre("outbox t 2", "inbox i 1"));
  const auto found = instances().unhandled_topics();
  EXPECT_GE(found.at(0).oldest_wait, seconds{61});
  EXPECT_LT(found.at(0).oldest_wait, minutes{5});
  EXPECT_THAT(unhandled({.waiting = minutes{2}}), IsEmpty());
}

TEST_P(InstanceContract, ATopicIsHandledWhileALiveInstanceRunsAHandlerForIt) {
  outbox.enqueue({.topic = "t"});
  backend.advance(seconds{61});
  const auto other = add({{"inbox", {"t"}, true}, {"outbox", {"u"}, false}});
  EXPECT_THAT(unhandled(), ElementsAre("outbox t 1"));
  const auto own = add({{"outbox", {"t"}, false}});
  EXPECT_THAT(unhandled(), IsEmpty());
  backend.advance(seconds{91});
  EXPECT_THAT(unhandled(), ElementsAre("outbox t 1")) << "the instance is stale";
  const auto any = add({{"outbox", {}, true}});
  EXPECT_THAT(unhandled(), IsEmpty());
  for (const auto id : {other, own, any}) forget(id);
  add({{"outbox", {"t"}, true}}, InstanceState::draining);
  EXPECT_THAT(unhandled(), ElementsAre("outbox t 1")) << "the instance claims no more";
}

TEST_P(InstanceContract, ClaimedAndPausedMessagesDoNotCountAsUnhandled) {
  outbox.enqueue({.topic = "claimed"});
  ASSERT_THAT(claim(10, minutes{2}), SizeIs(1));
  outbox.enqueue({.topic = "paused"});
  outbox.pause("paused");
  backend.advance(seconds{61});
  EXPECT_THAT(unhandled(), IsEmpty());
  backend.advance(seconds{61});
  EXPECT_THAT(unhandled(), ElementsAre("outbox claimed 1")) << "its lease has expired";
}

TEST_P(InstanceContract, OnlyTheFrontOfEachPriorityIsLookedAt) {
  for (const auto* topic : {"a", "a", "a", "b"}) outbox.enqueue({.topic = topic});
  outbox.enqueue({.topic = "urgent", .priority = 3});
  backend.advance(seconds{61});
  EXPECT_THAT(unhandled({.scan_limit = 2}),
              ::testing::UnorderedElementsAre("outbox a 2", "outbox urgent 1"));
  EXPECT_THAT(unhandled(), SizeIs(3));
}

TEST_P(InstanceContract, BadRequestsAreRefused) {
  EXPECT_THROW((void)unhandled({.waiting = milliseconds{-1}}), std::out_of_range);
  EXPECT_THROW((void)unhandled({.waiting = std::chrono::hours{24 * 366}}), std::out_of_range);
  EXPECT_THROW((void)unhandled({.scan_limit = 0}), std::out_of_range);
  EXPECT_THROW((void)unhandled({.scan_limit = 1'000'001}), std::out_of_range);
}

TEST_P(InstanceContract, AnUnhandledTopicIsWarnedAboutOnceAndCounted) {
  outbox.enqueue({.topic = "t"});
  outbox.enqueue({.topic = "t"});
  outbox.enqueue({.topic = "own"});
  platform.inbox().enqueue({.topic = "i", .source = "s", .message_id = "1"});
  const auto instance = service(quick, {{"outbox", {"own"}, false}});
  ASSERT_TRUE(eventually([&] { return listed() == 1; }));
  backend.advance(seconds{61});
  ASSERT_TRUE(eventually([&] { return metrics->of("dovetail_topic_unhandled_total") >= 6; }));
  EXPECT_EQ(log->count("outbox.topic_unhandled"), 1);
  EXPECT_EQ(log->count("inbox.topic_unhandled"), 1);
  EXPECT_THAT(log->all(),
              Contains(AllOf(HasSubstr("warn outbox.topic_unhandled"),
                             HasSubstr("store=" + platform.name()), HasSubstr("topic=t"),
                             HasSubstr("count=2"), HasSubstr("oldest_wait_ms="))));
}

TEST_P(InstanceContract, AnUnhandledTopicIsWarnedAboutAgainAfterAWhile) {
  outbox.enqueue({.topic = "t"});
  backend.advance(seconds{61});
  auto options = quick;
  options.warn_again = milliseconds{1};
  const auto instance = service(options);
  EXPECT_TRUE(eventually([&] { return log->count("outbox.topic_unhandled") >= 2; }));
}

TEST_P(InstanceContract, AQueueThatCannotBeReadIsLoggedOnceAndTheOtherWatched) {
  outbox.enqueue({.topic = "t"});
  backend.advance(seconds{61});
  backend.sql("drop table " + backend.table("inbox") + (backend.is_postgres() ? " cascade" : ""));
  const auto instance = service(quick);
  EXPECT_TRUE(eventually([&] { return metrics->of("dovetail_topic_unhandled_total") >= 3; }));
  EXPECT_TRUE(eventually([&] { return metrics->of("dovetail_topic_check_failed_total") >= 3; }));
  EXPECT_EQ(log->count("instance.look_failed"), 1);
}

}  // namespace
}  // namespace dovetail::testing
