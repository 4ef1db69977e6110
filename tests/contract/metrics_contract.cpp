// The metrics of a Platform without a sink of the user, on both engines.
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/group_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::SizeIs;

class MetricsContract : public BackendTest {};
DOVETAIL_CONTRACT(MetricsContract);

TEST_P(MetricsContract, APlatformHasARegistryByDefault) {
  auto platform = Platform::open(backend.url(), backend.options());
  platform.on("orders", [](const Message&, HandlerContext&) {});
  platform.outbox().enqueue({.topic = "orders"});
  platform.start();
  EXPECT_TRUE(
      eventually([&] { return platform.metrics().counter("dovetail_settled_total") == 1; }));
  platform.stop();
  const auto measured = platform.metrics();
  const MetricLabels outbox{{"store", platform.name()}, {"queue", "outbox"}};
  EXPECT_EQ(measured.counter("dovetail_claimed_total"), 1U);
  EXPECT_THAT(measured.counters,
              Contains(AllOf(Field(&CounterValue::name, "dovetail_enqueued_total"),
                             Field(&CounterValue::labels, MetricLabels{{"store", platform.name()},
                                                                       {"queue", "outbox"},
                                                                       {"topic", "orders"}}))));
  for (const auto* name :
       {"dovetail_held_messages", "dovetail_running_handlers", "dovetail_held_messages_limit"}) {
    EXPECT_THAT(measured.gauges, Contains(AllOf(Field(&GaugeValue::name, name),
                                                Field(&GaugeValue::labels, outbox))));
  }
  EXPECT_THAT(measured.timings, Contains(Field(&TimingValue::name, "dovetail_round_trip_seconds")));
  EXPECT_EQ(measured.dropped, 0U);
}

TEST_P(MetricsContract, ARegistryMayServeSeveralPlatforms) {
  auto options = backend.options();
  const auto registry = std::make_shared<MetricsRegistry>();
  options.metrics = registry;
  auto first = Platform::open(backend.url(), options);
  auto second = Platform::open(backend.url(), options);
  first.outbox().enqueue({.topic = "orders"});
  second.outbox().enqueue({.topic = "orders"});
  EXPECT_EQ(registry->snapshot().counter("dovetail_enqueued_total"), 2U);
  EXPECT_EQ(second.metrics().counter("dovetail_enqueued_total"), 2U);
}

TEST_P(MetricsContract, ASinkOfTheUsersIsNotReadBack) {
  class Nowhere final : public MetricsSink {
   public:
    void count(std::string_view, std::uint64_t, std::span<const MetricLabel>) override {}
    void time(std::string_view, std::chrono::nanoseconds, std::span<const MetricLabel>) override {}
  };
  auto options = backend.options();
  options.metrics = std::make_shared<Nowhere>();
  auto platform = Platform::open(backend.url(), options);
  platform.outbox().enqueue({.topic = "orders"});
  EXPECT_THAT(platform.metrics().counters, SizeIs(0));
}

/// The values of one snapshot by name and labels, without the store.
class Measured {
 public:
  explicit Measured(const MetricsSnapshot& snapshot) {
    for (const auto& each : snapshot.counters)
      add(each.name, each.labels, static_cast<double>(each.value));
    for (const auto& each : snapshot.gauges) add(each.name, each.labels, each.value);
    for (const auto& each : snapshot.timings) {
      add(each.name + "_count", each.labels, static_cast<double>(each.count));
      add(each.name + "_sum", each.labels, std::chrono::duration<double>(each.sum).count());
    }
  }
  /// Absent: it was not measured.
  [[nodiscard]] std::optional<double> operator[](const std::string& series) const {
    const auto found = values_.find(series);
    return found == values_.end() ? std::nullopt : std::optional{found->second};
  }

 private:
  /// `dovetail_settled_total outbox orders done`
  void add(const std::string& name, const MetricLabels& labels, double value) {
    std::string series = name;
    EXPECT_EQ(labels.at(0).first, "store");
    for (std::size_t i = 1; i < labels.size(); ++i) series += " " + labels[i].second;
    values_[series] = value;
  }

  std::map<std::string, double> values_;
};

