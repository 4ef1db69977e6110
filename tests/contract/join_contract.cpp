// Joins and their steps: how they are created, attached, counted, ended and read.
#include <algorithm>
#include <thread>

#include "storage/join_store.hpp"
#include "support/join_test.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class JoinContract : public JoinTest {
 protected:
  JoinId started_in(Transaction& transaction) {
    return joins.start(transaction, {.expected_steps = 1});
  }
};
DOVETAIL_CONTRACT(JoinContract);

// --- start

TEST_P(JoinContract,
       JOIN_001_JOIN_005_JOIN_006_OBX_080_OBX_081_OBX_082_AJoinStartsPendingWithNothingCounted) {
  const auto before = backend.now();
  const auto id =
      joins.start({.grouping_key = "customer-7", .expected_steps = 3, .metadata = R"({"a": 1})"});
  const auto other = started(1);
  EXPECT_NE(id, other);
  const auto join = got(id);
  EXPECT_EQ(join.id, id);
  EXPECT_EQ(join.grouping_key, "customer-7");
  EXPECT_EQ(join.metadata, R"({"a": 1})");
  EXPECT_EQ(state(id), "0/0 of 3, pending");
  EXPECT_GE(join.created_at, before);
  EXPECT_LE(join.created_at, backend.now());
  EXPECT_EQ(join.last_updated_at, join.created_at);
  EXPECT_FALSE(join.finished_at || join.deadline || join.reason);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_joins") +
                           " where status = 0 and completed_steps = 0 and failed_steps = 0"),
            2);
}

TEST_P(JoinContract, JOIN_002_AJoinOfNoStepsIsRefused) {
  for (const int steps : {0, -1, std::numeric_limits<int>::min()}) {
    EXPECT_THROW(started(steps), std::out_of_range);
  }
  EXPECT_THAT(joins.list(), IsEmpty());
}

TEST_P(JoinContract, JOIN_003_AnEmptyGroupingKeyIsNone) {
  const auto id = joins.start({.grouping_key = "", .expected_steps = 1});
  EXPECT_EQ(got(id).grouping_key, std::nullopt);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_joins") +
                           " where grouping_key is null"),
            1);
}

TEST_P(JoinContract, JOIN_004_WhatIsTooLongOrNoTextIsRefused) {
  std::string long_key;
  for (int i = 0; i < 255; ++i) long_key += "ü";
  EXPECT_EQ(got(joins.start({.grouping_key = long_key, .expected_steps = 1})).grouping_key,
            long_key);
  EXPECT_THROW(joins.start({.grouping_key = long_key + "x", .expected_steps = 1}),
               std::invalid_argument);
  EXPECT_THROW(joins.start({.grouping_key = std::string("a\0b", 3), .expected_steps = 1}),
               std::invalid_argument);
  EXPECT_THROW(joins.start({.grouping_key = "\xff", .expected_steps = 1}), std::invalid_argument);
  EXPECT_THROW(joins.start({.expected_steps = 1, .metadata = "\xff"}), std::invalid_argument);
  EXPECT_THROW(joins.start({.expected_steps = 1, .metadata = std::string((1 << 20) + 1, 'x')}),
               std::invalid_argument);
  EXPECT_THROW(joins.start({.expected_steps = 1, .deadline = WallTime::max()}), std::out_of_range);
  EXPECT_THROW(joins.start({.expected_steps = 1, .join_id = JoinId{}}), std::invalid_argument);
  EXPECT_THAT(joins.list(), SizeIs(1));
}

TEST_P(JoinContract, AStartWithAnIdOfYoursMayBeRepeated) {
  const auto id = JoinId::generate();
  EXPECT_EQ(joins.start({.expected_steps = 2, .join_id = id}), id);
  EXPECT_EQ(joins.start({.expected_steps = 5, .join_id = id}), id);
  EXPECT_EQ(state(id), "0/0 of 2, pending");
}

TEST_P(JoinContract, AJoinExistsIfItsTransactionCommits) {
  JoinId id;
  {
    auto transaction = platform.begin();
    id = joins.start(transaction, {.expected_steps = 1});
    outbox.enqueue(transaction, {.topic = "t", .joins = {id}});
  }
  EXPECT_FALSE(joins.find(id));
  EXPECT_EQ(stored(), 0);
  auto transaction = platform.begin();
  id = joins.start(transaction, {.expected_steps = 1});
  outbox.enqueue(transaction, {.topic = "t", .joins = {id}});
  transaction.commit();
  EXPECT_THAT(joins.members(id), SizeIs(1));
}

// --- attach

TEST_P(JoinContract, JOIN_010_JOIN_013_OBX_083_AttachMakesAPendingMemberAndCountsNothing) {
  const auto join = started(2);
  const auto message = outbox.enqueue({.topic = "t"});
  const auto before = backend.now();
  joins.attach(join, message);
  const auto members = joins.members(join);
  ASSERT_THAT(members, SizeIs(1));
  EXPECT_EQ(members[0].message, message);
  EXPECT_EQ(members[0].status, StepStatus::pending);
  EXPECT_GE(members[0].created_at, before);
  EXPECT_EQ(state(join), "0/0 of 2, pending");
}

