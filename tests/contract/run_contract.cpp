// Runs: many messages with one lease. An engine without runs declares it (has_runs()).
#include <algorithm>

#include "storage/queue_store.hpp"
#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using storage::Settlement;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RunContract : public OutboxTest {
 protected:
  void SetUp() override {
    if (!consumer.has_runs()) GTEST_SKIP() << "the engine has no runs";
  }
  void enqueue(int count, const EnqueueRequest& request = {.topic = "t"}) {
    outbox.enqueue_many(std::vector<EnqueueRequest>(static_cast<std::size_t>(count), request));
  }
  struct Wish {
    int batch_size = 100;
    int least = 1;
    const storage::TopicFilter* topics = nullptr;
    std::int64_t max_bytes = std::int64_t{64} << 20;
    milliseconds min_age{0};
  };
  storage::Claimed claim_run(const Wish& wish) {
    storage::Claimed claimed;
    database->write({.single_statement = true}, [&](storage::WriteSession& session) {
      claimed = consumer.claim_run(session,
                                   {.owner = owner,
                                    .batch_size = wish.batch_size,
                                    .lease = seconds{30},
                                    .topics = wish.topics,
                                    .max_bytes = wish.max_bytes},
                                   {.run = ++run, .least = wish.least, .min_age = wish.min_age});
    });
    return claimed;
  }
  storage::Claimed claim_run() { return claim_run(Wish{}); }
  static std::vector<Claim> claims_of(const storage::Claimed& claimed) {
    std::vector<Claim> claims;
    for (const auto& entry : claimed.entries) claims.push_back(entry.claimed.claim);
    std::ranges::sort(claims, {}, &Claim::id);
    return claims;
  }
  std::size_t settle(const std::vector<Claim>& claims, Settlement::Kind kind) {
    std::vector<Settlement> settlements;
    for (const auto& claim : claims) {
      settlements.push_back({.kind = kind, .claim = claim, .error = "broken", .max_attempts = 10});
    }
    return settle(settlements);
  }
  std::size_t settle(const std::vector<Settlement>& settlements) {
    std::size_t settled = 0;
    database->write({.single_statement = true}, [&](storage::WriteSession& session) {
      settled = consumer.work(session, {.owner = owner, .settlements = settlements}).settled;
    });
    return settled;
  }
  std::size_t renew(const std::vector<Claim>& claims) {
    std::size_t held = 0;
    database->write({.single_statement = true}, [&](storage::WriteSession& session) {
      held = consumer.renew(session, owner, claims, seconds{60}).size();
    });
    return held;
  }
  void close() {
    database->write({.single_statement = true}, [&](storage::WriteSession& session) {
      consumer.close_runs(session, owner, std::vector{run});
    });
  }
  std::int64_t open_runs() {
    return backend.number("select count(*) from " + backend.table("outbox_run"));
  }

  std::unique_ptr<storage::Database> database = backend.open_database();
  storage::QueueConsumer& consumer = database->queue("outbox").consumer;
  std::int64_t run = 0;
};

TEST_P(RunContract, ARunLeasesManyMessagesWithOneRow) {
  enqueue(10);
  const auto claimed = claim_run();
  EXPECT_THAT(claimed.entries, SizeIs(10));
  EXPECT_EQ(open_runs(), 1);
  EXPECT_THAT(claim_as(OwnerToken::generate()), IsEmpty());
  EXPECT_EQ(outbox.counts().in_progress, 10);
  EXPECT_EQ(outbox.counts().ready, 0);
  EXPECT_EQ(found(claimed.entries.front().claimed.message.id).status, MessageStatus::in_progress);
  EXPECT_EQ(settle(claims_of(claimed), Settlement::Kind::ack), 10U);
  EXPECT_EQ(outbox.counts().done, 10);
  close();
  EXPECT_EQ(open_runs(), 0);
}

TEST_P(RunContract, ASecondAckOfARunChangesNothing) {
  enqueue(3);
  const auto claims = claims_of(claim_run());
  EXPECT_EQ(settle(claims, Settlement::Kind::ack), 3U);
  EXPECT_EQ(settle(claims, Settlement::Kind::ack), 0U);
}

TEST_P(RunContract, AnotherOwnerCannotAckTheMessagesOfARun) {
  enqueue(3);
  const auto claims = claims_of(claim_run());
  owner = OwnerToken::generate();
  EXPECT_EQ(settle(claims, Settlement::Kind::ack), 0U);
  EXPECT_EQ(settle(claims, Settlement::Kind::fail), 0U);
  EXPECT_EQ(outbox.counts().in_progress, 3);
}

