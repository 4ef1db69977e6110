// Subscriptions: order, exactly once, filters, parts, failures, operation.
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "storage/subscription_store.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/health_reports.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

/// The events that handlers have seen, as "stream/version".
class SeenEvents {
 public:
  void add(const Event& event) {
    const std::lock_guard lock(mutex_);
    all_.push_back(event.stream + "/" + std::to_string(event.version));
  }
  [[nodiscard]] std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  [[nodiscard]] std::size_t size() const { return all().size(); }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

class EventSubscriptionContract : public BackendTest {
 protected:
  void append(const std::string& stream, int count = 1, const std::string& type = "T") {
    for (int i = 0; i < count; ++i)
      platform.events().append(stream, ExpectedVersion::any(), {{.type = type}});
  }
  SubscriptionHandler record() {
    return [this](std::span<const Event> batch, SubscriptionContext&) {
      for (const auto& event : batch) seen.add(event);
    };
  }
  /// Fails for the streams in `bad`.
  SubscriptionHandler record_or_fail() {
    return [this](std::span<const Event> batch, SubscriptionContext&) {
      for (const auto& event : batch) {
        const std::lock_guard lock(bad_mutex);
        if (bad.contains(event.stream)) {
          ++failures;
          throw std::runtime_error("bad " + event.stream);
        }
      }
      for (const auto& event : batch) seen.add(event);
    };
  }
  void set_bad(std::set<std::string> streams) {
    const std::lock_guard lock(bad_mutex);
    bad = std::move(streams);
  }
  bool caught_up(const std::string& name = "s") {
    return events.wait_for(name, events.stamp(), 30s);
  }
  HealthStatus status_of_subscriptions() {
    return check_named(platform.health().all(), "subscriptions").status;
  }
  static SubscriptionOptions failing(SubscriptionFailure policy) {
    return {.on_failure = policy, .max_attempts = 2, .backoff = [](int) { return 1ms; }};
  }

  // Handlers use these. They are destroyed after the platform.
  SeenEvents seen;
  std::mutex bad_mutex;
  std::set<std::string> bad;
  std::atomic<int> failures{0};
  Platform platform = backend.open();
  Events& events = platform.events();
  Subscriptions& subscriptions = events.subscriptions();
};
DOVETAIL_CONTRACT(EventSubscriptionContract);

// --- order and start

TEST_P(EventSubscriptionContract, AHandlerGetsAllEventsInTheirOrder) {
  append("a", 3);
  append("b");
  std::atomic<std::size_t> largest{0};
  events.subscribe("s", {.batch_size = 2},
                   [&](std::span<const Event> batch, SubscriptionContext& context) {
                     largest = std::max(largest.load(), batch.size());
                     EXPECT_EQ(context.subscription(), "s");
                     EXPECT_EQ(context.part(), 0);
                     EXPECT_GT(context.epoch(), 0);
                     EXPECT_EQ(context.database(), platform.name());
                     for (const auto& event : batch) seen.add(event);
                   });
  platform.start();
  EXPECT_TRUE(eventually([&] { return seen.size() == 4; }));
  append("a");
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "a/2", "a/3", "b/1", "a/4"));
  EXPECT_EQ(largest, 2U);
}

TEST_P(EventSubscriptionContract, ASubscriptionBeginsWhereItIsToldAndContinuesWhereItStopped) {
  append("a", 3);
  events.subscribe("now", {.start = SubscriptionStart::now()}, record());
  events.subscribe("after", {.start = SubscriptionStart::after(2)},
                   [](std::span<const Event>, SubscriptionContext&) {});
  platform.start();
  ASSERT_TRUE(eventually([&] { return subscriptions.find("now").has_value(); }));
  append("a");
  EXPECT_TRUE(caught_up("now"));
  EXPECT_TRUE(caught_up("after"));
  EXPECT_THAT(seen.all(), ElementsAre("a/4"));
  platform.stop();
  append("b");
  auto second = backend.open();
  second.events().subscribe("now", {.start = SubscriptionStart::beginning()}, record());
  second.start();
  EXPECT_TRUE(caught_up("now"));
  EXPECT_THAT(seen.all(), ElementsAre("a/4", "b/1"));
}

