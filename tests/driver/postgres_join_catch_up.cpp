// On PostgreSQL, the end of a join and an ack must leave some work undone. A started Platform does
// it about a second later. All tests have the default wait_poll: the waiting message itself would
// check its join a minute later.
#include <atomic>
#include <functional>
#include <thread>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/postgres_session.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;

/// Calls a function when the storage is about to run a transaction again.
class RetryWatch final : public LogSink {
 public:
  [[nodiscard]] bool enabled(LogLevel) const override { return true; }
  void write(const LogRecord& record) override {
    if (record.event == "storage.retry" && then) std::exchange(then, nullptr)();
  }
  std::function<void()> then;
};

/// Housekeeping looks every second.
constexpr std::chrono::seconds soon{5};

class PostgresJoinCatchUp : public ::testing::Test {
 protected:
  /// Creates a join with one step, which this test claims, and a worker whose waiting message has
  /// checked the join.
  void wait_for_a_step() {
    join = joins.start({.expected_steps = 1});
    step = platform.outbox().enqueue({.topic = "t", .joins = {join}});
    claims = claims_of(platform.outbox().claim({.owner = owner, .lease = std::chrono::hours{1}}));
    ASSERT_EQ(claims.size(), 1U);
    wait = joins.enqueue_wait(join, {.on_complete_topic = "done"});
    start_worker();
    ASSERT_TRUE(eventually([&] {
      return backend.number("select count(*) from " + infra + ".outbox where id = '" +
                            wait.to_string() + "' and lease_until is null and ready_at > " + infra +
                            ".clock()") == 1;
    }));
  }
  void start_worker() {
    auto options = backend.options();
    options.worker.poll_interval = options.worker.idle_poll_interval = milliseconds{50};
    worker.emplace(Platform::open(backend.url(), options));
    worker->on("done", [this](const Message&, HandlerContext&) { ++continued; });
    worker->start();
  }
  static std::vector<Claim> claims_of(const std::vector<ClaimedMessage>& claimed) {
    std::vector<Claim> claims;
    for (const auto& each : claimed) claims.push_back(each.claim);
    return claims;
  }
  [[nodiscard]] std::string ack() const {
    return "select " + infra + ".outbox_ack('" + owner.to_string() + "', array['" +
           step.to_string() + "'::uuid], array[1::bigint])";
  }
  [[nodiscard]] std::int64_t missed() const {
    return backend.number("select count(*) from " + infra + ".outbox_join_waiter where missed");
  }
  [[nodiscard]] std::int64_t uncounted() const {
    return backend.number("select count(*) from " + infra + ".outbox_join_uncounted");
  }

  Backend backend{BackendKind::postgres, Tables::may_exist};
  Platform platform = backend.open();
  Joins& joins = platform.joins();
  std::string infra = backend.schema();
  OwnerToken owner = OwnerToken::generate();
  JoinId join;
  MessageId step;
  MessageId wait;
  std::vector<Claim> claims;
  std::atomic<int> continued{0};
  std::optional<Platform> worker;  // last: its handlers use the rest
};

TEST_F(PostgresJoinCatchUp, AWaitThatWasLockedWhenItsJoinEndedIsWokenSoonAfter) {
  wait_for_a_step();
  PostgresSession claiming(backend);  // as a claim does for a moment when it re-checks the row
  claiming.run("select from " + infra + ".outbox where id = '" + wait.to_string() +
               "' for no key update");
  EXPECT_EQ(platform.outbox().ack(owner, claims), 1U) << "the ack waits for nobody";
  EXPECT_EQ(joins.find(join)->status, JoinStatus::completed);
  EXPECT_EQ(missed(), 1);
  claiming.run("rollback");
  EXPECT_TRUE(eventually([&] { return continued > 0; }, soon)) << "its own look comes after 60 s";
  EXPECT_TRUE(eventually([&] { return missed() == 0; }));
}

