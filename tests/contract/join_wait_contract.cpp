// Messages that wait for a join, and their continuations.
#include <atomic>
#include <mutex>
#include <set>

#include "support/eventually.hpp"
#include "support/join_test.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class JoinWaitContract : public JoinTest {
 protected:
  JoinWaitContract() { reopen({}); }

  /// Opens a worker with changed options.
  void reopen(const std::function<void(PlatformOptions&)>& change) {
    auto options = backend.options();
    options.log_sink = log;
    options.worker.poll_interval = milliseconds{20};
    options.worker.idle_poll_interval = milliseconds{50};
    if (change) change(options);
    worker.reset();
    worker.emplace(Platform::open(backend.url(), options));
    for (const auto* topic : {"done", "failed"}) {
      worker->on(topic, [this](const Message& message, HandlerContext&) {
        note(message.topic + ":" + message.payload);
      });
    }
    worker->on("step", [this](const Message& message, HandlerContext&) {
      if (message.payload == "fail") throw PermanentFailure("told so");
    });
  }
  void note(const std::string& what) {
    std::lock_guard lock(mutex);
    seen.push_back(what);
  }
  std::vector<std::string> noted() {
    std::lock_guard lock(mutex);
    return seen;
  }
  static Continuation both_paths(bool fail_if_any) {
    return {.fail_if_any_step_failed = fail_if_any,
            .on_complete_topic = "done",
            .on_complete_payload = "yes",
            .on_fail_topic = "failed",
            .on_fail_payload = "no"};
  }
  /// A message that a step wakes before its handler has returned is claimed again and delayed for
  /// some milliseconds. So the clock moves, but less than the interval of the checks.
  bool soon(const std::function<bool()>& condition) {
    return eventually([&, moved = 0]() mutable {
      if (!backend.is_postgres() && ++moved <= 100) backend.advance(milliseconds{5});
      return condition();
    });
  }
  bool handled() {
    return soon([&] { return !noted().empty(); });
  }
  bool ended(MessageId message, MessageStatus status) {
    return soon([&] { return found(message).status == status; });
  }
  /// Waits until the waiting message has checked its join and found it pending.
  bool waits(MessageId message) {
    return eventually([&] {
      return backend.number("select count(*) from " + backend.table("outbox_join_waiter")) > 0 &&
             found(message).status == MessageStatus::ready;
    });
  }
  std::int64_t continuations() {
    return backend.number("select count(*) from " + backend.table("outbox_messages") +
                          " where topic in ('done', 'failed')");
  }

  std::shared_ptr<RecordedLines> log = std::make_shared<RecordedLines>();
  std::mutex mutex;
  std::vector<std::string> seen;
  std::optional<Platform> worker;  // last: its handlers use the rest
};
DOVETAIL_CONTRACT(JoinWaitContract);

TEST_P(JoinWaitContract,
       JOIN_050_JOIN_051_JOIN_055_JOIN_056_OBX_090_OBX_093_TheContinuationFollowsTheLastStep) {
  const auto fan =
      joins.fan_out({.steps = {{.topic = "step"}, {.topic = "step"}}, .wait = both_paths(true)});
  worker->start();
  ASSERT_TRUE(handled()) << ::testing::PrintToString(log->all());
  EXPECT_THAT(noted(), ElementsAre("done:yes"));
  EXPECT_TRUE(ended(*fan.wait, MessageStatus::done));
  EXPECT_EQ(found(*fan.wait).message.attempts, 0);
  EXPECT_EQ(state(fan.join), "2/0 of 2, completed");
  EXPECT_THAT(joins.waiting(fan.join), ElementsAre(*fan.wait)) << "found after the end, too";
  EXPECT_EQ(found(Joins::continuation_of(*fan.wait)).message.topic, "done");
}