TEST_P(JoinContract, JOIN_011_OBX_084_AttachingTwiceIsAttachingOnce) {
  const auto join = started(2);
  const auto message = outbox.enqueue({.topic = "t"});
  for (int i = 0; i < 3; ++i) joins.attach(join, message);
  EXPECT_THAT(joins.members(join), SizeIs(1));
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  for (int i = 0; i < 3; ++i) joins.attach(join, message);  // also when it has ended
  EXPECT_THAT(joins.members(join), SizeIs(1));
  EXPECT_EQ(state(join), "1/0 of 2, pending");
}

TEST_P(JoinContract, JOIN_012_WhatDoesNotExistIsRefused) {
  const auto join = JoinId::generate();
  const auto message = outbox.enqueue({.topic = "t"});
  EXPECT_THROW(joins.attach(join, message), InvalidOperation);
  EXPECT_THROW(joins.attach(JoinId{}, message), std::invalid_argument);
  EXPECT_THROW(joins.attach(started(1), MessageId{}), std::invalid_argument);
  EXPECT_THROW(joins.report_step_completed(join, message), InvalidOperation);
  EXPECT_THROW(joins.report_step_failed(started(1), message), InvalidOperation);  // not a step
  EXPECT_THROW(joins.cancel(join), InvalidOperation);
  EXPECT_THROW(joins.enqueue_wait(join, {.on_complete_topic = "next"}), InvalidOperation);
  EXPECT_THROW(outbox.enqueue({.topic = "t", .joins = {join}}), InvalidOperation);
  EXPECT_THROW(outbox.enqueue({.topic = "t", .joins = {JoinId{}}}), std::invalid_argument);
  auto transaction = platform.begin();
  EXPECT_THROW(
      outbox.enqueue(transaction, {.topic = "t", .joins = {started_in(transaction), join}}),
      InvalidOperation);
  transaction.commit();  // the refused call has written nothing
  EXPECT_EQ(stored(), 1);
  EXPECT_FALSE(joins.find(join));
}

TEST_P(JoinContract, AMessageThatIsNotStoredIsAttachedAndCountedWhenItComes) {
  const auto join = started(1);
  const auto id = MessageId::generate();
  joins.attach(join, id);
  outbox.enqueue({.topic = "t", .message_id = id});
  EXPECT_EQ(state(join), "0/0 of 1, pending");
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  EXPECT_EQ(state(join), "1/0 of 1, completed");
}

TEST_P(JoinContract, WithoutHistoryAMessageThatIsNotStoredIsRefused) {
  auto options = backend.options();
  options.outbox.retain_done = seconds{0};
  auto forgetful = Platform::open(backend.url(), options);
  const auto join = started(2);
  const auto message = forgetful.outbox().enqueue({.topic = "t"});
  forgetful.joins().attach(join, message);
  const auto gone = forgetful.outbox().enqueue({.topic = "t"});
  EXPECT_EQ(forgetful.outbox().ack(owner, claimed(2)), 2U);
  EXPECT_THROW(forgetful.joins().attach(join, gone), InvalidOperation);
  auto transaction = forgetful.begin();
  EXPECT_THROW(forgetful.joins().attach(transaction, join, gone), InvalidOperation);
  transaction.commit();
  EXPECT_THAT(joins.members(join), SizeIs(1));
  EXPECT_EQ(state(join), "1/0 of 2, pending");
}

TEST_P(JoinContract, JOIN_014_JOIN_033_JOIN_092_TheOutboxTableKnowsNothingOfJoins) {
  const auto columns =
      backend.is_postgres()
          ? backend.number(
                "select count(*) from information_schema.columns where table_schema = '" +
                backend.schema() + "' and table_name = 'outbox' and column_name like '%join%'")
          : backend.number("select count(*) from pragma_table_info('" + backend.table("outbox") +
                           "') where name like '%join%'");
  EXPECT_EQ(columns, 0);
  const auto keys =
      backend.is_postgres()
          ? backend.number(
                "select count(*) from pg_constraint where contype = 'f' and (conrelid = '" +
                backend.table("outbox") + "'::regclass or confrelid = '" + backend.table("outbox") +
                "'::regclass)")
          : backend.number("select count(*) from pragma_foreign_key_list('" +
                           backend.table("outbox") + "')") +
                backend.number("select count(*) from pragma_foreign_key_list('" +
                               backend.table("outbox_join_member") + "') where \"table\" = '" +
                               backend.table("outbox") + "'");
  EXPECT_EQ(keys, 0);
}

// --- reports

TEST_P(JoinContract, JOIN_020_JOIN_021_JOIN_022_OBX_085_OBX_086_OBX_087_OBX_088_AReportCountsOnce) {
  const auto join = started(3);
  const auto first = step(join);
  const auto second = step(join);
  EXPECT_TRUE(joins.report_step_completed(join, first));
  EXPECT_FALSE(joins.report_step_completed(join, first));
  EXPECT_EQ(state(join), "1/0 of 3, pending");
  EXPECT_TRUE(joins.report_step_failed(join, second));
  EXPECT_FALSE(joins.report_step_failed(join, second));
  EXPECT_EQ(state(join), "1/1 of 3, pending");
  EXPECT_FALSE(joins.report_step_failed(join, first));  // the first end counts
  EXPECT_FALSE(joins.report_step_completed(join, second));
  EXPECT_EQ(state(join), "1/1 of 3, pending");
  EXPECT_THAT(steps_of(join), ElementsAre(StepStatus::completed, StepStatus::failed));
}

