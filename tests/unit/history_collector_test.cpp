// The counts of work that a process collects between two flushes. No database.
#include "history/collector.hpp"

#include <gmock/gmock.h>

#include <thread>

#include "dovetail/metrics_registry.hpp"
#include "dovetail/testing/manual_clock.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using history::Collector;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HistoryCollectorTest : public ::testing::Test {
 protected:
  HistoryCollectorTest() { collector->open(); }
  void enqueue(const std::string& topic, std::uint64_t count = 1) {
    metrics.count("dovetail_enqueued_total", count,
                  {{"store", "s"}, {"queue", "outbox"}, {"topic", topic}});
  }
  void settle(const std::string& topic, const std::string& outcome) {
    metrics.count("dovetail_settled_total", 1,
                  {{"store", "s"}, {"queue", "outbox"}, {"topic", topic}, {"outcome", outcome}});
  }
  void handle(const std::string& topic, std::chrono::milliseconds took) {
    metrics.time("dovetail_handler_seconds", took,
                 {{"store", "s"}, {"queue", "outbox"}, {"topic", topic}});
  }

  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  std::shared_ptr<MetricsRegistry> registry = std::make_shared<MetricsRegistry>();
  std::shared_ptr<Collector> collector = std::make_shared<Collector>(registry, clock);
  Metrics metrics{collector};
};

TEST_F(HistoryCollectorTest, CountsByTopicAndPassesTheMeasurementsOn) {
  enqueue("a", 3);
  enqueue("b");
  for (const auto* outcome : {"done", "done", "retry", "dead_letter", "snoozed"}) {
    settle("a", outcome);
  }
  handle("a", 20ms);
  handle("a", 5ms);
  const auto all = collector->take();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].queue, "outbox");
  EXPECT_EQ(all[0].counts, (HistoryBucket{.topic = "a",
                                          .enqueued = 3,
                                          .done = 2,
                                          .retried = 1,
                                          .failed = 1,
                                          .calls = 2,
                                          .handler_time = 25ms,
                                          .handler_time_max = 20ms}));
  EXPECT_EQ(all[1].counts.enqueued, 1);
  EXPECT_THAT(collector->take(), IsEmpty()) << "taken once";
  EXPECT_EQ(registry->snapshot().counter("dovetail_enqueued_total"), 4U);
}

TEST_F(HistoryCollectorTest, StepsAreSeparateAndBounded) {
  enqueue("a");
  clock->advance(10s);
  enqueue("a", 2);
  const auto all = collector->take();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[1].begin - all[0].begin, 10s);
  for (std::size_t i = 0; i < 3 * Collector::most_steps; ++i) {
    enqueue("a");
    clock->advance(10s);
  }
  const auto bounded = collector->take();
  EXPECT_THAT(bounded, SizeIs(Collector::most_steps));
  std::int64_t total = 0;
  for (const auto& each : bounded) total += each.counts.enqueued;
  EXPECT_EQ(total, 3 * std::int64_t{Collector::most_steps}) << "nothing is lost";
}

TEST_F(HistoryCollectorTest, ManyTopicsBecomeOther) {
  const std::size_t topics = 3 * Collector::most_topics;
  for (std::size_t i = 0; i < topics; ++i) enqueue("t" + std::to_string(i));
  std::jthread([&] {  // of another shard
    for (std::size_t i = 0; i < topics; ++i) enqueue("u" + std::to_string(i));
  })
      .join();
  const auto all = collector->take();
  EXPECT_LE(all.size(), Collector::most_topics);
  std::int64_t total = 0;
  bool has_other = false;
  for (const auto& each : all) {
    total += each.counts.enqueued;
    has_other = has_other || each.counts.topic == "other";
  }
  EXPECT_TRUE(has_other);
  EXPECT_EQ(total, 2 * static_cast<std::int64_t>(topics));
}

TEST_F(HistoryCollectorTest, NothingIsCountedBeforeItIsOpened) {
  Collector closed(registry, clock);
  closed.count("dovetail_enqueued_total", 1,
               std::vector<MetricLabel>{{"queue", "q"}, {"topic", "t"}});
  EXPECT_THAT(closed.take(), IsEmpty());
}

TEST_F(HistoryCollectorTest, OtherMeasurementsAreIgnored) {
  metrics.count("dovetail_enqueued_total", 1, {{"queue", "outbox"}});
  metrics.count("else", 1, {{"queue", "outbox"}, {"topic", "t"}});
  metrics.gauge("else", 1, {});
  EXPECT_THAT(collector->take(), IsEmpty());
}

}  // namespace
}  // namespace dovetail::testing
