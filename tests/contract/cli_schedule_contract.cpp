// Timers, jobs and cron expressions on the command line.
#include <signal.h>

#include <fstream>
#include <iterator>

#include "support/cli_test.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class CliScheduleContract : public CliTest {
 protected:
  CliScheduleContract() {
    auto options = backend.options();
    options.clock = nullptr;  // the clock of the command
    platform.emplace(Platform::open(backend.url(), options));
  }
  [[nodiscard]] ChildProcess schedule_in_background() const {
    return ChildProcess([words = call({"schedule", "--poll", "0.05"}), log = log_path()] {
      if (std::freopen(log.c_str(), "w", stderr) == nullptr) ::_exit(126);
      std::vector<char*> argv;
      for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    });
  }
  [[nodiscard]] std::string log_path() const { return (directory.path() / "log").string(); }
  [[nodiscard]] std::string printed() const {
    std::ifstream in{log_path()};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  std::optional<Platform> platform;
};
DOVETAIL_CONTRACT(CliScheduleContract);

TEST_P(CliScheduleContract, TimersAreScheduledListedAndCancelled) {
  const std::string id = ask({"timers", "schedule", "remind", "hello", "--due-at",
                              "2100-01-31T09:30:00Z", "--unique-key", "k"})["timer_id"];
  const auto again = ask({"timers", "schedule", "remind", "--in", "60", "--unique-key", "k"});
  EXPECT_EQ(again["timer_id"], id);
  EXPECT_EQ(again["stored"], false);
  const auto list = ask({"timers", "list"})["timers"];
  ASSERT_THAT(list, SizeIs(1));
  EXPECT_EQ(list[0]["topic"], "remind");
  EXPECT_THAT(std::string{list[0]["due_at"]}, HasSubstr("2100-01-31T09:30:00"));
  EXPECT_THAT(dovetail({"timers", "list", "--topic", "remind"}).out, HasSubstr(id));
  EXPECT_EQ(dovetail({"timers", "list", "--topic", "other"}).out, "no timers\n");
  EXPECT_EQ(dovetail({"timers", "cancel", id}).out, "cancelled 1 of 1\n");
  EXPECT_EQ(dovetail({"timers", "cancel", id}).out, "cancelled 0 of 1\n");
  EXPECT_EQ(dovetail({"timers", "schedule", "remind"}).code, 2);
  EXPECT_EQ(dovetail({"timers", "schedule", "remind", "--in", "-1"}).code, 2);
}