TEST_P(JoinContract, JOIN_024_AReportTakesEffectWithItsTransactionOrNotAtAll) {
  const auto join = started(1);
  const auto message = step(join);
  {
    auto transaction = platform.begin();
    EXPECT_TRUE(joins.report_step_completed(transaction, join, message));
  }
  EXPECT_EQ(state(join), "0/0 of 1, pending");
  EXPECT_THAT(steps_of(join), ElementsAre(StepStatus::pending));
  auto transaction = platform.begin();
  EXPECT_TRUE(joins.report_step_failed(transaction, join, message));
  transaction.commit();
  EXPECT_EQ(state(join), "0/1 of 1, failed");
}

TEST_P(JoinContract, JOIN_034_ReportsAndAcksMayBeMixed) {
  const auto by_report = started(2);
  const auto by_ack = started(2);
  const auto mixed = started(2);
  std::vector<MessageId> messages;
  for (int i = 0; i < 2; ++i)
    messages.push_back(outbox.enqueue({.topic = "t", .joins = {by_ack, mixed}}));
  for (const auto& message : messages) joins.attach(by_report, message);
  for (const auto& message : messages) EXPECT_TRUE(joins.report_step_completed(by_report, message));
  EXPECT_TRUE(joins.report_step_completed(mixed, messages[1]));
  EXPECT_EQ(outbox.ack(owner, claimed(2)), 2U);
  for (const auto& message : messages) EXPECT_FALSE(joins.report_step_failed(by_ack, message));
  for (const auto join : {by_report, by_ack, mixed}) {
    EXPECT_EQ(state(join), "2/0 of 2, completed");
    EXPECT_THAT(steps_of(join), Each(StepStatus::completed));
  }
}

// --- counting by ack and fail

TEST_P(JoinContract, JOIN_030_JOIN_040_JOIN_041_OBX_033_OBX_089_AnAckCountsACompletedStep) {
  const auto join = started(2);
  step(join);
  step(join);
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  EXPECT_EQ(state(join), "1/0 of 2, pending");
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  EXPECT_EQ(state(join), "2/0 of 2, completed");
  EXPECT_TRUE(got(join).finished_at);
}

TEST_P(JoinContract, JOIN_031_OBX_046_AFailureForGoodCountsAFailedStep) {
  const auto join = started(3);
  step(join);
  step(join);
  step(join);
  EXPECT_EQ(outbox.fail(owner, claimed(1), "broken"), 1U);
  EXPECT_EQ(state(join), "0/1 of 3, pending");
  EXPECT_EQ(outbox.ack(owner, claimed(2)), 2U);
  EXPECT_EQ(state(join), "2/1 of 3, failed");
}

TEST_P(JoinContract, EveryWayToADeadLetterCountsAFailedStep) {
  const auto join = started(5);
  // The last attempt is abandoned.
  step(join);
  EXPECT_EQ(outbox.abandon(owner, claimed(1), {.error = "no", .max_attempts = 1}), 1U);
  EXPECT_EQ(state(join), "0/1 of 5, pending");
  // The message expires, and a claim finds it.
  outbox.enqueue({.topic = "t", .expires_at = backend.now() + seconds{1}, .joins = {join}});
  backend.advance(seconds{2});
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_EQ(state(join), "0/2 of 5, pending");
  // The message kills its workers, and the reaper finds it.
  step(join);
  (void)claimed(1);
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.reap_expired({.max_attempts = 1}), 1U);
  EXPECT_EQ(state(join), "0/3 of 5, pending");
  // The same, and a claim finds it.
  step(join);
  (void)claimed(1);
  auto options = backend.options();
  options.outbox.max_attempts = 1;
  auto strict = Platform::open(backend.url(), options);
  backend.advance(seconds{31});
  EXPECT_THAT(strict.outbox().claim({.owner = owner, .max_attempts = 1}), IsEmpty());
  EXPECT_EQ(state(join), "0/4 of 5, pending");
  // A handler throws PermanentFailure.
  step(join);
  strict.on("step", [](const Message&, HandlerContext&) { throw PermanentFailure("never"); });
  strict.start();
  for (int i = 0; i < 3'000 && got(join).status == JoinStatus::pending; ++i) {
    std::this_thread::sleep_for(milliseconds{10});
  }
  EXPECT_EQ(state(join), "0/5 of 5, failed");
}

TEST_P(JoinContract, ATryThatFailsForNowCountsNothing) {
  const auto join = started(1);
  step(join);
  EXPECT_EQ(outbox.abandon(owner, claimed(1), {.delay = milliseconds{0}}), 1U);
  EXPECT_EQ(outbox.snooze(owner, claimed(1)), 1U);
  EXPECT_EQ(outbox.renew(owner, claimed(1), seconds{30}), 1U);
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.reap_expired(), 1U);
  EXPECT_EQ(state(join), "0/0 of 1, pending");
}