TEST_P(JoinWaitContract, JOIN_054_OBX_092_OBX_094_AFailedStepTakesTheFailurePathIfAskedFor) {
  const auto strict =
      joins.fan_out({.steps = {{.topic = "step", .payload = "fail"}, {.topic = "step"}},
                     .wait = both_paths(true)});
  worker->start();
  ASSERT_TRUE(ended(*strict.wait, MessageStatus::done));
  ASSERT_TRUE(handled());
  EXPECT_THAT(noted(), ElementsAre("failed:no"));
  EXPECT_EQ(state(strict.join), "1/1 of 2, failed");
}

TEST_P(JoinWaitContract, JOIN_055_APartialFailureMayBeGoodEnough) {
  const auto lenient =
      joins.fan_out({.steps = {{.topic = "step", .payload = "fail"}, {.topic = "step"}},
                     .wait = both_paths(false)});
  worker->start();
  ASSERT_TRUE(handled());
  EXPECT_THAT(noted(), ElementsAre("done:yes"));
  EXPECT_EQ(state(lenient.join), "1/1 of 2, failed") << "the flag chooses the path, not the status";
}

TEST_P(JoinWaitContract, JOIN_054_WithoutAFailureTopicThereIsNoContinuation) {
  const auto fan = joins.fan_out(
      {.steps = {{.topic = "step", .payload = "fail"}}, .wait = {{.on_complete_topic = "done"}}});
  worker->start();
  ASSERT_TRUE(ended(*fan.wait, MessageStatus::done));
  EXPECT_EQ(continuations(), 0);
}

TEST_P(JoinWaitContract, JOIN_053_OBX_091_WaitingCostsNoAttemptsAndIsEndedByTheLastStep) {
  const auto join = started(2);
  const auto wait = joins.enqueue_wait(join, both_paths(true));
  reopen([](PlatformOptions& options) { options.joins.wait_poll = milliseconds{100}; });
  worker->start();
  ASSERT_TRUE(waits(wait));
  for (int i = 0; i < 15; ++i) {  // more often than a message has attempts
    const auto looks = [&] {
      const auto lines = log->all();
      return std::ranges::count_if(
          lines, [](const auto& line) { return line.starts_with("debug join.waiting"); });
    };
    const auto before = looks();
    ASSERT_TRUE(eventually([&] {
      if (!backend.is_postgres()) backend.advance(milliseconds{101});
      return looks() > before;
    }));
  }
  EXPECT_EQ(found(wait).message.attempts, 0);
  EXPECT_EQ(continuations(), 0);
  step(join);
  step(join);
  ASSERT_TRUE(handled());
  EXPECT_THAT(noted(), ElementsAre("done:yes"));
}

TEST_P(JoinWaitContract, LostLeasesDoNotAddUpToTheDeathOfAWait) {
  const auto join = started(1);
  const auto wait = joins.enqueue_wait(join, both_paths(true));
  for (int round = 0; round < 3; ++round) {
    for (int lost = 0; lost < 12; ++lost) {  // by workers that die; others have ten attempts
      ASSERT_EQ(outbox.claim({.owner = OwnerToken::generate(), .lease = seconds{1}}).size(), 1U)
          << round;
      backend.advance(seconds{2});
    }
    reopen({});
    worker->start();
    ASSERT_TRUE(waits(wait));
    ASSERT_TRUE(eventually([&] { return found(wait).message.attempts == 0; }));
    worker.reset();
    backend.advance(seconds{61});
  }
  step(join);
  reopen({});
  worker->start();
  ASSERT_TRUE(handled());
  EXPECT_THAT(noted(), ElementsAre("done:yes"));
}

TEST_P(JoinWaitContract, AClaimWithALimitDoesNotLetAWaitDie) {
  const auto join = started(1);
  const auto wait = joins.enqueue_wait(join, both_paths(true));
  worker->start();
  ASSERT_TRUE(waits(wait));
  worker.reset();
  backend.advance(seconds{61});
  const auto claim_strictly = [&] {
    return outbox.claim({.owner = OwnerToken::generate(), .lease = seconds{1}, .max_attempts = 2});
  };
  for (int lost = 0; lost < 2; ++lost) {
    EXPECT_THAT(claim_strictly(), SizeIs(1));
    backend.advance(seconds{2});
  }
  EXPECT_THAT(claim_strictly(), IsEmpty());
  EXPECT_NE(found(wait).status, MessageStatus::failed);
  step(join);
  reopen({});
  worker->start();
  ASSERT_TRUE(handled());
  EXPECT_THAT(noted(), ElementsAre("done:yes"));
}

