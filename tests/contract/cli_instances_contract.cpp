// The table of instances on the command line.
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "support/cli_test.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class CliInstancesContract : public CliTest {
 protected:
  CliInstancesContract() { EXPECT_EQ(dovetail({"migrate"}).code, 0); }

  /// Sets `column` of `table` back by two minutes.
  void set_back(const std::string& table, const std::string& column) {
    backend.sql("update " + backend.table(table) + " set " + column + " = " + column +
                (backend.is_postgres() ? " - interval '2 minutes'" : " - 120000000"));
  }
  nlohmann::json instances() { return ask({"instances"})["instances"]; }
  bool is_listed(std::size_t count) {
    return eventually([&] { return instances().size() == count; });
  }
};
DOVETAIL_CONTRACT(CliInstancesContract);

TEST_P(CliInstancesContract, AWorkerIsListedWithItsTopicUntilItEnds) {
  EXPECT_EQ(dovetail({"instances"}).out, "no instances are registered\n");
  auto worker = work_in_background("true", {"--topic", "email.send"});
  ASSERT_TRUE(is_listed(1));
  const auto found = instances()[0];
  EXPECT_EQ(found["state"], "running");
  EXPECT_EQ(found["stale"], false);
  EXPECT_GT(found["pid"].get<int>(), 1);
  EXPECT_EQ(found["version"], std::string{version()});
  EXPECT_EQ(found["queues"][0]["queue"], "outbox");
  EXPECT_THAT(found["queues"][0]["topics"].get<Words>(), Contains("email.send"));
  EXPECT_THAT(dovetail({"instances"}).out,
              AllOf(HasSubstr(found["instance_id"].get<std::string>()), HasSubstr("running"),
                    HasSubstr("outbox: "), Not(HasSubstr("TOPIC NOBODY HANDLES"))));
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.wait(), 0);
  EXPECT_EQ(instances().size(), 0U);
}

TEST_P(CliInstancesContract, AKilledWorkerBecomesStale) {
  auto worker = work_in_background("true");
  ASSERT_TRUE(is_listed(1));
  worker.signal(SIGKILL);
  EXPECT_EQ(worker.wait(), -SIGKILL);
  EXPECT_EQ(instances()[0]["stale"], false);
  set_back("instance", "heartbeat_at");
  EXPECT_EQ(instances()[0]["stale"], true);
  EXPECT_THAT(dovetail({"instances"}).out, HasSubstr("stale"));
}

TEST_P(CliInstancesContract, AWorkerThatWaitsForItsCommandsIsDraining) {
  const auto begun = directory.path() / "begun";
  const auto may_end = directory.path() / "may_end";
  enqueue("slow");
  auto worker = work_in_background("trap '' TERM; touch " + begun.string() + "; while [ ! -e " +
                                   may_end.string() + " ]; do sleep 0.02; done");
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(begun); }));
  ASSERT_TRUE(is_listed(1));
  worker.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return instances()[0]["state"] == "draining"; }));
  std::ofstream{may_end} << "now";
  EXPECT_EQ(worker.wait(), 0);
  EXPECT_EQ(instances().size(), 0U);
}

TEST_P(CliInstancesContract, TopicsThatNobodyHandlesAreShown) {
  enqueue("email.send");
  EXPECT_EQ(ask({"instances"})["unhandled_topics"].size(), 0U);
  set_back("outbox", "ready_at");
  const auto topics = ask({"instances"})["unhandled_topics"];
  ASSERT_EQ(topics.size(), 1U);
  EXPECT_EQ(topics[0]["queue"], "outbox");
  EXPECT_EQ(topics[0]["topic"], "email.send");
  EXPECT_EQ(topics[0]["waiting"], 1);
  EXPECT_GE(topics[0]["oldest_due_ms"].get<int>(), 120'000);
  EXPECT_EQ(ask({"status"})["unhandled_topics"][0]["topic"], "email.send");
  for (const std::string command : {"instances", "status"}) {
    EXPECT_THAT(dovetail({command}).out,
                AllOf(HasSubstr("TOPIC NOBODY HANDLES"), HasSubstr("email.send")));
  }
}

TEST_P(CliInstancesContract, HealthExitsWithOneIfUnhealthyOrIfDegradedAndStrict) {
  const auto healthy = dovetail({"health"});
  EXPECT_EQ(healthy.code, 0) << healthy.err;
  EXPECT_EQ(healthy.out, "healthy\n");
  EXPECT_EQ(dovetail({"enqueue", "orders", "{}"}).code, 0);
  set_back("outbox", "ready_at");
  const auto degraded = dovetail({"health"});
  EXPECT_EQ(degraded.code, 0);
  EXPECT_THAT(degraded.out, AllOf(HasSubstr("degraded\n"), HasSubstr("outbox orders (1 due")));
  EXPECT_EQ(dovetail({"health", "--strict"}).code, 1);
  EXPECT_EQ(dovetail({"health", "ready", "--strict"}).out, "healthy\n");
  EXPECT_EQ(dovetail({"health", "--strict", "--tag", "database"}).code, 0);
  EXPECT_EQ(dovetail({"health", "--strict", "--tag", "database", "--tag", "queue"}).code, 1);
  EXPECT_EQ(dovetail({"health", "sometimes"}).code, 2);
}

TEST_P(CliInstancesContract, HealthInJsonHasEveryCheckThatRan) {
  EXPECT_EQ(dovetail({"enqueue", "orders", "{}"}).code, 0);
  set_back("outbox", "ready_at");
  const auto report = ask({"health"});
  EXPECT_EQ(report["status"], "degraded");
  EXPECT_EQ(report["checks"][0]["name"], "database");
  EXPECT_EQ(report["checks"][0]["status"], "healthy");
  EXPECT_EQ(report["checks"][0]["tags"][0], "database");
  EXPECT_TRUE(report["total_duration_ms"].is_number());
}

TEST_P(CliInstancesContract, HealthOfADatabaseWithoutASchemaIsUnhealthy) {
  const auto missing = run_command(
      {command_path, "health", "--database", backend.url(), "--schema", "nothing_here"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.out, AllOf(HasSubstr("unhealthy\nschema: "), HasSubstr("dovetail migrate")));
}

}  // namespace
}  // namespace dovetail::testing