TEST_P(JoinContract, JOIN_032_OBX_034_OBX_047_CountingCommitsWithTheAckOrNotAtAll) {
  const auto join = started(1);
  step(join);
  const auto claims = claimed(1);
  {
    auto transaction = platform.begin();
    EXPECT_EQ(outbox.ack(transaction, owner, claims), 1U);
  }
  EXPECT_EQ(state(join), "0/0 of 1, pending");
  EXPECT_EQ(with_status(MessageStatus::in_progress), 1);
  // If the join cannot be counted, the message cannot end.
  const auto refuse =
      backend.is_postgres()
          ? "create function " + backend.table("refuse") +
                "() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$; "
                "create trigger refuse before update on " +
                backend.table("outbox_join") + " for each row execute function " +
                backend.table("refuse") + "()"
          : "create trigger refuse before update on " + backend.table("outbox_join") +
                " begin select raise(abort, 'no'); end";
  backend.sql(refuse);
  EXPECT_THROW(outbox.ack(owner, claims), Error);
  EXPECT_THROW(outbox.fail(owner, claims, "broken"), Error);
  EXPECT_EQ(with_status(MessageStatus::in_progress), 1);
  EXPECT_THAT(steps_of(join), ElementsAre(StepStatus::pending));
}

TEST_P(JoinContract, JOIN_080_JOIN_081_OBX_096_OneMessageCountsInAllItsJoins) {
  const auto small = started(1);
  const auto large = started(2);
  const auto both = outbox.enqueue({.topic = "t", .joins = {small, large}});
  EXPECT_THAT(joins.members(small), SizeIs(1));
  EXPECT_EQ(joins.members(large).at(0).message, both);
  EXPECT_EQ(outbox.fail(owner, claimed(1), "broken"), 1U);
  EXPECT_EQ(state(small), "0/1 of 1, failed");
  EXPECT_EQ(state(large), "0/1 of 2, pending");
}

TEST_P(JoinContract, ABatchCountsAllItsSteps) {
  std::vector<JoinId> all;
  std::vector<EnqueueRequest> requests;
  for (int i = 0; i < 7; ++i) all.push_back(started(20));
  for (int i = 0; i < 7 * 20; ++i) {
    requests.push_back({.topic = "t", .joins = {all[static_cast<std::size_t>(i) % all.size()]}});
  }
  for (int i = 0; i < 50; ++i) requests.push_back({.topic = "alone"});
  outbox.enqueue_many(requests);
  auto claims = claimed(190);
  std::vector<Claim> lost(claims.begin(), claims.begin() + 7);
  EXPECT_EQ(outbox.snooze(owner, lost), 7U);  // these claims are no longer valid: one of each join
  EXPECT_EQ(outbox.ack(owner, claims), 183U);
  for (const auto join : all) EXPECT_EQ(state(join), "19/0 of 20, pending");
  EXPECT_EQ(outbox.ack(owner, claimed(7)), 7U);
  for (const auto join : all) EXPECT_EQ(state(join), "20/0 of 20, completed");
}

TEST_P(JoinContract, AnAckThatHasNoEffectCountsNothing) {
  const auto join = started(2);
  step(join);
  auto zombie = claimed(1);
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.ack(owner, zombie), 0U);
  EXPECT_EQ(outbox.fail(owner, zombie, "late"), 0U);
  const auto successor = claims_of(claim_as(OwnerToken::generate()));
  EXPECT_EQ(successor.size(), 1U);
  EXPECT_EQ(outbox.ack(owner, zombie), 0U);
  EXPECT_EQ(state(join), "0/0 of 2, pending");
}

TEST_P(JoinContract, WithoutHistoryAnAckCountsAsWell) {
  auto options = backend.options();
  options.outbox.retain_done = seconds{0};
  auto forgetful = Platform::open(backend.url(), options);
  const auto join = started(5);
  for (int i = 0; i < 5; ++i) step(join);
  EXPECT_EQ(forgetful.outbox().ack(owner, claimed(5)), 5U);
  EXPECT_EQ(state(join), "5/0 of 5, completed");
}

TEST_P(JoinContract, AttachingWhatHasEndedCountsItAtOnce) {
  const auto done = outbox.enqueue({.topic = "t"});
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  const auto failed = failed_one();
  const auto join = started(2);
  joins.attach(join, done);
  EXPECT_EQ(state(join), "1/0 of 2, pending");
  joins.attach(join, failed);
  EXPECT_EQ(state(join), "1/1 of 2, failed");
  EXPECT_EQ(outbox.replay(std::vector{failed}), 1U);  // the replay changes nothing
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  EXPECT_EQ(state(join), "1/1 of 2, failed");
}

TEST_P(JoinContract, AnEnqueueThatIsNotStoredAttachesTheMessageThatIsThere) {
  const auto id = outbox.enqueue({.topic = "t", .unique_key = "k"});
  const auto join = started(1);
  const auto again = outbox.enqueue({.topic = "t", .unique_key = "k", .joins = {join}});
  EXPECT_FALSE(again.stored());
  EXPECT_EQ(joins.members(join).at(0).message, id);
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  EXPECT_EQ(state(join), "1/0 of 1, completed");
}