TEST_P(JoinWaitContract, AWaitOutlivesTheLossOfTheJoinsTables) {
  const auto join = started(1);
  const auto wait = joins.enqueue_wait(join, both_paths(true));
  const auto table = backend.table("outbox_join_waiter");
  const auto hidden = backend.is_postgres() ? std::string{"hidden"} : backend.table("hidden");
  backend.sql("alter table " + table + " rename to " + hidden);
  reopen([](PlatformOptions& options) { options.joins.wait_poll = milliseconds{100}; });
  worker->start();
  ASSERT_TRUE(eventually([&] {
    if (!backend.is_postgres()) backend.advance(milliseconds{101});
    return log->count("join.wait_postponed") > 11;
  })) << "more often than a message has attempts";
  EXPECT_EQ(found(wait).message.attempts, 0);
  const auto back = backend.is_postgres() ? backend.schema() + ".hidden" : hidden;
  const auto name = backend.is_postgres() ? std::string{"outbox_join_waiter"} : table;
  backend.sql("alter table " + back + " rename to " + name);
  step(join);
  ASSERT_TRUE(eventually([&] {
    if (!backend.is_postgres()) backend.advance(milliseconds{1'100});
    return !noted().empty();
  }));
  EXPECT_THAT(noted(), ElementsAre("done:yes"));
}

TEST_P(JoinWaitContract, TheLastAckWakesTheWaitAtOnce) {
  const auto join = started(1);
  const auto wait = joins.enqueue_wait(join, both_paths(true));
  reopen([](PlatformOptions& options) { options.joins.wait_poll = hours{1}; });
  worker->start();
  ASSERT_TRUE(waits(wait));
  outbox.enqueue({.topic = "step", .joins = {join}});
  ASSERT_TRUE(eventually([&] { return !noted().empty(); }, seconds{5}))
      << "only an hour later would it look by itself";
  EXPECT_THAT(noted(), ElementsAre("done:yes"));
}

TEST_P(JoinWaitContract, JOIN_057_AReportACancelAndADeadlineWakeItAsWellWhateverTheMessagesDid) {
  reopen([](PlatformOptions& options) { options.joins.wait_poll = hours{1}; });
  const auto reported = started(1);
  const auto work = MessageId::generate();
  joins.attach(reported, work);
  const auto cancelled = started(1);
  const auto late = joins.start({.expected_steps = 1, .deadline = backend.now() + hours{10}});
  const auto wait_reported = joins.enqueue_wait(reported, both_paths(true));
  const auto wait_cancelled = joins.enqueue_wait(cancelled, both_paths(true));
  const auto wait_late = joins.enqueue_wait(late, both_paths(false));
  worker->start();
  ASSERT_TRUE(eventually([&] {
    return backend.number("select count(*) from " + backend.table("outbox_join_waiter")) == 3 &&
           with_status(MessageStatus::ready) == 3;
  }));
  joins.report_step_completed(reported, work);
  joins.cancel(cancelled);
  ASSERT_TRUE(ended(wait_reported, MessageStatus::done));
  ASSERT_TRUE(ended(wait_cancelled, MessageStatus::done));
  ASSERT_TRUE(eventually([&] { return noted().size() == 1; }));
  EXPECT_THAT(noted(), ElementsAre("done:yes"));
  // Wait for the ack, too: the jump of the time would expire the lease.
  ASSERT_TRUE(eventually([&] { return with_status(MessageStatus::done) == 3; }));
  backend.advance(hours{11});
  joins.fail_overdue();  // unless the message itself has done it
  ASSERT_TRUE(ended(wait_late, MessageStatus::done));
  ASSERT_TRUE(eventually([&] { return noted().size() == 2; }));
  EXPECT_THAT(noted(), ElementsAre("done:yes", "failed:no"))
      << "a missed deadline takes the failure path, whatever the flag";
  EXPECT_TRUE(eventually([&] { return log->count("join.wait_cancelled") == 1; }));
}

TEST_P(JoinWaitContract, AWaitingMessageComesBackAtTheDeadlineByItself) {
  reopen([](PlatformOptions& options) { options.joins.wait_poll = hours{1}; });
  const auto late = joins.start({.expected_steps = 1, .deadline = backend.now() + seconds{2}});
  const auto wait = joins.enqueue_wait(late, both_paths(true));
  worker->start();
  ASSERT_TRUE(waits(wait));
  backend.advance(seconds{3});
  ASSERT_TRUE(handled());
  EXPECT_THAT(noted(), ElementsAre("failed:no"));
  EXPECT_EQ(got(late).status, JoinStatus::failed);
  EXPECT_THAT(got(late).reason.value_or(""), HasSubstr("deadline"));
}

TEST_P(JoinWaitContract, JOIN_052_AMissingJoinFailsTheWaitAtOnce) {
  const auto missing = JoinId::generate();
  const auto wait =
      outbox.enqueue({.topic = "join.wait", .payload = to_payload(missing, both_paths(true))});
  worker->start();
  ASSERT_TRUE(ended(wait, MessageStatus::failed));
  EXPECT_EQ(found(wait).message.attempts, 1);
  EXPECT_THAT(found(wait).last_error.value_or(""),
              AllOf(HasSubstr(missing.to_string()), HasSubstr("does not exist")));
}

TEST_P(JoinWaitContract, APayloadMayBeWrittenByHandInAnyCaseOfItsNames) {
  const auto join = started(1);
  const auto id = join.to_string();
  const std::vector<std::string> payloads{
      R"({"join_id": ")" + id +
          R"(", "on_complete_topic": "done", "on_complete_payload": "snake"})",
      R"({"joinId": ")" + id +
          R"(", "onCompleteTopic": "done", "onCompletePayload": "camel", "onFailTopic": null})",
      R"({"JoinId": ")" + id +
          R"(", "FailIfAnyStepFailed": true, "OnCompleteTopic": "done", "OnCompletePayload": )"
          R"("Pascal", "OnFailTopic": "", "OnFailPayload": "x"})"};
  for (const auto& payload : payloads) outbox.enqueue({.topic = "join.wait", .payload = payload});
  step(join);
  worker->start();
  ASSERT_TRUE(eventually([&] { return noted().size() == 3; }));
  EXPECT_THAT(noted(), ::testing::UnorderedElementsAre("done:snake", "done:camel", "done:Pascal"));
}