TEST_F(PostgresJoinCatchUp, AWaitThatIsStillLockedStaysMissed) {
  wait_for_a_step();
  worker.reset();
  PostgresSession claiming(backend);
  claiming.run("select from " + infra + ".outbox where id = '" + wait.to_string() +
               "' for no key update");
  EXPECT_EQ(platform.outbox().ack(owner, claims), 1U);
  const auto catch_up = "select " + infra + ".outbox_join_catch_up()";
  EXPECT_EQ(backend.number(catch_up), 0);
  EXPECT_EQ(missed(), 1);
  claiming.run("rollback");
  EXPECT_EQ(backend.number(catch_up), 1);
  EXPECT_EQ(missed(), 0);
  EXPECT_EQ(backend.number(catch_up), 0);
}

TEST_F(PostgresJoinCatchUp, ADeadlineAndACancelMissNobodyEither) {
  wait_for_a_step();
  PostgresSession claiming(backend);
  claiming.run("select from " + infra + ".outbox where id = '" + wait.to_string() +
               "' for no key update");
  EXPECT_TRUE(joins.cancel(join));
  claiming.run("rollback");
  EXPECT_TRUE(eventually(
      [&] { return platform.outbox().find(wait)->status == MessageStatus::done; }, soon));
}

TEST_F(PostgresJoinCatchUp, AnAckWithAnOldSnapshotIsCountedSoonAfter) {
  for (const auto* level : {"repeatable read", "serializable"}) {
    continued = 0;
    worker.reset();
    // The snapshot is older than the join and than the attach of its step.
    step = platform.outbox().enqueue({.topic = "t"});
    claims = claims_of(platform.outbox().claim({.owner = owner, .lease = std::chrono::hours{1}}));
    ASSERT_EQ(claims.size(), 1U);
    PostgresSession ending(backend);
    ending.run("commit");
    ending.run("begin isolation level " + std::string{level});
    ending.run("select count(*) from " + infra + ".outbox_join_members");
    join = joins.start({.expected_steps = 1});
    joins.attach(join, step);
    wait = joins.enqueue_wait(join, {.on_complete_topic = "done"});
    start_worker();
    EXPECT_EQ(ending.run(ack()), "1");
    ending.run("commit");
    EXPECT_TRUE(eventually([&] { return continued == 1; }, soon)) << level;
    EXPECT_EQ(joins.find(join)->completed_steps, 1) << level;
    EXPECT_EQ(uncounted(), 0) << level;
  }
}

