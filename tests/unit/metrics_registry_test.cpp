#include "dovetail/metrics_registry.hpp"

#include <thread>

namespace dovetail {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::Pair;
using ::testing::SizeIs;

using std::chrono::milliseconds;

TEST(MetricsRegistry, CountersAddUpPerNameAndLabels) {
  const auto registry = std::make_shared<MetricsRegistry>();
  const Metrics metrics{registry};
  metrics.count("outbox.enqueued", 2, {{"store", "a"}});
  metrics.count("outbox.enqueued", 3, {{"store", "a"}});
  metrics.count("outbox.enqueued", 5, {{"store", "b"}});
  metrics.count("inbox.enqueued", 7, {});
  metrics.count("never", 0, {});
  const auto snapshot = registry->snapshot();
  EXPECT_THAT(snapshot.counters,
              ElementsAre(FieldsAre("inbox.enqueued", SizeIs(0), 7U),
                          FieldsAre("outbox.enqueued", ElementsAre(Pair("store", "a")), 5U),
                          FieldsAre("outbox.enqueued", ElementsAre(Pair("store", "b")), 5U)));
  EXPECT_EQ(snapshot.counter("outbox.enqueued"), 10U);
  EXPECT_EQ(snapshot.counter("never"), 0U);
}

TEST(MetricsRegistry, AGaugeHasItsLastValue) {
  const auto registry = std::make_shared<MetricsRegistry>();
  const Metrics metrics{registry};
  metrics.gauge("outbox.held", 12, {{"store", "a"}});
  metrics.gauge("outbox.held", 0.5, {{"store", "a"}});
  EXPECT_THAT(registry->snapshot().gauges,
              ElementsAre(FieldsAre("outbox.held", ElementsAre(Pair("store", "a")), 0.5)));
}

TEST(MetricsRegistry, TimingsFallIntoBuckets) {
  const auto registry = std::make_shared<MetricsRegistry>();
  const Metrics metrics{registry};
  metrics.time("outbox.round_trip", std::chrono::nanoseconds{0}, {});
  metrics.time("outbox.round_trip", milliseconds{1}, {});
  metrics.time("outbox.round_trip", milliseconds{1} + std::chrono::nanoseconds{1}, {});
  metrics.time("outbox.round_trip", std::chrono::hours{1}, {});
  const auto timings = registry->snapshot().timings;
  ASSERT_THAT(timings, SizeIs(1));
  EXPECT_EQ(timings[0].count, 4U);
  EXPECT_EQ(timings[0].sum, std::chrono::hours{1} + milliseconds{2} + std::chrono::nanoseconds{1});
  EXPECT_EQ(timings[0].buckets.front(), 2U);  // up to 1 ms
  EXPECT_EQ(timings[0].buckets[1], 1U);
  EXPECT_EQ(timings[0].buckets.back(), 1U);
}

TEST(MetricsRegistry, ANameMayBeACounterAndATiming) {
  MetricsRegistry registry;
  registry.count("lease.renewed", 1, {});
  registry.time("lease.renewed", milliseconds{1}, {});
  const auto snapshot = registry.snapshot();
  EXPECT_THAT(snapshot.counters, SizeIs(1));
  EXPECT_THAT(snapshot.timings, SizeIs(1));
}

TEST(MetricsRegistry, SeriesBeyondTheLimitAreDroppedAndCounted) {
  MetricsRegistry registry(2);
  for (const std::string_view name : {"a", "b", "c", "c", "a"}) registry.count(name, 1, {});
  const auto snapshot = registry.snapshot();
  EXPECT_THAT(snapshot.counters,
              ElementsAre(FieldsAre("a", SizeIs(0), 2U), FieldsAre("b", SizeIs(0), 1U)));
  EXPECT_EQ(snapshot.dropped, 2U);
  EXPECT_THROW(MetricsRegistry{0}, std::out_of_range);
  EXPECT_THROW(MetricsRegistry{1'000'001}, std::out_of_range);
}

TEST(MetricsRegistry, FurtherTopicsOfAMetricAreFoldedAndCounted) {
  MetricsRegistry registry;
  const auto count = [&](std::string_view name, const std::string& topic,
                         std::string_view outcome) {
    const std::array labels{MetricLabel{"store", "a"}, MetricLabel{"topic", topic},
                            MetricLabel{"outcome", outcome}};
    registry.count(name, 1, labels);
  };
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 250; ++i) count("settled", "topic " + std::to_string(i), "done");
  }
  auto snapshot = registry.snapshot();
  EXPECT_THAT(snapshot.counters, SizeIs(201));
  EXPECT_EQ(snapshot.counters.front().labels[1].second, "other");
  EXPECT_EQ(snapshot.counters.front().value, 100U);
  EXPECT_EQ(snapshot.folded, 100U);
  EXPECT_EQ(snapshot.counter("settled"), 500U) << "nothing is lost";
  // A topic with a series of its own keeps it, also for new outcomes; other metrics are not full.
  count("settled", "topic 249", "retry");
  count("settled", "topic 1", "retry");
  count("enqueued", "topic 249", "done");
  snapshot = registry.snapshot();
  EXPECT_THAT(snapshot.counters, SizeIs(204));
  EXPECT_EQ(snapshot.folded, 101U);
  EXPECT_EQ(snapshot.dropped, 0U);
}