TEST_P(JoinWaitContract, APayloadThatMakesNoSenseFailsAtOnceWithItsReason) {
  const auto id = started(1).to_string();
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "JSON object"},
      {"[]", "JSON object"},
      {"{", "JSON object"},
      {"{}", "join_id"},
      {R"({"join_id": 7})", "join_id must be a string"},
      {R"({"join_id": "00000000-0000-0000-0000-000000000000", "on_complete_topic": "t"})",
       "join_id"},
      {R"({"join_id": ")" + id + R"("})", "on_complete_topic"},
      {R"({"join_id": ")" + id + R"(", "on_complete_topic": ")" + std::string(256, 'x') + R"("})",
       "255"},
      {R"({"join_id": ")" + id +
           R"(", "on_complete_topic": "t", "fail_if_any_step_failed": "yes"})",
       "true or false"},
  };
  std::vector<MessageId> waits;
  for (const auto& [payload, error] : cases)
    waits.push_back(outbox.enqueue({.topic = "join.wait", .payload = payload}));
  worker->start();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ASSERT_TRUE(ended(waits[i], MessageStatus::failed)) << cases[i].first;
    EXPECT_THAT(found(waits[i]).last_error.value_or(""), HasSubstr(cases[i].second))
        << cases[i].first;
  }
}