TEST_P(EventSubscriptionContract, AFilteredSubscriptionRecordsItsProgressWhereNothingMatches) {
  append("order-1", 2);
  append("order-1", 1, "Rare");
  append("customer-1", 1, "Rare");
  append("order-1", 3);
  events.subscribe("s", {.types = {"Rare"}, .prefixes = {"order-"}}, record());
  platform.start();
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("order-1/3"));
  const auto status = subscriptions.find("s");
  EXPECT_EQ(status->position, 7);
  EXPECT_EQ(status->lag, 0);
  EXPECT_THAT(status->types, ElementsAre("Rare"));
  EXPECT_THAT(status->prefixes, ElementsAre("order-"));
}

// --- exactly once

TEST_P(EventSubscriptionContract, WritesOfTheTransactionTakeEffectWithThePosition) {
  const auto table = backend.table("note");
  backend.sql("create table " + table + " (position bigint)");
  append("a", 5);
  std::atomic<int> calls{0};
  events.subscribe("s", {.batch_size = 1, .backoff = [](int) { return 1ms; }},
                   [&](std::span<const Event> batch, SubscriptionContext& context) {
                     context.transaction().execute("insert into " + table + " values ($1)",
                                                   batch.front().position);
                     EXPECT_THROW(context.transaction().commit(), InvalidOperation);
                     if (++calls % 2 == 1) throw std::runtime_error("after the write");
                   });
  platform.start();
  EXPECT_TRUE(caught_up());
  EXPECT_EQ(backend.number("select count(*) from " + table), 5);
  EXPECT_EQ(backend.number("select count(distinct position) from " + table), 5);
  EXPECT_EQ(calls, 10);
}

TEST_P(EventSubscriptionContract, AnOwnerWhoseLeaseWasTakenMovesNothing) {
  append("a", 3);
  events.stamp();
  const auto database = backend.open_database();
  auto& store = database->store<storage::SubscriptionStore>();
  const std::vector<std::string> all;
  const auto first = OwnerToken::generate();
  std::optional<storage::PartLease> old;
  std::optional<storage::PartLease> taken;
  const auto write = [&](const auto& body) {
    bool done = false;
    database->write({}, [&](storage::WriteSession& session) { done = body(session); });
    return done;
  };
  write([&](auto& session) {
    store.create(session, {.name = "s", .types = all, .prefixes = all, .on_failure = "retry"});
    old = store.acquire(session, "s", 0, first, 10s);
    return old.has_value();
  });
  ASSERT_TRUE(old);
  const auto take = [&](auto& session) {
    taken = store.acquire(session, "s", 0, OwnerToken::generate(), 10s);
    return taken.has_value();
  };
  EXPECT_FALSE(write(take)) << "it is held";
  EXPECT_TRUE(write([&](auto& session) { return store.renew(session, *old, 10s); }));
  backend.advance(11s);
  EXPECT_TRUE(write(take));
  EXPECT_GT(taken->epoch, old->epoch);
  EXPECT_FALSE(write([&](auto& session) { return store.renew(session, *old, 10s); }));
  EXPECT_FALSE(write([&](auto& session) { return store.advance(session, *old, {0, 2}); }));
  EXPECT_FALSE(
      write([&](auto& session) { return store.fail(session, *old, "x", 1s, false).has_value(); }));
  EXPECT_FALSE(write([&](auto& session) {
    return store.park(session, *old, {0, 1}, ParkedKind::event, "x");
  }));
  EXPECT_FALSE(write([&](auto& session) { return store.move_parked(session, *old, 1, {}); }));
  EXPECT_FALSE(write([&](auto& session) { return store.release(session, *old); }));
  EXPECT_TRUE(write([&](auto& session) { return store.advance(session, *taken, {0, 2}); }));
  EXPECT_FALSE(write([&](auto& session) {
    return store.advance(session, *taken, {0, 3});
  })) << "from another position";
  EXPECT_EQ(subscriptions.find("s")->position, 2);
}