TEST_F(PostgresJoinCatchUp, AnAckWithAnOldSnapshotIsCountedSoonWithoutAWaitingMessage) {
  step = platform.outbox().enqueue({.topic = "t"});
  claims = claims_of(platform.outbox().claim({.owner = owner, .lease = std::chrono::hours{1}}));
  ASSERT_EQ(claims.size(), 1U);
  start_worker();
  platform.outbox().enqueue({.topic = "done"});
  ASSERT_TRUE(eventually([&] { return continued == 1; })) << "the worker works";
  std::this_thread::sleep_for(milliseconds{1'500});  // until it has seen that no message waits
  PostgresSession ending(backend);
  ending.run("commit");
  ending.run("begin isolation level repeatable read");
  ending.run("select count(*) from " + infra + ".outbox_join_members");
  join = joins.start({.expected_steps = 1});
  joins.attach(join, step);
  EXPECT_EQ(ending.run(ack()), "1");
  ending.run("commit");
  EXPECT_TRUE(eventually([&] { return joins.find(join)->status == JoinStatus::completed; },
                         std::chrono::seconds{8}))
      << "the housekeeper would count it up to half a minute later";
}

TEST_F(PostgresJoinCatchUp, AnAckWithAnOldSnapshotThatSeesItsJoinIsCountedAtOnceAndOnce) {
  join = joins.start({.expected_steps = 2});
  step = platform.outbox().enqueue({.topic = "t", .joins = {join}});
  claims = claims_of(platform.outbox().claim({.owner = owner}));
  PostgresSession ending(backend);
  ending.run("commit");
  ending.run("begin isolation level repeatable read");
  EXPECT_EQ(ending.run(ack()), "1");
  ending.run("commit");
  EXPECT_EQ(joins.find(join)->completed_steps, 1);
  EXPECT_EQ(backend.number("select " + infra + ".outbox_join_catch_up()"), 1);
  EXPECT_EQ(joins.find(join)->completed_steps, 1);
}

TEST_F(PostgresJoinCatchUp, AnAckOfNoStepWorksAtEveryIsolationLevel) {
  for (const auto* level : {"repeatable read", "serializable"}) {
    step = platform.outbox().enqueue({.topic = "t"});
    ASSERT_EQ(platform.outbox().claim({.owner = owner}).size(), 1U);
    PostgresSession ending(backend);
    ending.run("commit");
    ending.run("begin isolation level " + std::string{level});
    EXPECT_EQ(ending.run(ack()), "1");
    ending.run("commit");
    EXPECT_EQ(platform.outbox().find(step)->status, MessageStatus::done);
    EXPECT_EQ(backend.number("select " + infra + ".outbox_join_catch_up()"), 1);
    EXPECT_EQ(uncounted(), 0);
  }
}

TEST_F(PostgresJoinCatchUp, StepsOfALockedJoinAreCountedLater) {
  step = platform.outbox().enqueue({.topic = "t"});
  ASSERT_EQ(platform.outbox().claim({.owner = owner}).size(), 1U);
  PostgresSession ending(backend);
  ending.run("commit");
  ending.run("begin isolation level repeatable read");
  ending.run("select 1");
  join = joins.start({.expected_steps = 1});
  joins.attach(join, step);
  ending.run(ack());
  ending.run("commit");
  PostgresSession holding(backend);
  holding.run("select from " + infra + ".outbox_join for no key update");
  EXPECT_EQ(backend.number("select " + infra + ".outbox_join_catch_up()"), 0)
      << "it waits for nobody";
  holding.run("rollback");
  EXPECT_EQ(backend.number("select " + infra + ".outbox_join_catch_up()"), 1);
  EXPECT_EQ(joins.find(join)->status, JoinStatus::completed);
}

// --- results of attempts that were rolled back

/// Makes the first commit that changed rows of `table` fail, with an error that allows a retry.
class PostgresRetriedAnswers : public PostgresJoinCatchUp {
 protected:
  void fail_first_commit(const std::string& table, const std::string& event,
                         const std::string& error = "serialization_failure") {
    backend.sql("create sequence " + infra + ".commits");
    backend.sql("create function " + infra +
                ".fail_first() returns trigger language plpgsql as $$ begin if nextval('" + infra +
                ".commits') = 1 then raise exception 'no luck' using errcode = '" + error +
                "'; end if; return null; end $$");
    backend.sql("create constraint trigger fail_first after " + event + " on " + infra + "." +
                table + " deferrable initially deferred for each row execute function " + infra +
                ".fail_first()");
    auto options = backend.options();
    options.log_sink = watch;
    retrying.emplace(Platform::open(backend.url(), options));
  }

  std::shared_ptr<RetryWatch> watch = std::make_shared<RetryWatch>();
  std::optional<Platform> retrying;
};

TEST_F(PostgresRetriedAnswers, AReportIsNotAnsweredForARunThatRolledBack) {
  join = joins.start({.expected_steps = 2});
  step = platform.outbox().enqueue({.topic = "t", .joins = {join}});
  fail_first_commit("outbox_join_member", "update");
  bool other = false;
  watch->then = [&] { other = joins.report_step_completed(join, step); };
  EXPECT_FALSE(retrying->joins().report_step_completed(join, step));
  EXPECT_TRUE(other) << "the step's first end was this one";
}

TEST_F(PostgresRetriedAnswers, ACancelIsNotAnsweredForARunThatRolledBack) {
  join = joins.start({.expected_steps = 2});
  fail_first_commit("outbox_join", "update");
  bool other = false;
  watch->then = [&] { other = joins.cancel(join); };
  EXPECT_FALSE(retrying->joins().cancel(join));
  EXPECT_TRUE(other);
}

TEST_F(PostgresRetriedAnswers, AMarkInTheInboxIsNotAnsweredForARunThatRolledBack) {
  platform.inbox().already_processed("s", "m");
  fail_first_commit("inbox_guard", "update");
  bool other = false;
  watch->then = [&] { other = platform.inbox().mark_processed("s", "m"); };
  EXPECT_FALSE(retrying->inbox().mark_processed("s", "m"));
  EXPECT_TRUE(other);
}

TEST_F(PostgresRetriedAnswers, AWaitThatHasToBeHandledAgainIsLoggedOnce) {
  const auto fan =
      joins.fan_out({.steps = {{.topic = "t"}}, .wait = {{.on_complete_topic = "done"}}});
  joins.report_step_completed(fan.join, fan.steps[0]);
  fail_first_commit("outbox_join_waiter", "delete");
  const auto log = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = log;
  options.worker.poll_interval = options.worker.idle_poll_interval = milliseconds{50};
  worker.emplace(Platform::open(backend.url(), options));
  for (const auto* topic : {"t", "done"}) worker->on(topic, [](const Message&, HandlerContext&) {});
  worker->start();
  EXPECT_TRUE(eventually([&] { return log->count("join.success_continued") > 0; }));
  EXPECT_EQ(backend.number("select last_value from " + infra + ".commits"), 2)
      << "the first commit failed";
  EXPECT_EQ(log->count("join.success_continued"), 1);
  EXPECT_EQ(log->count("join.ended"), 1);
}

TEST_F(PostgresRetriedAnswers, AFanOutIsNotAnsweredForARunThatRolledBack) {
  const FanOut request{.join_id = JoinId::generate(), .steps = {{.topic = "a"}}};
  fail_first_commit("outbox_join", "insert");
  watch->then = [&] { (void)joins.fan_out(request); };
  const auto fan = retrying->joins().fan_out(request);
  EXPECT_FALSE(fan.steps[0].stored());
  EXPECT_EQ(backend.number("select count(*) from " + infra + ".outbox"), 1);
}

// --- results of attempts whose commit was in doubt, and that were rolled back

TEST_F(PostgresRetriedAnswers, ACancelInDoubtIsNotAnsweredForAJoinThatOthersEnded) {
  join = joins.start({.expected_steps = 1});
  step = platform.outbox().enqueue({.topic = "t", .joins = {join}});
  fail_first_commit("outbox_join", "update", "statement_completion_unknown");
  watch->then = [&] { joins.report_step_completed(join, step); };
  EXPECT_FALSE(retrying->joins().cancel(join));
  EXPECT_EQ(joins.find(join)->status, JoinStatus::completed);
}

TEST_F(PostgresRetriedAnswers, AReportInDoubtIsNotAnsweredForAnotherReport) {
  join = joins.start({.expected_steps = 2});
  step = platform.outbox().enqueue({.topic = "t", .joins = {join}});
  fail_first_commit("outbox_join_member", "update", "statement_completion_unknown");
  watch->then = [&] { joins.report_step_failed(join, step); };
  EXPECT_FALSE(retrying->joins().report_step_completed(join, step));
  EXPECT_EQ(joins.find(join)->failed_steps, 1);
}

TEST_F(PostgresRetriedAnswers, AReleaseInDoubtOfALeaseThatExpiresIsNoRelease) {
  fail_first_commit("lease", "delete", "statement_completion_unknown");
  const auto lease = retrying->leases().try_acquire(
      "job", "me", std::chrono::duration_cast<milliseconds>(std::chrono::minutes{1}));
  ASSERT_TRUE(lease.has_value());
  watch->then = [&] { backend.advance(std::chrono::minutes{2}); };
  EXPECT_FALSE(retrying->leases().release(*lease));
}

}  // namespace
}  // namespace dovetail::testing