TEST_P(RunContract, AnExpiredRunIsChargedAndItsOwnerChangesNothing) {
  enqueue(5);
  const auto claims = claims_of(claim_run());
  backend.advance(seconds{31});
  EXPECT_EQ(settle(claims, Settlement::Kind::ack), 0U);
  EXPECT_EQ(renew(claims), 0U);
  const auto others = claim_as(OwnerToken::generate());
  ASSERT_THAT(others, SizeIs(5));
  for (const auto& each : others) {
    EXPECT_EQ(each.message.attempts, 1);
    EXPECT_EQ(each.claim.epoch, 2);
  }
  EXPECT_EQ(settle(claims, Settlement::Kind::ack), 0U);
  EXPECT_EQ(settle(claims, Settlement::Kind::abandon), 0U);
  EXPECT_EQ(open_runs(), 0);
}

TEST_P(RunContract, AReaperTakesBackAnExpiredRun) {
  enqueue(5);
  const auto claimed = claim_run();
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.reap_expired(), 5U);
  EXPECT_EQ(outbox.counts().ready, 5);
  const auto failures = found(claimed.entries.front().claimed.message.id).failures;
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_EQ(failures[0].kind, FailureKind::lost_lease);
  EXPECT_EQ(failures[0].owner, owner);
}

TEST_P(RunContract, MessagesOfAClosedRunAreClaimableWithoutACharge) {
  enqueue(5);
  static_cast<void>(claim_run());
  close();
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(5));
  EXPECT_EQ(claimed.front().message.attempts, 0);
}

TEST_P(RunContract, SettlementsOtherThanAcksTakeEffect) {
  enqueue(4);
  const auto claims = claims_of(claim_run());
  EXPECT_EQ(settle({{.kind = Settlement::Kind::abandon,
                     .claim = claims[0],
                     .error = "later",
                     .delay = seconds{9},
                     .max_attempts = 10},
                    {.kind = Settlement::Kind::fail, .claim = claims[1], .error = "broken"},
                    {.kind = Settlement::Kind::snooze, .claim = claims[2]},
                    {.kind = Settlement::Kind::ack, .claim = claims[3]}}),
            4U);
  const auto counts = outbox.counts();
  EXPECT_EQ(counts.scheduled, 1);
  EXPECT_EQ(counts.failed, 1);
  EXPECT_EQ(counts.ready, 1);
  EXPECT_EQ(counts.done, 1);
  EXPECT_EQ(found(claims[0].id).message.attempts, 1);
  EXPECT_EQ(found(claims[2].id).message.attempts, 0);
}

TEST_P(RunContract, ARenewedMessageHasALeaseOfItsOwn) {
  enqueue(2);
  const auto claims = claims_of(claim_run());
  EXPECT_EQ(renew({claims[0]}), 1U);
  close();
  // The other message is free again. The renewed one keeps its lease.
  const auto others = claim_as(OwnerToken::generate());
  ASSERT_THAT(others, SizeIs(1));
  EXPECT_EQ(others[0].claim.id, claims[1].id);
  backend.advance(seconds{45});
  EXPECT_EQ(settle({claims[0]}, Settlement::Kind::ack), 1U);
}

TEST_P(RunContract, ARenewedMessageAndTheRestOfTheRunAreAckedTogether) {
  enqueue(20);
  const auto claims = claims_of(claim_run());
  EXPECT_EQ(renew({claims[7]}), 1U);
  EXPECT_EQ(settle(claims, Settlement::Kind::ack), 20U);
}

TEST_P(RunContract, ARunHasOnlyMessagesOfTheHighestPriority) {
  enqueue(3);
  enqueue(2, {.topic = "t", .priority = 5});
  EXPECT_THAT(claim_run().entries, SizeIs(2));
  EXPECT_THAT(claim_run().entries, SizeIs(3));
}