TEST_P(EventSubscriptionContract, AnotherProcessContinuesAfterAStop) {
  events.subscribe("s", {}, record());
  platform.start();
  auto second = backend.open();
  second.events().subscribe("s", {}, record());
  second.start();
  append("a", 3);
  EXPECT_TRUE(caught_up());
  EXPECT_TRUE(platform.stop());
  append("a", 3);
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "a/2", "a/3", "a/4", "a/5", "a/6"));
}

// --- parts

TEST_P(EventSubscriptionContract, PartsKeepTheOrderOfEachStream) {
  for (int version = 0; version < 5; ++version) {
    for (int stream = 0; stream < 8; ++stream) append("s" + std::to_string(stream));
  }
  events.subscribe("s", {.parts = 4, .batch_size = 3}, record());
  platform.start();
  EXPECT_TRUE(caught_up());
  std::map<std::string, int> last;
  for (const auto& name : seen.all()) {
    const auto slash = name.find('/');
    EXPECT_EQ(std::stoi(name.substr(slash + 1)), ++last[name.substr(0, slash)]) << name;
  }
  EXPECT_THAT(seen.all(), SizeIs(40));
  EXPECT_THAT(subscriptions.parts("s"), SizeIs(4));
}

TEST_P(EventSubscriptionContract, PartsThatAreBehindAreFinishedWhenThereAreFewerParts) {
  for (int stream = 0; stream < 12; ++stream) append("s" + std::to_string(stream), 2);
  set_bad({"s3", "s7", "s11"});
  {
    auto first = backend.open();
    first.events().subscribe("s", {.parts = 5, .backoff = [](int) { return 1ms; }},
                             record_or_fail());
    first.start();
    EXPECT_TRUE(eventually([&] { return failures > 3 && seen.size() >= 4; }));
    first.stop();
  }
  set_bad({});
  append("s0");
  auto second = backend.open();
  second.events().subscribe("s", {.parts = 2}, record_or_fail());
  second.start();
  EXPECT_TRUE(eventually([&] {
    const auto status = subscriptions.find("s");
    return status && status->parts == 2 && !status->next_parts;
  }));
  EXPECT_TRUE(caught_up());
  std::map<std::string, int> last;
  for (const auto& name : seen.all()) {
    const auto slash = name.find('/');
    EXPECT_EQ(std::stoi(name.substr(slash + 1)), ++last[name.substr(0, slash)]) << name;
  }
  EXPECT_THAT(seen.all(), SizeIs(25)) << "each event once";
}

TEST_P(EventSubscriptionContract, TheNumberOfPartsCanBeChanged) {
  const auto run_with = [&](int parts) {
    auto other = backend.open();
    other.events().subscribe("s", {.parts = parts, .batch_size = 2}, record());
    other.start();
    for (int stream = 0; stream < 10; ++stream) append("s" + std::to_string(stream), 2);
    EXPECT_TRUE(eventually([&] {
      const auto status = subscriptions.find("s");
      return status && status->parts == parts && !status->next_parts;
    }));
    EXPECT_TRUE(caught_up());
    EXPECT_THAT(subscriptions.parts("s"), SizeIs(parts));
    other.stop();
  };
  run_with(4);
  run_with(7);
  run_with(1);
  std::map<std::string, int> last;
  for (const auto& name : seen.all()) {
    const auto slash = name.find('/');
    EXPECT_EQ(std::stoi(name.substr(slash + 1)), ++last[name.substr(0, slash)]) << name;
  }
  EXPECT_THAT(seen.all(), SizeIs(60)) << "each event once";
}

