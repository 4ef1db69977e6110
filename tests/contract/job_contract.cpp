// Cron jobs and their runs.
#include <set>
#include <thread>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JobContract : public BackendTest {
 protected:
  /// A job that runs every minute, without a limit of concurrent runs.
  static JobRequest minutely(const std::string& name = "j") {
    return {.name = name,
            .topic = "work",
            .cron = "0 * * * * *",
            .payload = "p",
            .max_concurrent_runs = 0};
  }
  std::vector<ClaimedMessage> claim() {
    return platform.outbox().claim({.owner = owner, .batch_size = 1'000, .lease = hours{2}});
  }
  std::size_t ack(const std::vector<ClaimedMessage>& claimed) {
    std::vector<Claim> claims;
    for (const auto& each : claimed) claims.push_back(each.claim);
    return platform.outbox().ack(owner, claims);
  }
  std::size_t pass(std::chrono::milliseconds time) {
    backend.advance(time);
    return jobs.schedule_due();
  }
  std::vector<RunStatus> statuses(const std::string& name = "j") {
    std::vector<RunStatus> found;
    for (const auto& run : jobs.runs(name)) found.push_back(run.status);
    return found;
  }

  Platform platform = backend.open();
  Jobs& jobs = platform.jobs();
  OwnerToken owner = OwnerToken::generate();
};
DOVETAIL_CONTRACT(JobContract);

// --- jobs

TEST_P(JobContract, AJobIsCreatedAndChangedByItsName) {
  const auto id = jobs.create_or_update({.name = "report",
                                         .topic = "report.build",
                                         .cron = "0 0 9 * * MON-FRI",
                                         .payload = "{}",
                                         .time_zone = "Europe/Berlin",
                                         .misfire = Misfire::all,
                                         .misfire_limit = 3,
                                         .max_concurrent_runs = 2,
                                         .jitter = seconds{5}});
  auto job = jobs.find("report");
  ASSERT_TRUE(job);
  EXPECT_EQ(job->id, id);
  EXPECT_EQ(job->topic, "report.build");
  EXPECT_EQ(job->cron, "0 0 9 * * MON-FRI");
  EXPECT_EQ(job->time_zone, "Europe/Berlin");
  EXPECT_EQ(job->misfire, Misfire::all);
  EXPECT_EQ(job->misfire_limit, 3);
  EXPECT_EQ(job->max_concurrent_runs, 2);
  EXPECT_EQ(job->jitter, seconds{5});
  EXPECT_TRUE(job->enabled);
  EXPECT_EQ(job->next_due_at, next_occurrence(CronExpression::parse("0 0 9 * * MON-FRI"),
                                              TimeZone::find("Europe/Berlin"), job->created_at));
  EXPECT_FALSE(job->last_run_at);

  EXPECT_EQ(jobs.create_or_update({.name = "report", .topic = "t2", .cron = "*/5 * * * *"}), id);
  job = jobs.find("report");
  EXPECT_EQ(job->topic, "t2");
  EXPECT_LE(*job->next_due_at - backend.now(), minutes{5}) << "at once";
  jobs.create_or_update(minutely("another"));
  EXPECT_THAT(jobs.list(), SizeIs(2));
  EXPECT_EQ(jobs.list().front().name, "another");
  EXPECT_FALSE(jobs.find("nothing"));
}

TEST_P(JobContract, WhatCannotWorkIsRefusedAndNothingIsStored) {
  const auto with = [](const auto& change) {
    auto request = minutely();
    change(request);
    return request;
  };
  EXPECT_THROW(jobs.create_or_update(with([](auto& r) { r.name = ""; })), std::invalid_argument);
  EXPECT_THROW(jobs.create_or_update(with([](auto& r) { r.name = std::string(101, 'n'); })),
               std::invalid_argument);
  EXPECT_THROW(jobs.create_or_update(with([](auto& r) { r.topic = ""; })), std::invalid_argument);
  EXPECT_THROW(jobs.create_or_update(with([](auto& r) { r.cron = "every day"; })), CronError);
  EXPECT_THROW(jobs.create_or_update(with([](auto& r) { r.cron = "0 0 30 2 *"; })), CronError);
  EXPECT_THROW(jobs.create_or_update(with([](auto& r) { r.time_zone = "Mars/Olympus"; })),
               std::invalid_argument);
  EXPECT_THROW(jobs.create_or_update(with([](auto& r) { r.misfire_limit = 0; })),
               std::out_of_range);
  EXPECT_THROW(jobs.create_or_update(with([](auto& r) { r.max_concurrent_runs = -1; })),
               std::out_of_range);
  EXPECT_THROW(jobs.create_or_update(with([](auto& r) { r.jitter = hours{2}; })),
               std::out_of_range);
  EXPECT_THAT(jobs.list(), IsEmpty());
}

TEST_P(JobContract, CreatingItAgainAsServicesDoForgetsNothingThatWasMissed) {
  jobs.create_or_update(minutely());
  const auto due = jobs.find("j")->next_due_at;
  backend.advance(minutes{10});
  jobs.create_or_update(minutely());
  EXPECT_THAT(jobs.runs("j"), SizeIs(1)) << "the missed ones, coalesced";
  auto moved = minutely();
  moved.cron = "30 * * * * *";
  jobs.create_or_update(moved);
  EXPECT_GT(jobs.find("j")->next_due_at, due);
  EXPECT_THAT(jobs.runs("j"), SizeIs(1)) << "of a new schedule only what comes";
}

TEST_P(JobContract, ARenamedJobKeepsItsRuns) {
  const auto id = jobs.create_or_update(minutely("old"));
  pass(minutes{1});
  auto renamed = minutely("new");
  renamed.formerly = "old";
  EXPECT_EQ(jobs.create_or_update(renamed), id);
  EXPECT_FALSE(jobs.find("old"));
  EXPECT_THAT(jobs.runs("new"), SizeIs(1));
  EXPECT_EQ(jobs.create_or_update(renamed), id) << "and again";
}

// --- runs

TEST_P(JobContract, EachTimeOfTheScheduleIsOneRunAndOneMessage) {
  jobs.create_or_update(minutely());
  const auto due = *jobs.find("j")->next_due_at;
  EXPECT_EQ(jobs.schedule_due(), 0U);
  backend.advance(std::chrono::duration_cast<milliseconds>(due - backend.now()) + milliseconds{10});
  EXPECT_EQ(jobs.schedule_due(), 1U);
  EXPECT_EQ(jobs.schedule_due(), 0U);
  const auto runs = jobs.runs("j");
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_EQ(runs[0].scheduled_time, due);
  EXPECT_EQ(runs[0].status, RunStatus::ready);
  EXPECT_FALSE(runs[0].triggered);
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  const auto& message = claimed[0].message;
  EXPECT_EQ(message.topic, "work");
  EXPECT_EQ(message.payload, "p");
  EXPECT_EQ(message.message_id.uuid(), runs[0].id.uuid());
  EXPECT_EQ(Jobs::run_of(message), runs[0].id);
  EXPECT_EQ(message.correlation_id, "job-run-" + runs[0].id.to_string());
  EXPECT_EQ(message.headers.at("dovetail-job"), "j");
  EXPECT_THAT(statuses(), ElementsAre(RunStatus::in_progress));
  EXPECT_EQ(ack(claimed), 1U);
  EXPECT_THAT(statuses(), ElementsAre(RunStatus::done));
  EXPECT_TRUE(jobs.runs("j")[0].ended_at);
  EXPECT_EQ(jobs.find("j")->last_run_at, due);
  EXPECT_EQ(jobs.find("j")->last_run_status, RunStatus::done);
}

TEST_P(JobContract, ARunFollowsItsMessageThroughFailureAndReplay) {
  jobs.create_or_update(minutely());
  pass(minutes{1});
  auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  platform.outbox().abandon(owner, std::vector{claimed[0].claim},
                            {.error = "first", .delay = seconds{0}});
  EXPECT_THAT(statuses(), ElementsAre(RunStatus::ready));
  EXPECT_EQ(jobs.runs("j")[0].last_error, "first");
  EXPECT_EQ(jobs.runs("j")[0].attempts, 1);
  claimed = claim();
  platform.outbox().fail(owner, std::vector{claimed.at(0).claim}, "for good");
  EXPECT_THAT(statuses(), ElementsAre(RunStatus::failed));
  EXPECT_EQ(jobs.runs("j")[0].last_error, "for good");
  EXPECT_EQ(jobs.find("j")->last_run_status, RunStatus::failed);
  EXPECT_EQ(platform.outbox().replay(DeadLetterFilter{}), 1U);
  EXPECT_THAT(statuses(), ElementsAre(RunStatus::ready));
  EXPECT_EQ(ack(claim()), 1U);
  EXPECT_THAT(statuses(), ElementsAre(RunStatus::done));
}

TEST_P(JobContract, AJobThatAlwaysFailsShowsItBeforeItsMessageIsADeadLetter) {
  jobs.create_or_update(minutely());
  pass(minutes{1});
  const auto first = jobs.runs("j").at(0).scheduled_time;
  EXPECT_FALSE(jobs.find("j")->last_run_status);
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  platform.outbox().abandon(owner, std::vector{claimed[0].claim},
                            {.error = "no", .delay = seconds{0}});
  EXPECT_EQ(jobs.find("j")->last_run_status, RunStatus::failed);
  EXPECT_EQ(jobs.find("j")->last_run_at, first);
  EXPECT_EQ(ack(claim()), 1U);
  EXPECT_EQ(jobs.find("j")->last_run_status, RunStatus::done);
}

TEST_P(JobContract, ManySchedulersMakeOneRunOfEachTime) {
  auto second = backend.open();
  auto third = backend.open();
  auto request = minutely();
  request.misfire = Misfire::all;
  request.misfire_limit = 100;
  jobs.create_or_update(request);
  for (int round = 0; round < 10; ++round) {
    backend.advance(minutes{1});
    std::vector<std::jthread> schedulers;
    for (auto* each : {&platform, &second, &third}) {
      schedulers.emplace_back([each] { each->jobs().schedule_due(); });
    }
  }
  const auto runs = jobs.runs("j");
  std::set<WallTime> times;
  for (const auto& run : runs) times.insert(run.scheduled_time);
  EXPECT_EQ(times.size(), runs.size());
  EXPECT_THAT(runs, SizeIs(10));
  EXPECT_THAT(claim(), SizeIs(10));
}

// --- misfires

TEST_P(JobContract, AfterADayWithoutASchedulerCoalesceRunsOnce) {
  jobs.create_or_update(minutely());
  EXPECT_EQ(pass(hours{24}), 1U);
  const auto runs = jobs.runs("j");
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_LE(backend.now() - runs[0].scheduled_time, minutes{1}) << "for the latest";
  EXPECT_GT(jobs.find("j")->next_due_at, backend.now());
}

TEST_P(JobContract, AfterADayWithoutASchedulerAllRunsTheLatestOfThem) {
  auto request = minutely();
  request.misfire = Misfire::all;
  request.misfire_limit = 5;
  jobs.create_or_update(request);
  EXPECT_EQ(pass(hours{24}), 5U);
  const auto runs = jobs.runs("j");
  ASSERT_THAT(runs, SizeIs(5));
  EXPECT_EQ(runs[0].scheduled_time - runs[4].scheduled_time, minutes{4});
  EXPECT_LE(backend.now() - runs[0].scheduled_time, minutes{1});
}

TEST_P(JobContract, AfterADayWithoutASchedulerSkipRunsWhatIsNotLate) {
  auto request = minutely();
  request.misfire = Misfire::skip;
  request.cron = "0 0 3 * * *";
  jobs.create_or_update(request);
  const auto due = *jobs.find("j")->next_due_at;
  pass(std::chrono::duration_cast<milliseconds>(due - backend.now()) + minutes{2});
  EXPECT_THAT(jobs.runs("j"), IsEmpty()) << "two minutes late";
  const auto next = *jobs.find("j")->next_due_at;
  EXPECT_EQ(next, due + hours{24});
  EXPECT_EQ(pass(std::chrono::duration_cast<milliseconds>(next - backend.now()) + seconds{1}), 1U);
}

TEST_P(JobContract, MoreMissedTimesThanOneTransactionTakesAreAllStartedAtOnce) {
  auto request = minutely();
  request.misfire = Misfire::all;
  request.misfire_limit = 250;
  jobs.create_or_update(request);
  EXPECT_EQ(pass(hours{5}), 250U) << "by one look";
  EXPECT_THAT(claim(), SizeIs(250));
}

TEST_P(JobContract, AClockMovedByAnHourEitherWayRunsNothingTwice) {
  auto request = minutely();
  request.misfire = Misfire::all;
  request.misfire_limit = 1'000;
  jobs.create_or_update(request);
  EXPECT_EQ(pass(minutes{3}), 3U);
  EXPECT_EQ(pass(-hours{1}), 0U);
  EXPECT_EQ(pass(minutes{30}), 0U) << "these times have been";
  EXPECT_EQ(pass(minutes{30}), 0U);
  EXPECT_EQ(pass(minutes{1}), 1U);
  EXPECT_EQ(pass(hours{1}), 60U);
  const auto runs = jobs.runs("j", {.size = 1'000});
  std::set<WallTime> times;
  for (const auto& run : runs) times.insert(run.scheduled_time);
  EXPECT_EQ(times.size(), 64U);
}

// --- overlap

TEST_P(JobContract, ARunWaitsForTheOneBeforeItAndFurtherTimesAreCoalesced) {
  auto request = minutely();
  request.max_concurrent_runs = 1;
  jobs.create_or_update(request);
  EXPECT_EQ(pass(minutes{1}), 1U);
  EXPECT_EQ(pass(minutes{1}), 0U) << "the first one is under way";
  EXPECT_EQ(pass(minutes{1}), 0U);
  const auto runs = jobs.runs("j");
  ASSERT_THAT(runs, SizeIs(2)) << "one waits";
  EXPECT_LE(backend.now() - runs[0].scheduled_time, minutes{1}) << "for the latest time";
  const auto first = claim();
  ASSERT_THAT(first, SizeIs(1));
  ack(first);
  EXPECT_EQ(jobs.schedule_due(), 1U) << "at once, not with the next minute";
  EXPECT_EQ(ack(claim()), 1U);
  EXPECT_THAT(statuses(), ElementsAre(RunStatus::done, RunStatus::done));
}

TEST_P(JobContract, WithSkipNothingWaitsAndWithAllAsManyAsItsLimit) {
  auto skip = minutely("skip");
  skip.max_concurrent_runs = 1;
  skip.misfire = Misfire::skip;
  auto all = minutely("all");
  all.max_concurrent_runs = 1;
  all.misfire = Misfire::all;
  all.misfire_limit = 2;
  jobs.create_or_update(skip);
  jobs.create_or_update(all);
  for (int i = 0; i < 5; ++i) pass(minutes{1});
  EXPECT_THAT(jobs.runs("skip"), SizeIs(1));
  EXPECT_THAT(jobs.runs("all"), SizeIs(3));
}

// --- trigger, enable, remove

TEST_P(JobContract, ATriggeredRunComesBesideTheSchedule) {
  auto request = minutely();
  request.cron = "0 0 0 1 1 *";
  jobs.create_or_update(request);
  const auto due = jobs.find("j")->next_due_at;
  const auto run = jobs.trigger("j");
  ASSERT_TRUE(run);
  EXPECT_TRUE(jobs.trigger("j")) << "as often as one likes";
  EXPECT_THAT(claim(), SizeIs(2));
  EXPECT_EQ(jobs.find("j")->next_due_at, due);
  EXPECT_TRUE(jobs.runs("j")[0].triggered);
  EXPECT_FALSE(jobs.trigger("nothing"));
  jobs.disable("j");
  EXPECT_TRUE(jobs.trigger("j")) << "also a disabled one";
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(JobContract, ADisabledJobDoesNotRunAndIsNotMadeUpFor) {
  jobs.create_or_update(minutely());
  EXPECT_TRUE(jobs.disable("j"));
  EXPECT_FALSE(jobs.find("j")->enabled);
  EXPECT_FALSE(jobs.find("j")->next_due_at);
  EXPECT_EQ(pass(hours{1}), 0U);
  EXPECT_TRUE(jobs.enable("j"));
  EXPECT_EQ(jobs.schedule_due(), 0U);
  EXPECT_EQ(pass(minutes{1}), 1U);
  EXPECT_FALSE(jobs.enable("nothing"));
  EXPECT_FALSE(jobs.disable("nothing"));
}

TEST_P(JobContract, RemovingAJobRemovesWhatNobodyHasBegun) {
  jobs.create_or_update(minutely());
  EXPECT_EQ(pass(minutes{1}), 1U);
  EXPECT_EQ(ack(claim()), 1U);
  EXPECT_EQ(pass(minutes{1}), 1U);
  const auto begun = claim();
  ASSERT_THAT(begun, SizeIs(1));
  EXPECT_EQ(pass(minutes{1}), 1U);
  EXPECT_TRUE(jobs.remove("j"));
  EXPECT_FALSE(jobs.remove("j"));
  EXPECT_FALSE(jobs.find("j"));
  EXPECT_THAT(claim(), IsEmpty()) << "the third one is gone with its message";
  EXPECT_THAT(statuses(), ElementsAre(RunStatus::in_progress, RunStatus::done));
  EXPECT_EQ(ack(begun), 1U);
  EXPECT_THAT(statuses(), ElementsAre(RunStatus::done, RunStatus::done));
}

TEST_P(JobContract, JitterComesOnTopAndIsBounded) {
  auto request = minutely();
  request.jitter = seconds{20};
  jobs.create_or_update(request);
  for (int i = 0; i < 20; ++i) pass(minutes{1});
  std::set<WallTime::duration> delays;
  for (const auto& run : jobs.runs("j")) {
    const auto message = platform.outbox().find(MessageId{run.id.uuid()});
    ASSERT_TRUE(message);
    const auto delay = *message->message.due_at - run.scheduled_time;
    EXPECT_GE(delay, seconds{0});
    EXPECT_LE(delay, seconds{20});
    delays.insert(delay);
  }
  EXPECT_GT(delays.size(), 10U) << "they differ";
}

TEST_P(JobContract, EndedRunsArePurged) {
  jobs.create_or_update(minutely());
  pass(minutes{1});
  ack(claim());
  pass(hours{1});
  EXPECT_EQ(jobs.purge_runs(minutes{30}), 1U);
  EXPECT_THAT(jobs.runs("j"), SizeIs(1));
  EXPECT_EQ(jobs.purge_runs(seconds{0}), 0U) << "it has not ended";
}

TEST_P(JobContract, AJobThatCannotBeUnderstoodDoesNotKeepOthersFromRunning) {
  auto log = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = log;
  auto other = Platform::open(backend.url(), options);
  jobs.create_or_update(minutely("a"));
  jobs.create_or_update(minutely("b"));
  backend.sql("update " + backend.table("job") +
              " set time_zone = 'Mars/Olympus' where name = 'a'");
  // Another process may know the time zone, so the time of the next check does not change.
  backend.advance(minutes{1});
  EXPECT_EQ(other.jobs().schedule_due(), 1U);
  EXPECT_EQ(log->count("jobs.broken"), 1);
  EXPECT_THAT(jobs.runs("b"), SizeIs(1));
  EXPECT_EQ(other.jobs().schedule_due(), 0U);
  EXPECT_EQ(log->count("jobs.broken"), 1) << "once";
  backend.sql("update " + backend.table("job") +
              " set time_zone = 'UTC', cron = 'nonsense' where name = 'a'");
  jobs.create_or_update(minutely("a"));  // repairs it
  EXPECT_EQ(pass(minutes{2}), 2U);
}

TEST_P(JobContract, AJobThatThisProcessCannotUnderstandIsTriedAgainAfterTenMinutes) {
  auto log = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = log;
  options.clock = {std::shared_ptr<void>{}, &backend.clock()};  // the backend owns it
  auto other = Platform::open(backend.url(), options);
  jobs.create_or_update(minutely("a"));
  backend.sql("update " + backend.table("job") + " set time_zone = 'Mars/Olympus'");
  const auto broken_after = [&](minutes by) {
    backend.advance(by);
    EXPECT_EQ(other.jobs().schedule_due(), 0U);
    return log->count("jobs.broken");
  };
  EXPECT_EQ(broken_after(minutes{1}), 1);
  EXPECT_EQ(broken_after(minutes{9}), 1);
  EXPECT_EQ(broken_after(minutes{2}), 2);
}

TEST_P(JobContract, AMendedJobIsLookedAtAtOnceByTheProcessThatDidNotUnderstandIt) {
  auto other = backend.open();
  jobs.create_or_update(minutely());
  const auto breaks = [&](const std::string& column, const std::string& value) {
    backend.sql("update " + backend.table("job") + " set " + column + " = '" + value + "'");
    backend.advance(minutes{1});
    EXPECT_EQ(other.jobs().schedule_due(), 0U);
    EXPECT_THAT(jobs.find("j")->last_error.value_or(""), HasSubstr(value));
    backend.advance(seconds{1});
    jobs.create_or_update(minutely());
    EXPECT_FALSE(jobs.find("j")->last_error);
    backend.advance(minutes{1});
    EXPECT_EQ(other.jobs().schedule_due(), 1U) << column;
  };
  breaks("time_zone", "Mars/Olympus");
  breaks("cron", "nonsense");
}

TEST_P(JobContract, DisablingDropsWhatWaitsForItsTurn) {
  auto request = minutely();
  request.max_concurrent_runs = 1;
  jobs.create_or_update(request);
  pass(minutes{1});
  pass(minutes{1});
  EXPECT_THAT(jobs.runs("j"), SizeIs(2));
  jobs.disable("j");
  EXPECT_THAT(jobs.runs("j"), SizeIs(1));
  jobs.create_or_update(minutely());
  EXPECT_FALSE(jobs.find("j")->enabled)
      << "a service that starts does not undo what an operator did";
  auto enabled = minutely();
  enabled.enabled = true;
  jobs.create_or_update(enabled);
  EXPECT_TRUE(jobs.find("j")->enabled);
}

TEST_P(JobContract, ATriggerAtTheVeryTimeOfTheScheduleIsASecondRun) {
  jobs.create_or_update(minutely());
  backend.advance(
      std::chrono::duration_cast<milliseconds>(*jobs.find("j")->next_due_at - backend.now()) +
      milliseconds{1});
  ASSERT_TRUE(jobs.trigger("j"));
  EXPECT_THAT(claim(), SizeIs(2));
}

TEST_P(JobContract, AStartedPlatformRunsJobsAndNotesStartAndOutput) {
  auto options = backend.options();
  options.clock = nullptr;  // real time
  auto worker = Platform::open(backend.url(), options);
  worker.on("work", [&](const Message& message, HandlerContext& context) {
    const auto run = Jobs::run_of(message);
    ASSERT_TRUE(run);
    worker.jobs().set_output(context.transaction(), *run, "42 rows");
  });
  worker.start();
  worker.jobs().create_or_update(
      {.name = "every-second", .topic = "work", .cron = "* * * * * *", .max_concurrent_runs = 0});
  EXPECT_TRUE(eventually([&] {
    const auto runs = worker.jobs().runs("every-second");
    return runs.size() >= 2 && runs.back().status == RunStatus::done;
  }));
  const auto run = worker.jobs().runs("every-second").back();
  EXPECT_EQ(run.output, "42 rows");
  ASSERT_TRUE(run.started_at);
  EXPECT_LE(*run.started_at, *run.ended_at);
  EXPECT_GE(*run.started_at, run.scheduled_time);
}

// --- PostgreSQL only: SQLite has one writer, so transactions are never concurrent

class PostgresJobContract : public JobContract {};
INSTANTIATE_TEST_SUITE_P(Engines, PostgresJobContract, ::testing::Values(BackendKind::postgres),
                         backend_name);

TEST_P(PostgresJobContract, ARunThatWaitsIsStartedThoughItWasAddedWhileTheOneBeforeItEnded) {
  auto request = minutely();
  request.max_concurrent_runs = 1;
  jobs.create_or_update(request);
  ASSERT_TRUE(jobs.trigger("j"));
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  // Another transaction locks the job, like a scheduler that adds a run, and has not committed when
  // the run ends.
  UserConnection scheduler(backend);
  scheduler.execute("begin");
  scheduler.execute("select from " + backend.table("job") + " where name = 'j' for no key update");
  scheduler.execute("insert into " + backend.table("job_run") +
                    " (id, job_id, job_name, scheduled_time, triggered, created_at) select "
                    "gen_random_uuid(), id, 'j', now(), "
                    "true, now() from " +
                    backend.table("job") + " where name = 'j'");
  std::jthread acking([&] { EXPECT_EQ(ack(claimed), 1U); });
  std::this_thread::sleep_for(milliseconds{200});
  scheduler.execute("commit");
  acking.join();
  EXPECT_EQ(jobs.schedule_due(), 1U) << "the end of the first has told that one waits";
}

}  // namespace
}  // namespace dovetail::testing