TEST(MetricsRegistry, AGaugeThatIsSetToNotANumberIsRemoved) {
  MetricsRegistry registry;
  const std::array labels{MetricLabel{"job", "report"}};
  registry.gauge("last_success", 5, labels);
  registry.gauge("last_success", std::numeric_limits<double>::quiet_NaN(), labels);
  EXPECT_THAT(registry.snapshot().gauges, SizeIs(0));
  registry.gauge("last_success", 6, labels);
  EXPECT_THAT(registry.snapshot().gauges, SizeIs(1));
}

// Threads create series and count in them at the same time, while the table grows and others read.
TEST(MetricsRegistry, ThreadsLoseNoMeasurement) {
  constexpr int threads = 8;
  constexpr int rounds = 20;
  constexpr int names = 500;
  MetricsRegistry registry;
  {
    std::vector<std::jthread> workers;
    workers.emplace_back([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) static_cast<void>(registry.snapshot());
    });
    std::vector<std::jthread> counters;
    for (int i = 0; i < threads; ++i) {
      counters.emplace_back([&] {
        for (int n = 0; n < rounds * names; ++n) {
          const auto shard = std::to_string(n % names);
          const std::array labels{MetricLabel{"shard", shard}};
          registry.count("handled", 1, labels);
          registry.time("handler_time", milliseconds{1}, labels);
          registry.gauge("held", n, labels);
        }
      });
    }
  }
  const auto snapshot = registry.snapshot();
  ASSERT_THAT(snapshot.counters, SizeIs(names));
  ASSERT_THAT(snapshot.timings, SizeIs(names));
  ASSERT_THAT(snapshot.gauges, SizeIs(names));
  for (const auto& each : snapshot.counters) EXPECT_EQ(each.value, std::uint64_t{threads * rounds});
  for (const auto& each : snapshot.timings) {
    EXPECT_EQ(each.count, std::uint64_t{threads * rounds});
    EXPECT_EQ(each.sum, milliseconds{threads * rounds});
  }
  EXPECT_EQ(snapshot.dropped, 0U);
}

TEST(MetricsRegistry, ASinkWithoutGaugesIgnoresThem) {
  class Counters final : public MetricsSink {
   public:
    void count(std::string_view, std::uint64_t by, std::span<const MetricLabel>) override {
      total += by;
    }
    void time(std::string_view, std::chrono::nanoseconds, std::span<const MetricLabel>) override {}
    std::uint64_t total = 0;
  };
  const auto sink = std::make_shared<Counters>();
  const Metrics metrics{sink};
  metrics.gauge("held", 1, {});
  metrics.count("handled", 1, {});
  EXPECT_EQ(sink->total, 1U);
}

}  // namespace
}  // namespace dovetail