// --- failures

TEST_P(EventSubscriptionContract, AnEventThatFailsIsRetriedBeforeTheEventsBehindIt) {
  append("a");
  append("bad");
  append("a");
  set_bad({"bad"});
  events.subscribe("s", failing(SubscriptionFailure::retry), record_or_fail());
  platform.start();
  EXPECT_TRUE(eventually([&] { return failures >= 5; }));
  EXPECT_THAT(seen.all(), ElementsAre("a/1"));
  const auto status = subscriptions.find("s");
  EXPECT_GE(status->attempts, 1);
  EXPECT_EQ(status->last_error, "bad bad");
  set_bad({});
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "bad/1", "a/2"));
  EXPECT_EQ(subscriptions.find("s")->attempts, 0);
}

TEST_P(EventSubscriptionContract, AStoppedSubscriptionContinuesWhenItIsResumed) {
  append("bad");
  append("a");
  set_bad({"bad"});
  events.subscribe("s", failing(SubscriptionFailure::stop), record_or_fail());
  platform.start();
  EXPECT_TRUE(eventually([&] {
    const auto status = subscriptions.find("s");
    return status && status->stopped_at;
  }));
  EXPECT_EQ(status_of_subscriptions(), HealthStatus::degraded);
  EXPECT_THAT(seen.all(), IsEmpty());
  set_bad({});
  EXPECT_TRUE(subscriptions.resume("s"));
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("bad/1", "a/1"));
  EXPECT_FALSE(subscriptions.resume("s"));
}

TEST_P(EventSubscriptionContract, AParkedEventIsHandledAgainWhenItIsResumed) {
  append("a");
  append("bad");
  append("a");
  set_bad({"bad"});
  events.subscribe("s", failing(SubscriptionFailure::park_event), record_or_fail());
  platform.start();
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "a/2"));
  EXPECT_EQ(failures, 3) << "once in its batch, and twice alone";
  const auto parked = subscriptions.parked("s");
  ASSERT_THAT(parked, SizeIs(1));
  EXPECT_EQ(parked[0].position, 2);
  EXPECT_EQ(parked[0].stream, "bad");
  EXPECT_EQ(parked[0].kind, ParkedKind::event);
  EXPECT_EQ(parked[0].error, "bad bad");
  EXPECT_EQ(parked[0].attempts, 2);
  EXPECT_EQ(subscriptions.resume_parked("s", "other"), 0U);
  EXPECT_EQ(subscriptions.resume_parked("s"), 1U);
  EXPECT_TRUE(eventually([&] {  // it fails again, and is parked again
    const auto again = subscriptions.parked("s");
    return again.size() == 1 && again[0].attempts == 3 && !again[0].resumed_at;
  }));
  set_bad({});
  EXPECT_EQ(subscriptions.resume_parked("s", "bad"), 1U);
  EXPECT_TRUE(eventually([&] { return subscriptions.parked("s").empty(); }));
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "a/2", "bad/1"));
}

TEST_P(EventSubscriptionContract, AParkedStreamWaitsAndContinuesInOrder) {
  append("a");
  append("bad", 2);
  append("a");
  set_bad({"bad"});
  events.subscribe("s", failing(SubscriptionFailure::park_stream), record_or_fail());
  platform.start();
  EXPECT_TRUE(caught_up());
  append("bad", 2);
  append("a");
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "a/2", "a/3"));
  EXPECT_EQ(status_of_subscriptions(), HealthStatus::degraded);
  const auto parked = subscriptions.parked("s");
  ASSERT_THAT(parked, SizeIs(1));
  EXPECT_EQ(parked[0].kind, ParkedKind::stream);
  EXPECT_EQ(parked[0].version, 1);
  set_bad({});
  EXPECT_EQ(subscriptions.resume_parked("s", "bad"), 1U);
  EXPECT_TRUE(eventually([&] { return subscriptions.parked("s").empty(); }));
  append("bad");
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(),
              ElementsAre("a/1", "a/2", "a/3", "bad/1", "bad/2", "bad/3", "bad/4", "bad/5"));
}