TEST_P(JoinContract, JOIN_023_JOIN_042_AJoinNeverCountsMoreThanItExpects) {
  const auto join = started(2);
  for (int i = 0; i < 6; ++i) step(join);
  EXPECT_EQ(outbox.ack(owner, claimed(3)), 3U);
  EXPECT_EQ(state(join), "2/0 of 2, completed");
  const auto ended = got(join);
  backend.advance(seconds{5});
  EXPECT_EQ(outbox.fail(owner, claimed(1), "late"), 1U);
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  for (const auto& member : joins.members(join)) joins.report_step_failed(join, member.message);
  EXPECT_FALSE(joins.cancel(join));
  EXPECT_EQ(state(join), "2/0 of 2, completed");
  EXPECT_EQ(got(join).last_updated_at, ended.last_updated_at);
  EXPECT_EQ(got(join).finished_at, ended.finished_at);
}

TEST_P(JoinContract, JOIN_043_OBX_095_EveryChangeUpdatesTheTime) {
  const auto join = joins.start({.grouping_key = "g", .expected_steps = 3});
  auto last = got(join).last_updated_at;
  const auto grown = [&] {
    const auto before = std::exchange(last, got(join).last_updated_at);
    backend.advance(milliseconds{100});
    return last > before;
  };
  backend.advance(milliseconds{100});
  step(join);
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  EXPECT_TRUE(grown());
  step(join);
  EXPECT_EQ(outbox.fail(owner, claimed(1), "broken"), 1U);
  EXPECT_TRUE(grown());
  EXPECT_TRUE(joins.cancel(join));
  EXPECT_TRUE(grown());
  EXPECT_FALSE(joins.cancel(join));
  EXPECT_FALSE(grown());
}

// --- cancel and deadlines

TEST_P(JoinContract, ACancelledJoinMarksLateStepsAndCountsNone) {
  const auto join = started(2);
  step(join);
  const auto second = step(join);
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  EXPECT_TRUE(joins.cancel(join));
  EXPECT_EQ(state(join), "1/0 of 2, cancelled");
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  EXPECT_EQ(state(join), "1/0 of 2, cancelled");
  EXPECT_THAT(steps_of(join), Each(StepStatus::completed));
  EXPECT_FALSE(joins.report_step_failed(join, second));
  {
    auto transaction = platform.begin();
    const auto other = joins.start(transaction, {.expected_steps = 1});
    EXPECT_TRUE(joins.cancel(transaction, other));
    transaction.commit();
    EXPECT_EQ(got(other).status, JoinStatus::cancelled);
  }
}

TEST_P(JoinContract, AJoinPastItsDeadlineFailsOnceWithItsOwnReason) {
  const auto join = joins.start({.expected_steps = 2, .deadline = backend.now() + seconds{10}});
  const auto later = joins.start({.expected_steps = 2, .deadline = backend.now() + hours{10}});
  step(join);
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  EXPECT_EQ(joins.fail_overdue(), 0U);
  backend.advance(seconds{11});
  EXPECT_EQ(joins.fail_overdue(), 1U);
  EXPECT_EQ(joins.fail_overdue(), 0U);
  EXPECT_EQ(state(join), "1/0 of 2, failed");
  EXPECT_THAT(got(join).reason.value_or(""), HasSubstr("deadline"));
  step(join);
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  EXPECT_EQ(state(join), "1/0 of 2, failed");
  EXPECT_EQ(state(later), "0/0 of 2, pending");
}

// --- reading and purging

TEST_P(JoinContract, JOIN_082_JoinsAreListedByGroupStatusAndAge) {
  std::vector<JoinId> mine;
  for (int i = 0; i < 5; ++i)
    mine.push_back(joins.start({.grouping_key = "mine", .expected_steps = 1}));
  const auto between = backend.now();
  backend.advance(seconds{60});
  const auto young = joins.start({.grouping_key = "mine", .expected_steps = 1});
  const auto other = joins.start({.grouping_key = "other", .expected_steps = 1});
  const auto none = started(1);
  joins.cancel(mine[1]);
  const auto ids = [&](const JoinFilter& filter, const JoinPage& page = {}) {
    std::vector<JoinId> found;
    for (const auto& join : joins.list(filter, page)) found.push_back(join.id);
    return found;
  };
  EXPECT_THAT(ids({}),
              ElementsAre(mine[0], mine[1], mine[2], mine[3], mine[4], young, other, none));
  EXPECT_THAT(ids({.grouping_key = "mine"}), SizeIs(6));
  EXPECT_THAT(ids({.grouping_key = "mine", .status = JoinStatus::cancelled}), ElementsAre(mine[1]));
  EXPECT_THAT(ids({.status = JoinStatus::pending}), SizeIs(7));
  EXPECT_THAT(ids({.status = JoinStatus::failed}), IsEmpty());
  EXPECT_THAT(ids({.created_after = between + seconds{30}}), ElementsAre(young, other, none));
  EXPECT_THAT(ids({.grouping_key = "mine", .created_before = between + seconds{30}}), SizeIs(5));
  EXPECT_THAT(ids({.grouping_key = "mine"}, {.size = 2}), ElementsAre(mine[0], mine[1]));
  EXPECT_THAT(ids({.grouping_key = "mine"}, {.after = mine[1], .size = 2}),
              ElementsAre(mine[2], mine[3]));
  EXPECT_THAT(ids({.status = JoinStatus::pending}, {.after = mine[0], .size = 2}),
              ElementsAre(mine[2], mine[3]));
  EXPECT_THAT(ids({}, {.after = none}), IsEmpty());
  EXPECT_THROW((void)joins.list({}, {.size = 0}), std::out_of_range);
  EXPECT_EQ(backend.number(backend.is_postgres()
                               ? "select indnatts from pg_index where indexrelid = '" +
                                     backend.table("outbox_join_grouping_key") + "'::regclass"
                               : "select 2 from sqlite_schema where type = 'index' and sql like "
                                 "'%(grouping_key, join_id)%'"),
            2);
}