TEST_P(RunContract, RunsDoNotOverlap) {
  enqueue(10);
  const auto first = claims_of(claim_run({.batch_size = 4}));
  const auto second = claims_of(claim_run({.batch_size = 4}));
  const auto third = claims_of(claim_run({.batch_size = 4}));
  EXPECT_THAT(first, SizeIs(4));
  EXPECT_THAT(second, SizeIs(4));
  EXPECT_THAT(third, SizeIs(2));
  EXPECT_EQ(settle(second, Settlement::Kind::ack), 4U);
  EXPECT_EQ(settle(third, Settlement::Kind::ack), 2U);
  EXPECT_EQ(settle(first, Settlement::Kind::ack), 4U);
}

TEST_P(RunContract, ARunEndsBeforeAMessageOfAnotherTopic) {
  enqueue(3);
  enqueue(1, {.topic = "foreign"});
  enqueue(3);
  const storage::TopicFilter mine{.topics = {"t"}};
  EXPECT_THAT(claim_run({.topics = &mine}).entries, SizeIs(3));
  EXPECT_THAT(claim_run({.topics = &mine}).entries, IsEmpty());
  EXPECT_THAT(claim(), SizeIs(4)) << "single claims find the rest";
}

TEST_P(RunContract, ARunLeavesOutPausedExpiredAndRetriedMessages) {
  outbox.pause("paused");
  enqueue(1, {.topic = "paused"});
  EXPECT_THAT(claim_run().entries, IsEmpty());
  EXPECT_THAT(claim(), IsEmpty());  // it puts the message aside
  enqueue(1, {.topic = "expired", .expires_at = backend.now() + seconds{1}});
  backend.advance(seconds{2});
  EXPECT_THAT(claim_run().entries, IsEmpty());
  EXPECT_THAT(claim(), IsEmpty());
  const auto retried = claimed_one();
  EXPECT_EQ(outbox.abandon(owner, retried, {.delay = milliseconds{0}}), 1U);
  EXPECT_THAT(claim_run().entries, IsEmpty());
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(RunContract, ARunBeginsBehindLeasedMessages) {
  enqueue(10);
  EXPECT_THAT(claim(4), SizeIs(4));
  EXPECT_THAT(claim_run().entries, SizeIs(6));
}

TEST_P(RunContract, ARunKeepsItsLimits) {
  enqueue(10, {.topic = "t", .payload = std::string(100, 'x')});
  EXPECT_THAT(claim_run({.least = 11}).entries, IsEmpty());
  EXPECT_THAT(claim_run({.min_age = seconds{1}}).entries, IsEmpty());
  EXPECT_THAT(claim_run({.max_bytes = 350}).entries, SizeIs(3));
  EXPECT_THAT(claim_run({.batch_size = 5}).entries, SizeIs(5));
}

TEST_P(RunContract, MessagesThatAreCommittedIntoARunWaitUntilItIsClosed) {
  enqueue(1);
  UserConnection user(backend);
  user.execute("begin");
  auto late = user.borrow();
  const auto id = outbox.enqueue(late, {.topic = "t"});
  backend.advance(milliseconds{5});
  enqueue(1);
  EXPECT_THAT(claim_run().entries, SizeIs(2));
  user.execute("commit");
  EXPECT_THAT(claim(), IsEmpty());
  close();
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(3));
  EXPECT_TRUE(std::ranges::any_of(claimed, [&](const auto& each) { return each.claim.id == id; }));
}

TEST_P(RunContract, ATransactionThatHasClaimedMessagesKeepsRunsFromOpening) {
  enqueue(5);
  UserConnection user(backend);
  user.execute("begin");
  user.execute("select " + backend.table("outbox_claim") + "(gen_random_uuid(), 2)");
  EXPECT_THAT(claim_run().entries, IsEmpty());
  EXPECT_THAT(claim(), SizeIs(3));
  user.execute("rollback");
  EXPECT_THAT(claim_run().entries, SizeIs(2));
}

TEST_P(RunContract, AStepOfAJoinCountsOnceWhenItsRunIsAcked) {
  const auto join = platform.joins().start({.expected_steps = 2});
  enqueue(1, {.topic = "t", .joins = {join}});
  enqueue(1, {.topic = "t", .joins = {join}});
  const auto claims = claims_of(claim_run());
  ASSERT_THAT(claims, SizeIs(2));
  EXPECT_EQ(settle(claims, Settlement::Kind::ack), 2U);
  EXPECT_EQ(settle(claims, Settlement::Kind::ack), 0U);
  EXPECT_EQ(platform.joins().find(join)->status, JoinStatus::completed);
}

DOVETAIL_CONTRACT(RunContract);

}  // namespace
}  // namespace dovetail::testing