TEST_P(EventSubscriptionContract, APermanentFailureIsNotRetried) {
  append("bad");
  std::atomic<int> calls{0};
  auto options = failing(SubscriptionFailure::park_event);
  options.max_attempts = 100;
  events.subscribe("s", options, [&](std::span<const Event>, SubscriptionContext&) {
    ++calls;
    throw PermanentFailure("never");
  });
  platform.start();
  EXPECT_TRUE(caught_up());
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(subscriptions.parked("s"), SizeIs(1));
}

TEST_P(EventSubscriptionContract, ASkippedEventIsNotHandled) {
  append("a", 2);
  append("bad");
  append("a");
  set_bad({"bad"});
  events.subscribe("s", failing(SubscriptionFailure::retry), record_or_fail());
  events.stamp();
  EXPECT_FALSE(subscriptions.skip("s", 3)) << "there is no subscription yet";
  platform.start();
  EXPECT_TRUE(eventually([&] { return failures >= 3; }));
  EXPECT_FALSE(subscriptions.skip("s", 1)) << "it was handled";
  EXPECT_FALSE(subscriptions.skip("s", 99));
  EXPECT_TRUE(subscriptions.skip("s", 3));
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "a/2", "a/3"));
  EXPECT_EQ(subscriptions.parked("s").at(0).kind, ParkedKind::skipped);
  EXPECT_EQ(subscriptions.resume_parked("s"), 0U);
  EXPECT_EQ(status_of_subscriptions(), HealthStatus::healthy);
}

TEST_P(EventSubscriptionContract, AParkedStreamContinuesBehindASkippedEvent) {
  append("bad", 3);
  set_bad({"bad"});
  events.subscribe("s", failing(SubscriptionFailure::park_stream), record_or_fail());
  platform.start();
  EXPECT_TRUE(caught_up());
  set_bad({});
  EXPECT_TRUE(subscriptions.skip("s", 1));
  EXPECT_TRUE(eventually([&] { return subscriptions.parked("s").empty(); }));
  EXPECT_THAT(seen.all(), ElementsAre("bad/2", "bad/3"));
}

// --- operation

TEST_P(EventSubscriptionContract, APausedSubscriptionHandlesNothing) {
  events.subscribe("s", {}, record());
  platform.start();
  append("a");
  EXPECT_TRUE(caught_up());
  EXPECT_TRUE(subscriptions.pause("s"));
  EXPECT_FALSE(subscriptions.pause("s"));
  EXPECT_TRUE(eventually([&] { return !subscriptions.parts("s").at(0).owner; }));
  append("a");
  const auto head = events.stamp();
  EXPECT_FALSE(events.wait_for("s", head, 50ms));
  EXPECT_TRUE(subscriptions.find("s")->paused_at);
  EXPECT_TRUE(subscriptions.resume("s"));
  EXPECT_TRUE(events.wait_for("s", head, 30s));
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "a/2"));
}

TEST_P(EventSubscriptionContract, ARebuildHandlesAllEventsAgain) {
  append("a", 3);
  set_bad({"a"});
  events.subscribe("s", failing(SubscriptionFailure::park_event), record_or_fail());
  platform.start();
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(subscriptions.parked("s"), SizeIs(3));
  set_bad({});
  EXPECT_TRUE(subscriptions.rebuild("s"));
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "a/2", "a/3"));
  EXPECT_THAT(subscriptions.parked("s"), IsEmpty());
  EXPECT_TRUE(subscriptions.rebuild("s", 2));
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "a/2", "a/3", "a/3"));
  EXPECT_FALSE(subscriptions.rebuild("nothing"));
}