TEST_P(JoinWaitContract, WhatCannotBeContinuedIsRefusedBeforeItIsEnqueued) {
  const auto join = started(1);
  EXPECT_THROW(joins.enqueue_wait(join, {}), std::invalid_argument);
  EXPECT_THROW(joins.enqueue_wait(join, {.on_complete_topic = std::string(256, 'x')}),
               std::invalid_argument);
  EXPECT_THROW(joins.enqueue_wait(join, {.on_complete_topic = "t", .on_fail_topic = ""}),
               std::invalid_argument);
  EXPECT_THROW(joins.enqueue_wait(join, {.on_complete_topic = "t", .on_complete_payload = "\xff"}),
               std::invalid_argument);
  EXPECT_THROW(joins.enqueue_wait(JoinId{}, {.on_complete_topic = "t"}), std::invalid_argument);
  EXPECT_EQ(stored(), 0);
}

TEST_P(JoinWaitContract, NothingFollowsACancelledJoin) {
  const auto join = started(1);
  const auto wait = joins.enqueue_wait(join, both_paths(false));
  step(join);
  joins.cancel(join);
  worker->start();
  ASSERT_TRUE(eventually([&] { return with_status(MessageStatus::done) == 2; }));
  EXPECT_TRUE(ended(wait, MessageStatus::done));
  EXPECT_EQ(continuations(), 0);
}

TEST_P(JoinWaitContract, AContinuationCarriesOnWhatTheWaitCarried) {
  const auto join = started(1);
  outbox.enqueue({.topic = "join.wait",
                  .payload = to_payload(join, {.on_complete_topic = "traced"}),
                  .correlation_id = "c-1",
                  .headers = {{"traceparent", "00-1"}},
                  .priority = 3});
  step(join);
  Message got;
  std::atomic<bool> came{false};
  worker->on("traced", [&](const Message& message, HandlerContext&) {
    got = message;
    came = true;
  });
  worker->start();
  ASSERT_TRUE(eventually([&] { return came.load(); }));
  EXPECT_EQ(got.correlation_id, "c-1");
  EXPECT_EQ(got.headers, (Headers{{"traceparent", "00-1"}}));
  EXPECT_EQ(got.priority, 3);
  EXPECT_EQ(got.payload, "");
}

TEST_P(JoinWaitContract, AWaitThatOthersHadBeforeMakesOneContinuation) {
  const auto fan = joins.fan_out({.steps = {{.topic = "step"}}, .wait = both_paths(true)});
  const auto claims = claimed(2);
  for (const auto& claim : claims) {
    if (MessageId{claim.id.uuid()} == *fan.wait) continue;
    EXPECT_EQ(outbox.ack(owner, {&claim, 1}), 1U);
  }
  backend.advance(seconds{31});  // our lease of the waiting message expires
  std::vector<Platform> others;
  for (int i = 0; i < 3; ++i) {
    auto options = backend.options();
    options.worker.lease = milliseconds{200};
    options.worker.poll_interval = options.worker.idle_poll_interval = milliseconds{10};
    others.push_back(Platform::open(backend.url(), options));
    others.back().on("done",
                     [this](const Message& message, HandlerContext&) { note(message.payload); });
    others.back().start();
  }
  ASSERT_TRUE(ended(*fan.wait, MessageStatus::done));
  ASSERT_TRUE(handled());
  EXPECT_EQ(continuations(), 1);
}

TEST_P(JoinWaitContract, StagesFollowOneAnother) {
  worker->on("stage.two", [this](const Message& message, HandlerContext& context) {
    worker->joins().fan_out(
        context.transaction(),
        {.grouping_key = message.payload,
         .steps = {{.topic = "step"}, {.topic = "step"}, {.topic = "step"}},
         .wait = {{.on_complete_topic = "done", .on_complete_payload = message.payload}}});
  });
  joins.fan_out({.grouping_key = "w-1",
                 .steps = {{.topic = "step"}, {.topic = "step"}},
                 .wait = {{.on_complete_topic = "stage.two", .on_complete_payload = "w-1"}}});
  worker->start();
  ASSERT_TRUE(handled());
  EXPECT_THAT(noted(), ElementsAre("done:w-1"));
  const auto stages = joins.list({.grouping_key = "w-1"});
  ASSERT_THAT(stages, SizeIs(2));
  EXPECT_EQ(state(stages[0].id), "2/0 of 2, completed");
  EXPECT_EQ(state(stages[1].id), "3/0 of 3, completed");
}

