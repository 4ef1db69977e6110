#include "observe/sampler.hpp"

#include <atomic>

#include "dovetail/metrics_registry.hpp"
#include "dovetail/testing/manual_clock.hpp"
#include "support/eventually.hpp"

namespace dovetail::observe {
namespace {

using dovetail::testing::eventually;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::SizeIs;

class SamplerTest : public ::testing::Test {
 protected:
  Sampler::Source source(const std::string& store) {
    return {.store = store, .take = [this](const std::stop_token& stop) {
              ++taken;
              while (hangs && !stop.stop_requested()) std::this_thread::sleep_for(milliseconds{1});
              if (stop.stop_requested()) throw std::runtime_error("stopped");
              if (fails) throw std::runtime_error("no answer");
              return StoreSample{.queues = {{.queue = "outbox", .counts = {.ready = taken}}}};
            }};
  }

  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  std::shared_ptr<MetricsRegistry> registry = std::make_shared<MetricsRegistry>();
  std::atomic<int> taken{0};
  std::atomic<bool> fails{false};
  std::atomic<bool> hangs{false};
  std::vector<std::string> stores{"a"};
  std::mutex mutex;
  Sampler::Limits limits{};
  std::unique_ptr<Sampler> sampler = make();

  std::unique_ptr<Sampler> make() {
    return std::make_unique<Sampler>(
        [this] {
          const std::lock_guard lock(mutex);
          std::vector<Sampler::Source> sources;
          for (const auto& store : stores) sources.push_back(source(store));
          return sources;
        },
        clock, Metrics{registry}, limits);
  }
};

TEST_F(SamplerTest, TakesNothingUntilSomebodyAsks) {
  EXPECT_EQ(taken, 0);
  EXPECT_THAT(sampler->get(seconds{3})->stores, SizeIs(1));
  EXPECT_EQ(taken, 1);
}

TEST_F(SamplerTest, CallersShareASampleThatIsYoungEnough) {
  const auto first = sampler->get(seconds{3});
  clock->advance(seconds{2});
  EXPECT_EQ(sampler->get(seconds{3}), first);
  clock->advance(seconds{2});
  EXPECT_NE(sampler->get(seconds{3}), first);
  EXPECT_EQ(taken, 2);
}

TEST_F(SamplerTest, CallersThatWaitShareOneSample) {
  hangs = true;
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([this] { EXPECT_THAT(sampler->get(seconds{3})->stores, SizeIs(1)); });
  }
  EXPECT_TRUE(eventually([&] { return taken == 1; }));
  hangs = false;
  callers.clear();
  EXPECT_LE(taken, 2);
}

TEST_F(SamplerTest, ADatabaseThatFailsKeepsItsLastState) {
  EXPECT_EQ(sampler->get(milliseconds{0})->stores.at(0).queues.at(0).counts.ready, 1);
  fails = true;
  const auto sample = sampler->get(milliseconds{0});
  EXPECT_EQ(sample->stores.at(0).error, "no answer");
  EXPECT_EQ(sample->stores.at(0).queues.at(0).counts.ready, 1);
}

TEST_F(SamplerTest, ADatabaseThatHangsDelaysNobodyForLong) {
  limits = {.round = milliseconds{50}, .patience = milliseconds{20}};
  sampler = make();
  hangs = true;
  EXPECT_THAT(sampler->get(milliseconds{0})->stores, SizeIs(0));
  // The round ends at its own limit. The others are read later.
  EXPECT_TRUE(eventually([&] {
    const auto sample = sampler->get(seconds{3});
    return !sample->stores.empty() && sample->stores[0].error == "stopped";
  }));
}

TEST_F(SamplerTest, EachDatabaseHasItsTurnWhenOneHangs) {
  limits = {.round = milliseconds{20}, .patience = milliseconds{1'000}};
  stores = {"a", "b", "c"};
  sampler = make();
  hangs = true;
  for (int i = 0; i < 3; ++i) static_cast<void>(sampler->get(milliseconds{0}));
  EXPECT_THAT(sampler->get(milliseconds{0})->stores, SizeIs(3));
}

TEST_F(SamplerTest, SetsGaugesAndRemovesThoseOfADatabaseThatHasLeft) {
  stores = {"a", "b"};
  static_cast<void>(sampler->get(milliseconds{0}));
  const auto ready_gauges = [this] {
    std::vector<std::string> found;
    for (const auto& gauge : registry->snapshot().gauges) {
      if (gauge.name == "dovetail_queue_messages" && gauge.labels[2].second == "ready")
        found.push_back(gauge.labels[0].second);
    }
    return found;
  };
  EXPECT_THAT(ready_gauges(), ::testing::ElementsAre("a", "b"));
  {
    const std::lock_guard lock(mutex);
    stores = {"b"};
  }
  EXPECT_THAT(sampler->get(milliseconds{0})->stores, SizeIs(1));
  EXPECT_THAT(ready_gauges(), ::testing::ElementsAre("b"));
}

}  // namespace
}  // namespace dovetail::observe