TEST_P(CliScheduleContract, JobsAreCreatedTriggeredDisabledAndDeleted) {
  const auto created = dovetail({"jobs", "create", "nightly", "cleanup", "0 0 2 * * *", "{}",
                                 "--zone", "Europe/Berlin", "--misfire", "skip",
                                 "--max-concurrent-runs", "2", "--jitter", "1.5"});
  EXPECT_THAT(created.out, HasSubstr("at 02:00"));
  EXPECT_THAT(created.out, HasSubstr("(Europe/Berlin), next 2"));
  const auto job = ask({"jobs", "list"})["jobs"][0];
  EXPECT_EQ(job["name"], "nightly");
  EXPECT_EQ(job["misfire"], "skip");
  EXPECT_EQ(job["jitter_ms"], 1500);
  EXPECT_EQ(job["max_concurrent_runs"], 2);
  EXPECT_THAT(dovetail({"jobs", "list"}).out, HasSubstr("Europe/Berlin"));
  const std::string run = ask({"jobs", "trigger", "nightly"})["run_id"];
  const auto runs = ask({"jobs", "runs", "nightly"})["runs"];
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_EQ(runs[0]["run_id"], run);
  EXPECT_EQ(runs[0]["status"], "ready");
  EXPECT_THAT(dovetail({"jobs", "runs", "nightly"}).out, HasSubstr("triggered"));
  EXPECT_EQ(work_once("cat > /dev/null").code, 0);
  EXPECT_EQ(ask({"jobs", "runs", "nightly"})["runs"][0]["status"], "done");
  EXPECT_EQ(dovetail({"jobs", "disable", "nightly"}).out, "disabled 1\n");
  EXPECT_EQ(ask({"jobs", "list"})["jobs"][0]["enabled"], false);
  EXPECT_EQ(dovetail({"jobs", "enable", "nightly"}).out, "enabled 1\n");
  EXPECT_EQ(dovetail({"jobs", "remove", "nightly"}).out, "removed 1\n");
  const auto missing = dovetail({"jobs", "trigger", "nightly"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("there is no job nightly"));
  EXPECT_EQ(dovetail({"jobs", "list"}).out, "no jobs\n");
  const auto wrong = dovetail({"jobs", "create", "x", "t", "61 * * * *"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("minute"));
}

TEST_P(CliScheduleContract, ScheduleRunsTimersAndJobs) {
  const std::string timer = ask({"timers", "schedule", "remind", "hello", "--in", "0"})["timer_id"];
  EXPECT_EQ(dovetail({"jobs", "create", "often", "tick", "* * * * * *"}).code, 0);
  auto scheduler = schedule_in_background();
  EXPECT_TRUE(
      eventually([&] { return platform->outbox().find(*MessageId::parse(timer)).has_value(); }));
  EXPECT_EQ(show(timer)["topic"], "remind");
  EXPECT_EQ(show(timer)["payload"], "hello");
  EXPECT_TRUE(eventually([&] { return !platform->jobs().runs("often").empty(); }));
  scheduler.signal(SIGTERM);
  EXPECT_EQ(scheduler.wait(), 0);
  EXPECT_THAT(printed(), HasSubstr("running timers, jobs and joins of"));
}

TEST_P(CliScheduleContract, ScheduleContinuesJoins) {
  const auto join = platform->joins().start({.expected_steps = 1});
  const auto step =
      ask({"enqueue", "step", "--due-at", "2150-01-31T09:30:00Z", "--join", join.to_string()});
  platform->joins().enqueue_wait(join, {.on_complete_topic = "next"});
  auto scheduler = schedule_in_background();
  platform->joins().report_step_completed(join,
                                          *MessageId::parse(step["message_id"].get<std::string>()));
  EXPECT_TRUE(eventually([&] {
    return backend.number("select count(*) from " + backend.table("outbox") +
                          " where topic = 'next'") == 1;
  }));
}

TEST_P(CliScheduleContract, ScheduleLeavesMessagesToWorkers) {
  const auto foreign = enqueue("email.send");
  const std::string timer = ask({"timers", "schedule", "remind", "--in", "0"})["timer_id"];
  auto scheduler = schedule_in_background();
  ASSERT_TRUE(
      eventually([&] { return platform->outbox().find(*MessageId::parse(timer)).has_value(); }));
  scheduler.signal(SIGINT);
  EXPECT_EQ(scheduler.wait(), 0);
  for (const auto& id : {foreign, timer}) {
    EXPECT_EQ(show(id)["status"], "ready");
    EXPECT_EQ(show(id)["attempts"], 0);
  }
}

TEST(CliCron, ExplainsAnExpressionAndItsNextTimes) {
  const auto explain = [](Words arguments) {
    arguments.insert(arguments.begin(), {command_path, "cron", "explain"});
    return run_command(arguments);
  };
  const auto plain = explain({"0 */5 * * * *", "--from", "2026-11-16T10:02:00Z", "--count", "2"});
  EXPECT_EQ(plain.code, 0);
  EXPECT_EQ(plain.out,
            "every 5 minutes (UTC)\n\n"
            "LOCAL                           UTC\n"
            "Mon 2026-11-16 10:05:00 +00:00  2026-11-16T10:05:00.000000Z\n"
            "Mon 2026-11-16 10:10:00 +00:00  2026-11-16T10:10:00.000000Z\n");
  const auto berlin = explain({"30 2 * * *", "--zone", "Europe/Berlin", "--from",
                               "2026-03-28T12:00:00Z", "--count", "2", "--json"});
  const auto answer = nlohmann::json::parse(berlin.out);
  EXPECT_EQ(answer["next"][0]["local"], "Sun 2026-03-29 03:00:00 +02:00") << "right after the gap";
  EXPECT_EQ(answer["next"][1]["local"], "Mon 2026-03-30 02:30:00 +02:00");
  const auto wrong = explain({"0 0 30 2 *"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("never"));
}

}  // namespace
}  // namespace dovetail::testing