TEST_P(JoinWaitContract, AWaitMayBeAStepOfAnotherJoin) {
  const auto outer = started(2);
  for (int i = 0; i < 2; ++i) {
    const auto inner = joins.fan_out(
        {.steps = {{.topic = "step"}, {.topic = "step"}}, .wait = {{.on_complete_topic = "done"}}});
    joins.attach(outer, *inner.wait);
  }
  joins.enqueue_wait(outer, {.on_complete_topic = "done", .on_complete_payload = "all"});
  worker->start();
  ASSERT_TRUE(eventually([&] { return noted().size() == 3; }));
  EXPECT_THAT(noted(), Contains("done:all"));
  EXPECT_EQ(state(outer), "2/0 of 2, completed");
}

TEST_P(JoinWaitContract, JOIN_072_JOIN_073_DecisionsAreLoggedWithTheCounts) {
  const auto join = started(2);
  const auto wait = joins.enqueue_wait(join, both_paths(true));
  worker->start();
  ASSERT_TRUE(waits(wait));
  step(join);
  outbox.enqueue({.topic = "step", .payload = "fail", .joins = {join}});
  ASSERT_TRUE(ended(wait, MessageStatus::done));
  // The lines are logged after the commit.
  ASSERT_TRUE(eventually([&] { return log->count("join.failure_continued") == 1; }));
  EXPECT_THAT(log->all(),
              Contains(AllOf(StartsWith("debug join.waiting"), HasSubstr(join.to_string()))));
  EXPECT_THAT(log->all(),
              Contains(AllOf(StartsWith("info join.ended"), HasSubstr(join.to_string()),
                             HasSubstr("status=failed"),
                             HasSubstr("expected_steps=2 completed_steps=1 failed_steps=1"))));
  EXPECT_THAT(log->all(), Contains(StartsWith("info join.failure_continued")));
}

TEST_P(JoinWaitContract, JOIN_072_AJoinThatEndsWithoutAWaitIsLoggedOnce) {
  reopen([](PlatformOptions& options) {
    options.worker.lease = seconds{1};
  });  // and the interval of housekeeping
  const auto counted = started(1);
  outbox.enqueue({.topic = "step", .payload = "fail", .joins = {counted}});
  const auto late = joins.start({.expected_steps = 1, .deadline = backend.now() - seconds{1}});
  worker->start();
  const auto logged = [&](JoinId join) {
    const auto lines = log->all();
    return std::ranges::count_if(lines, [&](const auto& line) {
      return line.starts_with("info join.ended") &&
             line.find(join.to_string()) != std::string::npos &&
             line.find("status=failed expected_steps=1 completed_steps=0 failed_steps=" +
                       std::string{join == counted ? "1" : "0"}) != std::string::npos;
    });
  };
  EXPECT_TRUE(eventually([&] { return logged(counted) == 1 && logged(late) == 1; }));
  worker.reset();
  EXPECT_EQ(logged(counted), 1);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_join") +
                           " where unlogged" + (backend.is_postgres() ? "" : " = 1")),
            0);
}