TEST_P(EventSubscriptionContract, SubscriptionsAreListedWithTheirLag) {
  append("a", 4);
  events.subscribe("b", {.parts = 2, .on_failure = SubscriptionFailure::stop}, record());
  events.subscribe("a", {.start = SubscriptionStart::after(1)}, record());
  platform.start();
  EXPECT_TRUE(caught_up("a"));
  EXPECT_TRUE(caught_up("b"));
  platform.stop();
  append("a", 2);
  events.stamp();
  const auto all = subscriptions.list();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].name, "a");
  EXPECT_EQ(all[1].name, "b");
  EXPECT_EQ(all[1].parts, 2);
  EXPECT_EQ(all[1].on_failure, "stop");
  EXPECT_EQ(all[1].position, 4);
  EXPECT_EQ(all[1].head, 6);
  EXPECT_EQ(all[1].lag, 2);
  EXPECT_TRUE(all[1].lag_time);
  EXPECT_EQ(all[1].held_parts, 0) << "given back at the stop";
  backend.advance(6min);
  EXPECT_EQ(status_of_subscriptions(), HealthStatus::degraded) << "too far behind";
  EXPECT_TRUE(subscriptions.remove("b"));
  EXPECT_FALSE(subscriptions.remove("b"));
  EXPECT_FALSE(subscriptions.find("b"));
  EXPECT_THAT(subscriptions.parts("b"), IsEmpty());
}

TEST_P(EventSubscriptionContract, TheLagIsAGauge) {
  events.subscribe("s", {}, record());
  platform.start();
  append("a");
  EXPECT_TRUE(caught_up());
  EXPECT_TRUE(eventually([&] {
    const auto gauges = platform.metrics().gauges;
    return std::ranges::count_if(gauges, [](const auto& gauge) {
             return gauge.name == "dovetail_events_subscription_lag" ||
                    gauge.name == "dovetail_events_subscription_lag_seconds";
           }) == 2;
  }));
  EXPECT_EQ(platform.metrics().counter("dovetail_events_handled_total"), 1U);
}

TEST_P(EventSubscriptionContract, TailReturnsEventsAsTheyAreAppended) {
  append("a", 2);
  std::stop_source stop;
  std::atomic<bool> running{false};
  std::jthread tailing([&] {
    running = true;
    subscriptions.tail(
        {.after = 1, .types = {"T"}},
        [&](const Event& event) {
          seen.add(event);
          if (event.stream == "last") stop.request_stop();
        },
        stop.get_token());
  });
  EXPECT_TRUE(eventually([&] { return seen.size() == 1; }));
  append("b", 1, "Other");
  append("last");
  tailing.join();
  EXPECT_THAT(seen.all(), ElementsAre("a/2", "last/1"));
  EXPECT_THAT(subscriptions.list(), IsEmpty()) << "it stores no position";
}

TEST_P(EventSubscriptionContract, BadSubscriptionsAreRefused) {
  const auto add = [&](const std::string& name, const SubscriptionOptions& options) {
    subscriptions.add(name, options, record());
  };
  EXPECT_THROW(add("", {}), std::invalid_argument);
  EXPECT_THROW(add("s", {.types = {""}}), std::invalid_argument);
  EXPECT_THROW(add("s", {.prefixes = {""}}), std::invalid_argument);
  EXPECT_THROW(add("s", {.parts = 0}), std::out_of_range);
  EXPECT_THROW(add("s", {.parts = 257}), std::out_of_range);
  EXPECT_THROW(add("s", {.batch_size = 0}), std::out_of_range);
  EXPECT_THROW(add("s", {.max_attempts = 0}), std::out_of_range);
  EXPECT_THROW(add("s", {.lease = 99ms}), std::out_of_range);
  EXPECT_THROW(subscriptions.add("s", {}, {}), std::invalid_argument);
  EXPECT_THROW((void)SubscriptionStart::after(-1), std::out_of_range);
  EXPECT_THROW(subscriptions.skip("s", 0), std::out_of_range);
  EXPECT_THROW(subscriptions.rebuild("s", -1), std::out_of_range);
  EXPECT_THROW(subscriptions.tail({}, {}, {}), std::invalid_argument);
  EXPECT_FALSE(events.wait_for("nothing", 0, 1ms));
  add("s", {});
  EXPECT_THROW(add("s", {}), InvalidOperation) << "twice";
  platform.start();
  EXPECT_THROW(add("late", {}), InvalidOperation);
}

