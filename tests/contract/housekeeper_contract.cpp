// The housekeeper does every chore, whatever happens to the others.
#include "runtime/housekeeper.hpp"

#include <gmock/gmock.h>

#include <map>

#include "dovetail/metrics_registry.hpp"
#include "runtime/engines.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;

class HousekeeperContract : public BackendTest {};
DOVETAIL_CONTRACT(HousekeeperContract);

TEST_P(HousekeeperContract, AChoreThatFailsIsReportedAndKeepsNoOtherFromBeingDone) {
  const auto database = backend.open_database();
  auto log = std::make_shared<RecordedLines>();
  std::atomic<bool> fails{true};
  std::atomic<int> others{0};
  runtime::Housekeeper housekeeper(*database,
                                   {{"broken",
                                     [&](const std::stop_token&) {
                                       if (fails) throw std::runtime_error("no room");
                                     }},
                                    {"other", [&](const std::stop_token&) { ++others; }}},
                                   std::chrono::milliseconds{1}, Logger{log}, Metrics{});
  EXPECT_FALSE(housekeeper.health().running);
  housekeeper.start();
  EXPECT_TRUE(eventually([&] { return others >= 2; }));
  EXPECT_TRUE(eventually([&] { return housekeeper.health().failures >= 2; }));
  EXPECT_EQ(housekeeper.health().last_error, "no room");
  EXPECT_GE(log->count("platform.chore_failed"), 2);
  fails = false;
  EXPECT_TRUE(eventually([&] { return housekeeper.health().failures == 0; }));
  EXPECT_TRUE(housekeeper.stop(MonoTime{}));
  EXPECT_FALSE(housekeeper.health().running);
}

/// Does the chores that are due within `time`, on a clock of its own.
void keep_house_for(runtime::Housekeeper& housekeeper, ManualClock& clock, MonoDuration time) {
  const auto end = clock.mono() + time;
  while (clock.mono() < end) {
    const auto next = std::min(end, housekeeper.step({}));
    clock.advance(std::chrono::ceil<std::chrono::microseconds>(
        std::max(next - clock.mono(), MonoDuration::zero())));
  }
}

TEST_P(HousekeeperContract, EachChoreHasItsOwnInterval) {
  using namespace std::chrono_literals;
  struct Row {
    const char* name;
    std::optional<std::chrono::milliseconds> interval;
    int at_least, at_most;            // in two hours; intervals vary by a quarter
    int idle_at_least, idle_at_most;  // with a common interval of ten minutes
  };
  const std::vector<Row> rows{{"often", 10s, 570, 970, 9, 17},
                              {"usual", std::nullopt, 190, 330, 9, 17},
                              {"rare", 1h, 2, 3, 1, 3}};
  auto clock = std::make_shared<ManualClock>();
  const auto database = runtime::open_database(
      backend.url(), storage::DatabaseOptions{.schema = backend.schema(), .clock = clock});
  std::map<std::string, int> runs;
  std::vector<component::Chore> chores;
  for (const auto& row : rows) {
    chores.push_back({row.name, [&runs, row](const auto&) { ++runs[row.name]; }, row.interval});
  }
  runtime::Housekeeper housekeeper(*database, std::move(chores), 30s, {}, {});
  keep_house_for(housekeeper, *clock, 2h);
  for (const auto& row : rows) {
    EXPECT_GE(runs[row.name], row.at_least) << row.name;
    EXPECT_LE(runs[row.name], row.at_most) << row.name;
  }
  housekeeper.set_interval(10min);
  runs.clear();
  keep_house_for(housekeeper, *clock, 2h);
  for (const auto& row : rows) {
    EXPECT_GE(runs[row.name], row.idle_at_least) << row.name;
    EXPECT_LE(runs[row.name], row.idle_at_most) << row.name;
  }
}

