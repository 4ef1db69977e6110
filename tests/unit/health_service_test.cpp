// HealthService: sharing, caching, time limits and the checks of users. No database.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <latch>
#include <stdexcept>
#include <thread>

#include "dovetail/error.hpp"
#include "dovetail/testing/manual_clock.hpp"
#include "observe/health_source.hpp"
#include "support/eventually.hpp"
#include "support/health_reports.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What the tests tell the source, and what it has seen. It outlives the service.
struct Script {
  std::atomic<int> phase{0};
  std::atomic<int> reads{0};
  std::atomic<int> lives{0};
  std::atomic<bool> hangs{false};         // until the stop token fires
  std::atomic<bool> ignores_stop{false};  // and beyond, until `released`
  std::atomic<bool> released{false};
  std::atomic<int> under_way{0};
  std::atomic<int> most_under_way{0};
};

class ScriptedSource final : public observe::HealthSource {
 public:
  explicit ScriptedSource(Script& script) : script_(script) {}
  void require_process() const override {}
  [[nodiscard]] int phase() const override { return script_.phase; }
  [[nodiscard]] HealthCheck live() override {
    ++script_.lives;
    return {.name = "supervisor"};
  }
  [[nodiscard]] std::vector<HealthCheck> quick(Scope scope) override {
    std::vector<HealthCheck> checks{{.name = "started", .tags = {"runtime"}}};
    if (scope == Scope::all) checks.push_back({.name = "service", .tags = {"runtime"}});
    return checks;
  }
  void read(Scope scope, const std::stop_token& stop, observe::HealthRecorder& recorder) override {
    ++script_.reads;
    const int now = ++script_.under_way;
    script_.most_under_way = std::max<int>(script_.most_under_way, now);
    recorder.begin("database", {"database"});
    if (script_.hangs) {
      eventually(
          [&] { return script_.released || (stop.stop_requested() && !script_.ignores_stop); });
    } else {
      recorder.end({});
      if (scope == Scope::all) {
        recorder.begin("topics", {"queue"});
        recorder.end({.status = HealthStatus::degraded, .description = "nobody"});
      }
    }
    --script_.under_way;
  }

 private:
  Script& script_;
};

class HealthServiceTest : public ::testing::Test {
 protected:
  void make(HealthOptions options = {}) {
    service =
        std::make_unique<HealthService>(std::make_unique<ScriptedSource>(script), options, clock);
  }
  /// Hangs until the test ends.
  HealthFunction hanging() {
    return [gate = gate, calls = calls] {
      ++*calls;
      gate->wait();
      return HealthResult{};
    };
  }
  ~HealthServiceTest() override { gate->count_down(); }

  Script script;
  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  std::shared_ptr<std::latch> gate = std::make_shared<std::latch>(1);
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  std::unique_ptr<HealthService> service;
};

TEST_F(HealthServiceTest, AReportHasTheChecksOfTheQuestionAndTheirWorstStatus) {
  make();
  const auto all = service->all();
  EXPECT_EQ(all.status, HealthStatus::degraded);
  EXPECT_THAT(names_of(all), ElementsAre("database", "topics", "started", "service"));
  EXPECT_EQ(check_named(all, "topics").description, "nobody");
  const auto ready = service->ready();
  EXPECT_EQ(ready.status, HealthStatus::healthy);
  EXPECT_THAT(names_of(ready), ElementsAre("database", "started"));
}

TEST_F(HealthServiceTest, LiveAsksOnlyTheSupervisor) {
  make();
  EXPECT_THAT(names_of(service->live()), ElementsAre("supervisor"));
  EXPECT_EQ(script.reads, 0);
  static_cast<void>(service->live());
  EXPECT_EQ(script.lives, 2) << "not cached";
}