// --- groups

TEST_P(EventSubscriptionContract, AGroupSubscribesToAllItsDatabases) {
  Backend other{GetParam()};
  auto other_platform = other.open();
  append("a", 2);
  other_platform.events().append("b", ExpectedVersion::any(), {{.type = "T"}});
  PlatformGroup group({.database = backend.options()});
  group.add("one", backend.url(), backend.schema());
  group.add("two", other.url(), other.schema());
  std::mutex mutex;
  std::set<std::string> databases;
  group.subscribe("s", {}, [&](std::span<const Event> batch, SubscriptionContext& context) {
    const std::lock_guard lock(mutex);
    databases.insert(context.database());
    for (const auto& event : batch) seen.add(event);
  });
  group.start();
  EXPECT_THROW(group.subscribe("late", {}, record()), InvalidOperation);
  EXPECT_TRUE(eventually([&] { return seen.size() == 3; }));
  group["one"].events().append("a", ExpectedVersion::any(), {{.type = "T"}});
  EXPECT_TRUE(eventually([&] { return seen.size() == 4; }));
  group.stop();
  EXPECT_THAT(databases, UnorderedElementsAre("one", "two"));
  EXPECT_THAT(seen.all(), UnorderedElementsAre("a/1", "a/2", "a/3", "b/1"));
}

TEST_P(EventSubscriptionContract, ARebuildInATransactionTakesEffectWithIt) {
  append("a", 2);
  events.subscribe("s", {}, record());
  platform.start();
  EXPECT_TRUE(caught_up());
  {
    auto transaction = platform.begin();
    EXPECT_TRUE(subscriptions.rebuild(transaction, "s"));
    transaction.rollback();
  }
  append("a");
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen.all(), ElementsAre("a/1", "a/2", "a/3"));
  auto transaction = platform.begin();
  EXPECT_TRUE(subscriptions.rebuild(transaction, "s"));
  EXPECT_FALSE(subscriptions.rebuild(transaction, "other"));
  transaction.commit();
  EXPECT_TRUE(eventually([&] { return seen.size() == 6; }));
}

TEST_P(EventSubscriptionContract, ASkipDoesNotResumeAPausedSubscription) {
  append("a", 2);
  events.subscribe("s", {}, record());
  platform.start();
  EXPECT_TRUE(caught_up());
  EXPECT_TRUE(platform.stop());  // it may handle events for a moment after a pause
  EXPECT_TRUE(subscriptions.pause("s"));
  append("a", 2);
  EXPECT_TRUE(subscriptions.skip("s", events.stamp()));
  EXPECT_TRUE(subscriptions.find("s")->paused_at);
}

/// PostgreSQL refuses text that is not UTF-8.
TEST_P(EventSubscriptionContract, AnErrorTextThatIsNotUtf8IsStored) {
  append("a");
  events.subscribe(
      "s",
      {.on_failure = SubscriptionFailure::park_event,
       .max_attempts = 1,
       .backoff = [](int) -> std::chrono::milliseconds { throw 1; }},
      [](std::span<const Event>, SubscriptionContext&) { throw std::runtime_error("cut \xc3"); });
  platform.start();
  EXPECT_TRUE(eventually([&] {
    const auto status = subscriptions.find("s");
    return status && status->parked == 1;
  }));
}

}  // namespace
}  // namespace dovetail::testing