TEST_P(MetricsContract, KnownWorkHasKnownValues) {
  auto platform = Platform::open(backend.url(), backend.options());
  platform.on("orders", [](const Message& message, HandlerContext&) {
    if (message.payload == "bad") throw PermanentFailure("refused");
  });
  std::atomic<int> tries{0};
  platform.on("flaky",
              [&](const Message&, HandlerContext& context) {
                if (++tries == 1) throw std::runtime_error("try again");
                if (tries == 2) return context.snooze(std::chrono::milliseconds{1});
                platform.outbox().enqueue(context.transaction(),
                                          {.topic = "orders", .payload = "more"});
              },
              {.backoff = [](int) { return std::chrono::milliseconds{1}; }});
  const std::vector<EnqueueRequest> many{
      {.topic = "orders"}, {.topic = "orders", .payload = "bad"}, {.topic = "flaky"}};
  platform.outbox().enqueue_many(many);
  const auto again = MessageId::generate();
  for (int i = 0; i < 2; ++i) platform.outbox().enqueue({.topic = "orders", .message_id = again});
  platform.start();
  const auto settled = [&](double count) {
    return eventually([&] {
      backend.advance(std::chrono::milliseconds{5});  // the retry and the snooze become due
      return platform.metrics().counter("dovetail_settled_total") ==
             static_cast<std::uint64_t>(count);
    });
  };
  EXPECT_TRUE(settled(7));
  platform.stop();
  EXPECT_EQ(platform.sample(std::chrono::milliseconds{0})->stores.size(), 1U);
  const Measured measured(platform.metrics());
  EXPECT_EQ(measured["dovetail_enqueued_total outbox orders"], 4);
  EXPECT_EQ(measured["dovetail_enqueued_total outbox flaky"], 1);
  EXPECT_EQ(measured["dovetail_duplicates_total outbox orders"], 1);
  EXPECT_EQ(measured["dovetail_settled_total outbox orders done"], 3);
  EXPECT_EQ(measured["dovetail_settled_total outbox orders dead_letter"], 1);
  EXPECT_EQ(measured["dovetail_settled_total outbox flaky retry"], 1);
  EXPECT_EQ(measured["dovetail_settled_total outbox flaky snoozed"], 1);
  EXPECT_EQ(measured["dovetail_settled_total outbox flaky done"], 1);
  EXPECT_EQ(measured["dovetail_handler_seconds_count outbox orders"], 4);
  EXPECT_EQ(measured["dovetail_handler_seconds_count outbox flaky"], 3);
  EXPECT_EQ(measured["dovetail_wait_seconds_count outbox"], 7);
  EXPECT_GE(measured["dovetail_wait_seconds_sum outbox"], 0);
  EXPECT_EQ(measured["dovetail_dead_letters outbox"], 1);
  EXPECT_EQ(measured["dovetail_queue_messages outbox done"], 4);
  EXPECT_EQ(measured["dovetail_queue_messages outbox ready"], 0);
  EXPECT_EQ(measured["dovetail_queue_oldest_due_seconds outbox"], 0);
  EXPECT_EQ(measured["dovetail_stream_blocked outbox"], 0);
  EXPECT_GT(measured["dovetail_sample_timestamp_seconds"], 0);
  EXPECT_TRUE(measured["dovetail_pool_connections in_use"].has_value());
  EXPECT_EQ(measured["dovetail_build_info " + std::string{version()}], 1);
}