TEST_F(HealthServiceTest, AReportIsKeptForTheTimeOfTheCache) {
  make();
  static_cast<void>(service->all());
  static_cast<void>(service->all());
  EXPECT_EQ(script.reads, 1);
  clock->advance(4'999ms);
  static_cast<void>(service->all());
  EXPECT_EQ(script.reads, 1);
  clock->advance(1ms);
  static_cast<void>(service->all());
  EXPECT_EQ(script.reads, 2);
  static_cast<void>(service->ready());
  EXPECT_EQ(script.reads, 3) << "each question has its own report";
}

TEST_F(HealthServiceTest, AStartOrStopEndsTheCache) {
  make();
  static_cast<void>(service->ready());
  script.phase = 1;
  static_cast<void>(service->ready());
  EXPECT_EQ(script.reads, 2);
}

TEST_F(HealthServiceTest, CallersAtTheSameTimeShareOneComputation) {
  make({.cache = 0ms, .time_limit = 1min});
  script.hangs = true;
  std::vector<std::future<HealthReport>> answers;
  for (int i = 0; i < 8; ++i) {
    answers.push_back(std::async(std::launch::async, [this] { return service->all(); }));
  }
  EXPECT_TRUE(eventually([&] { return script.under_way == 1; }));
  script.released = true;
  for (auto& answer : answers) answer.get();
  EXPECT_EQ(script.most_under_way, 1);
}

TEST_F(HealthServiceTest, ACheckThatHangsIsUnhealthyAndItsReadIsCancelled) {
  make({.cache = 0ms, .time_limit = 20ms});
  script.hangs = true;
  const auto report = service->all();
  EXPECT_EQ(report.status, HealthStatus::unhealthy);
  EXPECT_EQ(check_named(report, "database").description, "no answer within 20 ms");
  EXPECT_TRUE(eventually([&] { return script.under_way == 0; })) << "the stop token ends it";
  script.hangs = false;
  EXPECT_TRUE(eventually(
      [&] { return check_named(service->all(), "database").status == HealthStatus::healthy; }));
}

TEST_F(HealthServiceTest, AReadThatHangsIsNotStartedAgain) {
  make({.cache = 0ms, .time_limit = 20ms});
  script.hangs = true;
  script.ignores_stop = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(check_named(service->all(), "database").status, HealthStatus::unhealthy);
  }
  EXPECT_EQ(script.reads, 1);
  script.released = true;
  script.hangs = false;
  EXPECT_TRUE(eventually(
      [&] { return check_named(service->all(), "database").status == HealthStatus::healthy; }));
}

TEST_F(HealthServiceTest, AUsersCheckIsPartOfAllAndNotOfReady) {
  make();
  static_cast<void>(service->all());
  service->add("payments", {"upstream"}, [] {
    return HealthResult{
        .status = HealthStatus::degraded, .description = "slow", .data = {{"ms", "900"}}};
  });
  const auto check = check_named(service->all(), "payments");
  EXPECT_EQ(check.status, HealthStatus::degraded) << "the cached report has ended";
  EXPECT_EQ(check.description, "slow");
  EXPECT_EQ(check.data.at("ms"), "900");
  EXPECT_THAT(check.tags, ElementsAre("upstream"));
  EXPECT_EQ(check_named(service->ready(), "payments").name, "");
}

TEST_F(HealthServiceTest, AUsersCheckThatThrowsIsUnhealthyWithItsMessage) {
  make();
  service->add("a", {}, []() -> HealthResult { throw std::runtime_error("no route"); });
  service->add("b", {}, []() -> HealthResult { throw 1; });
  const auto report = service->all();
  EXPECT_EQ(check_named(report, "a").status, HealthStatus::unhealthy);
  EXPECT_EQ(check_named(report, "a").description, "no route");
  EXPECT_EQ(check_named(report, "b").status, HealthStatus::unhealthy);
}

TEST_F(HealthServiceTest, AUsersCheckThatHangsIsReportedAndNotStartedAgain) {
  make({.cache = 0ms, .time_limit = 20ms});
  service->add("slow", {}, hanging());
  for (int i = 0; i < 3; ++i) {
    const auto report = service->all();
    EXPECT_EQ(check_named(report, "slow").status, HealthStatus::unhealthy);
    EXPECT_THAT(check_named(report, "slow").description, HasSubstr("no answer within"));
    EXPECT_EQ(check_named(report, "database").status, HealthStatus::healthy);
  }
  EXPECT_EQ(*calls, 1);
  service.reset();  // does not wait for it
}

TEST_F(HealthServiceTest, BadChecksAndOptionsAreRefused) {
  make();
  EXPECT_THROW(service->add("", {}, [] { return HealthResult{}; }), std::invalid_argument);
  EXPECT_THROW(service->add("a", {}, {}), std::invalid_argument);
  service->add("a", {}, [] { return HealthResult{}; });
  EXPECT_THROW(service->add("a", {}, [] { return HealthResult{}; }), InvalidOperation);
  EXPECT_THROW(make({.cache = -1ms}), std::out_of_range);
  EXPECT_THROW(make({.time_limit = 9ms}), std::out_of_range);
}

TEST_F(HealthServiceTest, TagsChooseChecks) {
  make();
  const auto all = service->all();
  EXPECT_EQ(with_tags(all, {}).checks.size(), 4U);
  EXPECT_THAT(names_of(with_tags(all, {"runtime"})), ElementsAre("started", "service"));
  EXPECT_EQ(with_tags(all, {"runtime"}).status, HealthStatus::healthy);
  EXPECT_EQ(with_tags(all, {"runtime", "queue"}).status, HealthStatus::degraded);
  EXPECT_TRUE(with_tags(all, {"nothing"}).checks.empty());
}

}  // namespace
}  // namespace dovetail::testing