TEST_P(HousekeeperContract, EachChoreHasItsOwnFailuresAndLastSuccess) {
  auto clock = std::make_shared<ManualClock>();
  const auto database = runtime::open_database(
      backend.url(), storage::DatabaseOptions{.schema = backend.schema(), .clock = clock});
  bool fails = false;
  const auto metrics = std::make_shared<MetricsRegistry>();
  runtime::Housekeeper housekeeper(*database,
                                   {{"broken",
                                     [&](const std::stop_token&) {
                                       if (fails) throw std::runtime_error("no room");
                                     }},
                                    {"whole", [](const std::stop_token&) {}}},
                                   std::chrono::seconds{30}, {}, Metrics{metrics});
  EXPECT_EQ(housekeeper.chores().front().last_success, std::nullopt);
  keep_house_for(housekeeper, *clock, std::chrono::minutes{10});
  const auto before = clock->wall();
  fails = true;
  keep_house_for(housekeeper, *clock, std::chrono::minutes{10});
  const auto chores = housekeeper.chores();
  ASSERT_EQ(chores.size(), 2U);
  EXPECT_EQ(chores[0].name, "broken");
  EXPECT_GE(chores[0].failures, 10);
  EXPECT_EQ(chores[0].last_error, "no room");
  EXPECT_LE(chores[0].last_success, before);
  EXPECT_EQ(chores[1].name, "whole");
  EXPECT_EQ(chores[1].failures, 0);
  EXPECT_GT(chores[1].last_success, before);
  const auto gauges = metrics->snapshot().gauges;
  ASSERT_EQ(gauges.size(), 1U) << "a chore that never failed has no gauge";
  EXPECT_EQ(gauges[0].name, "dovetail_chore_failures");
  EXPECT_EQ(gauges[0].value, chores[0].failures);
  fails = false;
  keep_house_for(housekeeper, *clock, std::chrono::minutes{1});
  EXPECT_EQ(metrics->snapshot().gauges[0].value, 0);
}

TEST_P(HousekeeperContract, ASchemaErrorIsReportedOnceUntilTheChoreSucceeds) {
  const auto database = backend.open_database();
  auto log = std::make_shared<RecordedLines>();
  const auto registry = std::make_shared<MetricsRegistry>();
  std::atomic<bool> fails{true};
  std::atomic<int> runs{0};
  runtime::Housekeeper housekeeper(
      *database,
      {{"broken",
        [&](const std::stop_token&) {
          ++runs;
          if (fails) throw Error({ErrorKind::schema, "", "chore"}, "no such table");
        }}},
      std::chrono::milliseconds{1}, Logger{log}, Metrics{registry});
  housekeeper.start();
  EXPECT_TRUE(eventually([&] { return housekeeper.health().failures >= 2; }));
  EXPECT_THAT(housekeeper.health().last_error, HasSubstr("no such table"));
  EXPECT_EQ(log->count("platform.chore_failed"), 1);
  EXPECT_GE(registry->snapshot().counter("dovetail_chore_failed_total"), 2U);
  fails = false;
  EXPECT_TRUE(eventually([&] { return housekeeper.health().failures == 0; }));
  fails = true;
  EXPECT_TRUE(eventually([&] { return log->count("platform.chore_failed") == 2; }));
  EXPECT_TRUE(housekeeper.stop(MonoTime{}));
}

/// Chores whose runs take the time that the test says.
class HousekeeperPace : public HousekeeperContract {
 protected:
  /// Runs the chore, and returns the pause after that.
  MonoDuration pause_after_run_of(std::chrono::milliseconds time) {
    takes = time;
    clock->advance(std::chrono::hours{1});
    const auto due = housekeeper.step({});
    return due - clock->mono();
  }

  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  std::unique_ptr<storage::Database> database = runtime::open_database(
      backend.url(), storage::DatabaseOptions{.schema = backend.schema(), .clock = clock});
  std::chrono::milliseconds takes{0};
  runtime::Housekeeper housekeeper{
      *database,
      {{"chore", [this](const std::stop_token&) { clock->advance(takes); }, std::nullopt,
        std::chrono::milliseconds{30'000}}},
      std::chrono::milliseconds{1},
      Logger{},
      Metrics{}};
};
DOVETAIL_CONTRACT(HousekeeperPace);

TEST_P(HousekeeperPace, AChoreThatWaitedOnceRunsAsOftenAsBefore) {
  (void)housekeeper.step({});  // begins
  EXPECT_LT(pause_after_run_of(std::chrono::seconds{4}), std::chrono::seconds{2})
      << "it waited for a lock";
  EXPECT_LT(pause_after_run_of(std::chrono::milliseconds{1}), std::chrono::seconds{2});
}

TEST_P(HousekeeperPace, ASlowChoreRunsLessOftenUpToItsLongestPause) {
  (void)housekeeper.step({});
  (void)pause_after_run_of(std::chrono::milliseconds{200});
  EXPECT_GE(pause_after_run_of(std::chrono::milliseconds{200}), std::chrono::seconds{10});
  (void)pause_after_run_of(std::chrono::seconds{4});
  EXPECT_EQ(pause_after_run_of(std::chrono::seconds{4}), std::chrono::seconds{30});
}

}  // namespace
}  // namespace dovetail::testing