TEST_P(MetricsContract, TheWaitOfAMessageIsCountedFromItsDueTime) {
  auto options = backend.options();
  auto platform = Platform::open(backend.url(), options);
  platform.on("orders", [](const Message&, HandlerContext&) {});
  platform.outbox().enqueue({.topic = "orders"});
  platform.outbox().enqueue(
      {.topic = "orders", .due_at = backend.now() + std::chrono::minutes{30}});
  backend.advance(std::chrono::hours{1});
  platform.start();
  ASSERT_TRUE(
      eventually([&] { return platform.metrics().counter("dovetail_settled_total") == 2; }));
  const Measured measured(platform.metrics());
  EXPECT_NEAR(measured["dovetail_wait_seconds_sum outbox"].value_or(0), 5'400, 120);
}

TEST_P(MetricsContract, CallsOfOwnWorkersHaveNoTopic) {
  auto platform = Platform::open(backend.url(), backend.options());
  for (int i = 0; i < 4; ++i) platform.outbox().enqueue({.topic = "orders"});
  const auto owner = OwnerToken::generate();
  const auto claimed = platform.outbox().claim({.owner = owner});
  ASSERT_THAT(claimed, SizeIs(4));
  auto& outbox = platform.outbox();
  const auto only = [&](std::size_t i) { return std::span{&claimed[i].claim, 1}; };
  outbox.renew(owner, only(0), std::chrono::seconds{60});
  outbox.ack(owner, only(0));
  outbox.abandon(owner, only(1), {.error = "later"});
  outbox.fail(owner, only(2), "no");
  outbox.snooze(owner, only(3));
  const Measured measured(platform.metrics());
  EXPECT_EQ(measured["dovetail_claimed_total outbox"], 4);
  EXPECT_EQ(measured["dovetail_lease_renewed_total outbox"], 1);
  EXPECT_EQ(measured["dovetail_settled_total outbox  done"], 1);
  EXPECT_EQ(measured["dovetail_settled_total outbox  abandoned"], 1);
  EXPECT_EQ(measured["dovetail_settled_total outbox  dead_letter"], 1);
  EXPECT_EQ(measured["dovetail_settled_total outbox  snoozed"], 1);
}

TEST_P(MetricsContract, TimersJobsAndJoinsHaveMetrics) {
  auto platform = Platform::open(backend.url(), backend.options());
  platform.on("tick", [](const Message&, HandlerContext&) {});
  platform.timers().schedule({.topic = "tick", .due_at = backend.now() + std::chrono::minutes{1}});
  backend.advance(std::chrono::minutes{61});
  platform.jobs().create_or_update({.name = "report", .topic = "tick", .cron = "0 0 1 1 *"});
  platform.jobs().create_or_update({.name = "never", .topic = "tick", .cron = "0 0 1 1 *"});
  ASSERT_TRUE(platform.jobs().trigger("report"));
  static_cast<void>(platform.joins().start({.expected_steps = 1}));
  const auto cancelled = platform.joins().start({.expected_steps = 1});
  platform.joins().cancel(cancelled);
  platform.start();
  ASSERT_TRUE(
      eventually([&] { return platform.metrics().counter("dovetail_settled_total") == 2; }));
  platform.stop();
  const auto sample = platform.sample(std::chrono::milliseconds{0});
  ASSERT_EQ(sample->stores.at(0).error, "");
  const Measured measured(platform.metrics());
  EXPECT_EQ(measured["dovetail_enqueued_total timers tick"], 1);
  EXPECT_EQ(measured["dovetail_enqueued_total outbox tick"], 2);
  EXPECT_EQ(measured["dovetail_timers_fired_total"], 1);
  EXPECT_NEAR(measured["dovetail_timer_lateness_seconds_sum"].value_or(0), 3'600, 120);
  EXPECT_EQ(measured["dovetail_job_runs_started_total"], 1);
  EXPECT_GT(measured["dovetail_job_last_success_timestamp_seconds report"].value_or(0), 0);
  EXPECT_FALSE(measured["dovetail_job_last_success_timestamp_seconds never"].has_value());
  EXPECT_EQ(measured["dovetail_joins pending"], 1);
  EXPECT_EQ(measured["dovetail_joins cancelled"], 1);
  EXPECT_EQ(measured["dovetail_joins completed"], 0);
}

TEST_P(MetricsContract, TheGaugeOfARemovedJobDisappears) {
  auto platform = Platform::open(backend.url(), backend.options());
  platform.on("tick", [](const Message&, HandlerContext&) {});
  platform.jobs().create_or_update({.name = "report", .topic = "tick", .cron = "0 0 1 1 *"});
  ASSERT_TRUE(platform.jobs().trigger("report"));
  platform.start();
  const auto gauge = [&] {
    static_cast<void>(platform.sample(std::chrono::milliseconds{0}));
    return Measured(platform.metrics())["dovetail_job_last_success_timestamp_seconds report"];
  };
  EXPECT_TRUE(eventually([&] { return gauge().has_value(); }));
  platform.jobs().remove("report");
  EXPECT_TRUE(eventually([&] { return !gauge().has_value(); }));
}

class GroupMetricsContract : public GroupTest {};
DOVETAIL_CONTRACT(GroupMetricsContract);

TEST_P(GroupMetricsContract, ASampleHasTheOpenDatabases) {
  PlatformGroup group(options());
  add_three(group);
  EXPECT_THAT(group.sample(std::chrono::milliseconds{0})->stores, SizeIs(0));
  enqueue(group, "a", 2);
  enqueue(group, "b", 1);
  const auto sample = group.sample(std::chrono::milliseconds{0});
  ASSERT_THAT(sample->stores, SizeIs(2));
  EXPECT_EQ(sample->stores[0].store, "a");
  EXPECT_EQ(sample->stores[0].error, "");
  EXPECT_EQ(sample->stores[0].queues.at(0).counts.ready, 2);
  EXPECT_EQ(sample->stores[1].store, "b");
  const auto stores_with_gauges = [&] {
    std::set<std::string> stores;
    for (const auto& gauge : group.metrics().gauges) {
      if (gauge.name == "dovetail_dead_letters") stores.insert(gauge.labels.at(0).second);
    }
    return stores;
  };
  EXPECT_THAT(stores_with_gauges(), ::testing::ElementsAre("a", "b"));
  group.remove("a");
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(group.sample(std::chrono::milliseconds{0}));
    return stores_with_gauges() == std::set<std::string>{"b"};
  }));
}

}  // namespace
}  // namespace dovetail::testing
