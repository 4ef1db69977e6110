// Fan-outs on the command line.
#include "support/cli_test.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class CliFanoutContract : public CliTest {
 protected:
  CliFanoutContract() {
    auto options = backend.options();
    options.clock = nullptr;  // the clock of the command
    platform.emplace(Platform::open(backend.url(), options));
    platform->fanout().add(
        {.topic = "etl", .work_key = "payments", .cron = "0 0 1 1 *"}, [](const FanoutPlan&) {
          return std::vector<FanoutCandidate>{{.shard_key = "tenant-1"}, {.shard_key = "tenant-2"}};
        });
  }
  std::optional<Platform> platform;
};
DOVETAIL_CONTRACT(CliFanoutContract);

TEST_P(CliFanoutContract, RunAsksTheServiceToPlanARound) {
  EXPECT_EQ(dovetail({"fanout", "cursors", "etl"}).out, "no cursors\n");
  const auto runs = ask({"fanout", "run", "etl", "payments"})["run_ids"];
  ASSERT_THAT(runs, SizeIs(1));
  platform->start();
  EXPECT_TRUE(eventually([&] { return platform->fanout().cursors("etl").size() == 2; }));
  platform->stop();
  const auto cursors = ask({"fanout", "cursors", "etl"})["cursors"];
  ASSERT_THAT(cursors, SizeIs(2));
  EXPECT_EQ(cursors[0]["shard_key"], "tenant-1");
  EXPECT_EQ(cursors[0]["status"], "ready");
  EXPECT_TRUE(cursors[0]["last_completed_at"].is_null());
  const auto first = dovetail({"fanout", "cursors", "etl", "payments", "--limit", "1"});
  EXPECT_THAT(first.out, HasSubstr("tenant-1"));
  EXPECT_THAT(first.err, HasSubstr("--start-after 'payments' 'tenant-1'"));
  const auto second = ask({"fanout", "cursors", "etl", "--start-after", "payments", "tenant-1"});
  EXPECT_EQ(second["cursors"][0]["shard_key"], "tenant-2");
  EXPECT_EQ(dovetail({"fanout", "run", "reports"}).code, 1);
  EXPECT_THAT(dovetail({"fanout", "cursors", "reports"}).err, HasSubstr("no fan-out reports"));
}

TEST_P(CliFanoutContract, TheCadenceIsShownSetAndReset) {
  EXPECT_THAT(dovetail({"fanout", "list"}).out, HasSubstr("300 s"));
  EXPECT_EQ(dovetail({"fanout", "cadence", "etl", "payments", "--every", "90.5"}).out, "set 1\n");
  auto fanout = ask({"fanout", "list"})["fanouts"][0];
  EXPECT_EQ(fanout["every_ms"], 90'500);
  EXPECT_EQ(fanout["jitter_ms"], 60'000);
  EXPECT_EQ(fanout["default_every_ms"], 300'000);
  EXPECT_EQ(fanout["set_by_operator"], true);
  EXPECT_THAT(dovetail({"fanout", "list"}).out, HasSubstr("90.500 s"));
  EXPECT_EQ(
      dovetail({"fanout", "cadence", "etl", "payments", "--every", "60", "--jitter", "0"}).code, 0);
  EXPECT_EQ(ask({"fanout", "list"})["fanouts"][0]["jitter_ms"], 0);
  EXPECT_EQ(dovetail({"fanout", "cadence", "etl", "payments", "--reset"}).out, "reset 1\n");
  EXPECT_EQ(ask({"fanout", "list"})["fanouts"][0]["every_ms"], 300'000);
  EXPECT_EQ(dovetail({"fanout", "cadence", "etl", "payments"}).code, 2);
  EXPECT_EQ(dovetail({"fanout", "cadence", "etl", "payments", "--every", "0"}).code, 2);
  EXPECT_EQ(dovetail({"fanout", "cadence", "etl", "payments", "--reset", "--every", "1"}).code, 2);
  EXPECT_EQ(dovetail({"fanout", "cadence", "etl", "vendors", "--every", "1"}).code, 1);
  EXPECT_EQ(dovetail({"fanout", "remove", "etl", "payments"}).out, "removed 1\n");
  EXPECT_EQ(dovetail({"fanout", "list"}).out, "no fan-outs\n");
  EXPECT_EQ(dovetail({"fanout", "remove", "etl", "payments"}).code, 1);
}

}  // namespace
}  // namespace dovetail::testing
