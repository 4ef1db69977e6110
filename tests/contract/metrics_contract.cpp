// The metrics of a Platform without a sink of the user, on both engines.
#include "support/backend.hpp"
#include "support/eventually.hpp"

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
  EXPECT_TRUE(eventually([&] { return platform.metrics().counter("outbox.settled") == 1; }));
  platform.stop();
  const auto measured = platform.metrics();
  const MetricLabels store{{"store", platform.name()}};
  EXPECT_EQ(measured.counter("outbox.claimed"), 1U);
  EXPECT_THAT(measured.counters,
              Contains(AllOf(Field(&CounterValue::name, "outbox.enqueued"),
                             Field(&CounterValue::labels, MetricLabels{{"store", platform.name()},
                                                                       {"topic", "orders"}}))));
  for (const auto* name : {"outbox.held", "outbox.running", "outbox.window"}) {
    EXPECT_THAT(measured.gauges,
                Contains(AllOf(Field(&GaugeValue::name, name), Field(&GaugeValue::labels, store))));
  }
  EXPECT_THAT(measured.timings, Contains(Field(&TimingValue::name, "outbox.round_trip")));
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
  EXPECT_EQ(registry->snapshot().counter("outbox.enqueued"), 2U);
  EXPECT_EQ(second.metrics().counter("outbox.enqueued"), 2U);
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

}  // namespace
}  // namespace dovetail::testing