TEST_P(JoinContract, MembersComeInPages) {
  const auto join = started(5);
  std::vector<MessageId> messages;
  for (int i = 0; i < 5; ++i) messages.push_back(step(join));
  const auto first = joins.members(join, {.size = 2});
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_EQ(first[1].message, messages[1]);
  const auto rest = joins.members(join, {.after = first[1].message});
  ASSERT_THAT(rest, SizeIs(3));
  EXPECT_EQ(rest[0].message, messages[2]);
  EXPECT_THAT(joins.members(JoinId::generate()), IsEmpty());
}

TEST_P(JoinContract, PurgeDeletesWhatHasEndedLongAgoWithItsMembers) {
  const auto pending = started(2);
  const auto old = started(1);
  step(pending);
  step(old);
  EXPECT_EQ(outbox.ack(owner, claimed(2)), 2U);
  backend.advance(hours{2});
  const auto young = started(1);
  joins.cancel(young);
  EXPECT_EQ(joins.purge(hours{1}), 1U);
  EXPECT_FALSE(joins.find(old));
  EXPECT_THAT(joins.members(old), IsEmpty());
  EXPECT_TRUE(joins.find(young));
  EXPECT_THAT(joins.members(pending), SizeIs(1));
  EXPECT_EQ(joins.purge(seconds{0}), backend.is_postgres() ? 1U : 0U)
      << "a manual clock stands still";
  EXPECT_THROW(joins.purge(seconds{-1}), std::out_of_range);
}

// --- fan-out

TEST_P(JoinContract, AFanOutWritesItsStepsJoinAndWaitTogether) {
  const auto fan = joins.fan_out({.grouping_key = "g",
                                  .metadata = "m",
                                  .steps = {{.topic = "a"}, {.topic = "b"}, {.topic = "c"}},
                                  .wait = {{.on_complete_topic = "next"}}});
  ASSERT_THAT(fan.steps, SizeIs(3));
  EXPECT_EQ(state(fan.join), "0/0 of 3, pending");
  EXPECT_EQ(got(fan.join).grouping_key, "g");
  EXPECT_THAT(joins.members(fan.join), SizeIs(3));
  EXPECT_EQ(found(*fan.wait).message.topic, "join.wait");
  EXPECT_EQ(stored(), 4);
  {
    auto transaction = platform.begin();
    joins.fan_out(transaction,
                  {.steps = {{.topic = "a"}}, .wait = {{.on_complete_topic = "next"}}});
  }
  EXPECT_EQ(stored(), 4);
  EXPECT_THAT(joins.list(), SizeIs(1));
}

TEST_P(JoinContract, AFanOutMayBeRepeatedAndMayShareSteps) {
  const auto there = outbox.enqueue({.topic = "a", .unique_key = "k"});
  const FanOut request{.join_id = JoinId::generate(),
                       .steps = {{.topic = "a", .unique_key = "k"},
                                 {.topic = "a", .unique_key = "k"},
                                 {.topic = "b", .message_id = MessageId::generate()}},
                       .wait = {{.on_complete_topic = "next"}}};
  const auto fan = joins.fan_out(request);
  EXPECT_EQ(fan.steps[0], there);
  EXPECT_EQ(state(fan.join), "0/0 of 2, pending") << "there are two messages, and it waits for two";
  const auto again = joins.fan_out(request);
  EXPECT_EQ(again.wait, fan.wait);
  EXPECT_EQ(stored(), 3);
  EXPECT_EQ(state(fan.join), "0/0 of 2, pending");
}

TEST_P(JoinContract, ARepeatedFanOutFindsItsSteps) {
  const FanOut request{.join_id = JoinId::generate(), .steps = {{.topic = "a"}, {.topic = "b"}}};
  const auto fan = joins.fan_out(request);
  EXPECT_TRUE(fan.steps[0].stored());
  EXPECT_NE(fan.steps[0], fan.steps[1]);
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  const auto again = joins.fan_out(request);
  EXPECT_EQ(again.steps[0], fan.steps[0]);
  EXPECT_EQ(again.steps[1], fan.steps[1]);
  EXPECT_FALSE(again.steps[0].stored() || again.steps[1].stored());
  EXPECT_EQ(state(fan.join), "1/0 of 2, pending");
  EXPECT_EQ(stored(), 2);
}