TEST_P(JoinWaitContract, PurgeLeavesAJoinWhoseWaitIsStillToCome) {
  // The waiting messages have not been handled yet.
  std::vector<MessageId> waits;
  std::vector<JoinId> all{started(1), started(1)};
  waits.push_back(joins.enqueue_wait(all[0], both_paths(true)));
  {
    auto transaction = platform.begin();
    waits.push_back(joins.enqueue_wait(transaction, all[1], both_paths(true)));
    transaction.commit();
  }
  const auto fan = joins.fan_out({.steps = {{.topic = "step"}}, .wait = both_paths(true)});
  all.push_back(fan.join);
  waits.push_back(*fan.wait);
  step(all[0]);
  step(all[1]);
  for (const auto& each : claim()) {
    if (each.message.topic != "step") continue;
    EXPECT_EQ(outbox.ack(owner, {&each.claim, 1}), 1U);
  }
  for (const auto join : all) EXPECT_EQ(got(join).status, JoinStatus::completed);
  backend.advance(hours{48});
  EXPECT_EQ(joins.purge(hours{1}), 0U);
  reopen([](PlatformOptions& options) { options.joins.retain_finished = hours{1}; });
  worker->start();
  for (const auto wait : waits) ASSERT_TRUE(ended(wait, MessageStatus::done));
  EXPECT_EQ(continuations(), 3);
  worker.reset();
  joins.purge(hours{1});
  EXPECT_THAT(joins.list(), IsEmpty());
}

TEST_P(JoinWaitContract, TheTopicOfWaitsIsTakenAndMayBeAnother) {
  EXPECT_THROW(worker->on("join.wait", [](const Message&, HandlerContext&) {}), InvalidOperation);
  reopen([](PlatformOptions& options) { options.joins.wait_topic = "my.wait"; });
  worker->joins().fan_out({.steps = {{.topic = "step"}}, .wait = {{.on_complete_topic = "done"}}});
  worker->start();
  ASSERT_TRUE(handled());
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_messages") +
                           " where topic = 'my.wait'"),
            1);
  auto options = backend.options();
  options.joins.wait_topic = "";
  EXPECT_THROW(Platform::open(backend.url(), options), std::invalid_argument);
  options.joins.wait_topic = "w";
  options.joins.wait_poll = milliseconds{1};
  EXPECT_THROW(Platform::open(backend.url(), options), std::out_of_range);
  options.joins.wait_poll = seconds{1};
  options.joins.retain_finished = seconds{-1};
  EXPECT_THROW(Platform::open(backend.url(), options), std::out_of_range);
}

// --- commit_and_snooze() in handlers

TEST_P(JoinWaitContract, CommitAndSnoozeKeepsWhatAHandlerWrote) {
  backend.sql(backend.is_postgres()
                  ? "create table " + backend.table("progress") + " (stage bigint)"
                  : "create table " + backend.table("progress") + " (stage integer)");
  const auto count = [this] {
    return backend.number("select count(*) from " + backend.table("progress"));
  };
  worker->on("staged", [&](const Message&, HandlerContext& context) {
    auto& transaction = context.transaction();
    const auto done = transaction.query("select count(*) from " + backend.table("progress"))
                          .at(0)
                          .get<std::int64_t>(0);
    transaction.execute("insert into " + backend.table("progress") + " values ($1)", done + 1);
    if (done < 3) context.commit_and_snooze(milliseconds{0});
  });
  const auto id = outbox.enqueue({.topic = "staged"});
  worker->start();
  ASSERT_TRUE(ended(id, MessageStatus::done));
  EXPECT_EQ(count(), 4);
  EXPECT_EQ(found(id).message.attempts, 0);
}

TEST_P(JoinWaitContract, ACommitAndSnoozeOfNoTimeIsClaimedAgainOnceItsHandlerHasReturned) {
  auto options = backend.options();
  options.worker.poll_interval = options.worker.idle_poll_interval = std::chrono::minutes{10};
  auto patient = Platform::open(backend.url(), options);
  std::atomic<int> calls{0};
  patient.on("staged", [&](const Message&, HandlerContext& context) {
    context.transaction().execute("select 1");
    if (++calls < 20) context.commit_and_snooze(milliseconds{0});
  });
  const auto id = outbox.enqueue({.topic = "staged"});
  patient.start();
  ASSERT_TRUE(ended(id, MessageStatus::done));
  EXPECT_EQ(calls, 20);
  EXPECT_EQ(backend.number("select claim_epoch from " + backend.table("outbox_messages")), 20)
      << "no claim came while the handler still had the message";
}

}  // namespace
}  // namespace dovetail::testing