TEST_P(JoinContract, ARepeatedFanOutOfAJoinThatHasEndedStoresNothing) {
  const FanOut request{.join_id = JoinId::generate(),
                       .steps = {{.topic = "a"}, {.topic = "b"}},
                       .wait = {{.on_complete_topic = "next"}}};
  const auto fan = joins.fan_out(request);
  EXPECT_EQ(outbox.ack(owner, claimed(3)), 3U);
  EXPECT_EQ(state(fan.join), "2/0 of 2, completed");
  backend.advance(std::chrono::hours{1});
  EXPECT_EQ(outbox.purge_done(std::chrono::minutes{1}), 3U);
  const auto again = joins.fan_out(request);
  EXPECT_EQ(again.join, fan.join);
  EXPECT_EQ(again.wait, fan.wait);
  EXPECT_EQ(again.steps[1], fan.steps[1]);
  EXPECT_FALSE(again.steps[0].stored() || again.steps[1].stored());
  {
    auto transaction = platform.begin();
    EXPECT_FALSE(joins.fan_out(transaction, request).steps[0].stored());
    transaction.commit();
  }
  EXPECT_EQ(stored(), 0);
}

TEST_P(JoinContract, AMessageThatIsNotStoredIsAttachedWithAWarning) {
  const auto log = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = log;
  auto logging = Platform::open(backend.url(), options);
  const auto join = started(1);
  const auto gone = outbox.enqueue({.topic = "t"});
  EXPECT_EQ(outbox.ack(owner, claimed(1)), 1U);
  backend.advance(std::chrono::hours{1});
  EXPECT_EQ(outbox.purge_done(std::chrono::minutes{1}), 1U);
  logging.joins().attach(join, gone);
  EXPECT_THAT(log->all(),
              Contains(::testing::AllOf(::testing::StartsWith("warn join.attached_unknown"),
                                        HasSubstr(join.to_string()), HasSubstr(gone.to_string()))));
}

TEST_P(JoinContract, AFanOutOfThousandsIsOneJoin) {
  std::vector<EnqueueRequest> steps(5'000, {.topic = "t"});
  const auto fan = joins.fan_out({.steps = steps});
  EXPECT_EQ(state(fan.join), "0/0 of 5000, pending");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(outbox.ack(owner, claimed(1'000)), 1'000U);
  EXPECT_EQ(state(fan.join), "5000/0 of 5000, completed");
}

TEST_P(JoinContract, AFanOutThatCannotEndIsRefused) {
  EXPECT_THROW(joins.fan_out({}), std::invalid_argument);
  EXPECT_THROW(joins.fan_out({.expected_steps = 1, .steps = {{.topic = "a"}, {.topic = "b"}}}),
               std::invalid_argument);
  EXPECT_THROW(joins.fan_out({.expected_steps = -1, .steps = {{.topic = "a"}}}), std::out_of_range);
  EXPECT_THROW(joins.fan_out({.steps = {{.topic = ""}}}), std::invalid_argument);
  EXPECT_THROW(joins.fan_out({.steps = {{.topic = "a"}}, .wait = {{.on_complete_topic = ""}}}),
               std::invalid_argument);
  EXPECT_EQ(stored(), 0);
  EXPECT_THAT(joins.list(), IsEmpty());
  const auto open = joins.fan_out({.expected_steps = 3, .steps = {{.topic = "a"}}});
  EXPECT_EQ(state(open.join), "0/0 of 3, pending") << "more may be attached later";
}

// --- many at once

TEST_P(JoinContract, JOIN_060_JOIN_061_WorkersThatEndStepsAtTheSameTimeLoseNone) {
  constexpr int workers = 4;
  constexpr int batches = 10;
  constexpr int batch = 10;
  std::vector<JoinId> all;
  for (int i = 0; i < 3; ++i) all.push_back(started(workers * batches * batch));
  std::vector<EnqueueRequest> requests(workers * batches * batch, {.topic = "t", .joins = all});
  outbox.enqueue_many(requests);
  std::vector<std::vector<Claim>> claims;
  for (int i = 0; i < workers * batches; ++i) claims.push_back(claimed(batch));
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      for (int i = 0; i < batches; ++i) {
        const auto& some = claims[static_cast<std::size_t>(worker * batches + i)];
        const auto ended =
            worker == 0 ? outbox.fail(owner, some, "broken") : outbox.ack(owner, some);
        EXPECT_EQ(ended, some.size());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto join : all) EXPECT_EQ(state(join), "300/100 of 400, failed");
}

// --- the schema, and the log

TEST_P(JoinContract,
       JOIN_090_JOIN_091_OBX_111_TheTablesAreDeployedOnceAndTheOutboxDoesWithoutThem) {
  EXPECT_THAT(Platform::migrate(backend.url(), backend.options()), IsEmpty());
  for (const auto* table : {"outbox", "outbox_join", "outbox_join_member"}) {
    EXPECT_EQ(backend.number("select count(*) from " + backend.table(table)), 0);
  }
  const auto join = started(1);
  step(join);
  auto claims = claimed(1);
  for (const auto* view : {"outbox_joins", "outbox_join_members"})
    backend.sql("drop view " + backend.table(view));
  for (const auto* table : {"outbox_join_waiter", "outbox_join_member", "outbox_join"}) {
    backend.sql("drop table " + backend.table(table) + (backend.is_postgres() ? " cascade" : ""));
  }
  EXPECT_EQ(outbox.ack(owner, claims), 1U);
  for (int i = 0; i < 5; ++i)
    outbox.enqueue({.topic = "t", .expires_at = backend.now() + seconds{i == 4 ? 1 : 900}});
  claims = claimed(4);
  EXPECT_EQ(outbox.abandon(owner, {claims.data(), 1}, {.max_attempts = 1}), 1U);
  EXPECT_EQ(outbox.fail(owner, {claims.data() + 1, 1}, "broken"), 1U);
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.reap_expired({.max_attempts = 1}), 2U);
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_EQ(with_status(MessageStatus::failed), 5);
}

TEST_P(JoinContract, JOIN_070_JOIN_071_StartsAndMembersAreLogged) {
  const auto log = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = log;
  auto logging = Platform::open(backend.url(), options);
  const auto join = logging.joins().start({.grouping_key = "g-1", .expected_steps = 3});
  const auto message = logging.outbox().enqueue({.topic = "t"});
  logging.joins().attach(join, message);
  logging.joins().cancel(join);
  const auto lines = log->all();
  EXPECT_THAT(lines, Contains(::testing::AllOf(
                         ::testing::StartsWith("info join.started"), HasSubstr(join.to_string()),
                         HasSubstr("grouping_key=g-1"), HasSubstr("expected_steps=3"))));
  EXPECT_THAT(lines, Contains(::testing::AllOf(::testing::StartsWith("debug join.attached"),
                                               HasSubstr(join.to_string()),
                                               HasSubstr(message.to_string()))));
  EXPECT_THAT(lines, Contains(::testing::StartsWith("info join.cancelled")));
}

// --- a commit in doubt

TEST_P(JoinContract, TheStateOfAJoinTellsWhetherAReportOrACancelTookEffect) {
  const auto join = started(2);
  const auto step = outbox.enqueue({.topic = "t", .joins = {join}});
  const auto database = backend.open_database();
  auto& store = database->store<storage::JoinStore>();
  const auto ask = [&](const auto& question) {
    bool answer = false;
    database->write({}, [&](storage::WriteSession& session) { answer = question(session); });
    return answer;
  };
  const auto is_reported = [&](StepStatus status) {
    return ask([&](auto& session) { return store.is_reported(session, join, step, status); });
  };
  const auto is_cancelled = [&] {
    return ask([&](auto& session) { return store.is_cancelled(session, join); });
  };
  EXPECT_FALSE(is_reported(StepStatus::completed));
  joins.report_step_completed(join, step);
  EXPECT_TRUE(is_reported(StepStatus::completed));
  EXPECT_FALSE(is_reported(StepStatus::failed));
  EXPECT_FALSE(is_cancelled());
  EXPECT_TRUE(joins.cancel(join));
  EXPECT_TRUE(is_cancelled());
}

TEST_P(JoinContract, TheJoinsOfAStepAreFoundBeforeAndAfterItsEnd) {
  const auto one = started(2);
  const auto two = started(2);
  const MessageId message = outbox.enqueue({.topic = "step", .joins = {one, two}});
  EXPECT_THAT(joins.joins_of(message), UnorderedElementsAre(one, two));
  joins.report_step_failed(one, message);
  EXPECT_THAT(joins.joins_of(message), UnorderedElementsAre(one, two));
  joins.report_step_completed(two, message);
  EXPECT_THAT(joins.joins_of(message), UnorderedElementsAre(one, two));
  EXPECT_THAT(joins.joins_of(MessageId::generate()), IsEmpty());
}

TEST_P(JoinContract, TheWaitingMessagesOfAJoinAndTheirContinuationsAreFound) {
  const Continuation continuation{.on_complete_topic = "done"};
  const auto fan = joins.fan_out({.steps = {{.topic = "step"}}, .wait = continuation});
  const auto later = joins.enqueue_wait(fan.join, continuation);
  EXPECT_THAT(joins.waiting(fan.join), UnorderedElementsAre(*fan.wait, later));
  EXPECT_EQ(joins.awaited_by(found(later).message), fan.join);
  EXPECT_EQ(joins.awaited_by(found(fan.steps[0]).message), std::nullopt);
  const MessageId odd = outbox.enqueue({.topic = "join.wait", .payload = "not JSON"});
  EXPECT_EQ(joins.awaited_by(found(odd).message), std::nullopt);
  EXPECT_THAT(joins.waiting(started(1)), IsEmpty());
  EXPECT_NE(Joins::continuation_of(later), Joins::continuation_of(*fan.wait));
}

}  // namespace
}  // namespace dovetail::testing
