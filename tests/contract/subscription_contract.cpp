// Which messages a worker claims: topics, room, bytes, and which limit of attempts applies.
#include <mutex>
#include <thread>

#include "support/eventually.hpp"
#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class SubscriptionContract : public OutboxTest {
 protected:
  std::vector<ClaimedMessage> claim_topics(const std::vector<std::string>& topics,
                                           int batch_size = 100) {
    return outbox.claim({.owner = owner, .batch_size = batch_size, .topics = topics});
  }
  Platform open_worker(const std::function<void(PlatformOptions&)>& change = {}) {
    auto options = backend.options();
    options.worker.threads = 4;
    options.worker.poll_interval = milliseconds{20};
    options.worker.idle_poll_interval = milliseconds{50};
    if (change) change(options);
    return Platform::open(backend.url(), options);
  }
  bool all_done(std::int64_t count) {
    return eventually([&] { return with_status(MessageStatus::done) == count; });
  }
  std::int64_t claims_made() {
    return backend.number("select cast(coalesce(sum(claim_epoch), 0) as bigint) from " +
                          backend.table("outbox_messages"));
  }
  void enqueue(int count, const std::string& topic, const std::string& payload = "") {
    outbox.enqueue_many(std::vector<EnqueueRequest>(static_cast<std::size_t>(count),
                                                    {.topic = topic, .payload = payload}));
  }
};
DOVETAIL_CONTRACT(SubscriptionContract);

// --- topics

TEST_P(SubscriptionContract, AClaimTakesOnlyItsTopics) {
  for (const auto* topic : {"a", "b", "c", "A"}) outbox.enqueue({.topic = topic});
  std::vector<std::string> topics;
  for (const auto& each : claim_topics({"a", "c", "nobody"})) topics.push_back(each.message.topic);
  EXPECT_THAT(topics, UnorderedElementsAre("a", "c"));
  EXPECT_EQ(with_status(MessageStatus::ready), 2);
  EXPECT_EQ(claims_made(), 2);
}

TEST_P(SubscriptionContract, TopicsOfAClaimAreChecked) {
  EXPECT_THROW(claim_topics({""}), std::invalid_argument);
  EXPECT_THROW(claim_topics(std::vector<std::string>(1'001, "t")), std::out_of_range);
  EXPECT_THROW(static_cast<void>(outbox.claim({.owner = owner, .max_bytes = 0})),
               std::out_of_range);
  EXPECT_THROW(static_cast<void>(outbox.claim({.owner = owner, .max_attempts = 0})),
               std::out_of_range);
}

TEST_P(SubscriptionContract, AClaimLeavesExpiredLeasesAndMessagesOfOtherTopicsAlone) {
  outbox.enqueue({.topic = "lost"});
  const auto late = outbox.enqueue({.topic = "late", .expires_at = backend.now() + seconds{40}});
  ASSERT_THAT(claim_topics({"lost"}), SizeIs(1));
  backend.advance(seconds{60});
  EXPECT_THAT(claim_topics({"mine"}), IsEmpty());
  EXPECT_EQ(found(late).status, MessageStatus::ready);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_messages") +
                           " where topic = 'lost' and status = 1 and retry_count = 0"),
            1);
}

TEST_P(SubscriptionContract, OwnMessagesAreFoundBehindManyOfOthers) {
  enqueue(60'000, "foreign");
  outbox.enqueue({.topic = "mine"});
  enqueue(300, "foreign");
  outbox.enqueue({.topic = "mi\"ne"});
  EXPECT_THAT(claim_topics({"mi\"ne", "mine"}), SizeIs(2));
}

TEST_P(SubscriptionContract, MessagesOfManyTopicsAreFoundBehindOthers) {
  enqueue(1'000, "foreign");
  std::vector<std::string> topics;
  for (int i = 0; i < 12; ++i) {
    topics.push_back("mine " + std::to_string(i));
    outbox.enqueue({.topic = topics.back()});
  }
  enqueue(300, "foreign");
  EXPECT_THAT(claim_topics({topics.begin(), topics.begin() + 3}), SizeIs(3));
  EXPECT_THAT(claim_topics(topics), SizeIs(9));
  EXPECT_THAT(claim_topics(topics), IsEmpty());
}

TEST_P(SubscriptionContract, ALookAheadPassesOverMessagesOfOtherTopicsOnly) {
  outbox.enqueue_many(
      std::vector<EnqueueRequest>(2'500, {.topic = "foreign", .payload = {}, .priority = 2}));
  const auto urgent = outbox.enqueue({.topic = "mine", .priority = 2});
  outbox.enqueue_many(
      std::vector<EnqueueRequest>(1'500, {.topic = "foreign", .payload = {}, .priority = 2}));
  enqueue(1'500, "foreign");
  const auto ordinary = outbox.enqueue({.topic = "mine"});
  const auto database = backend.open_database();
  auto& consumer = database->queue("outbox").consumer;
  const storage::TopicFilter mine{.topics = {"mine"}};
  storage::QueueMarks marks{};
  std::vector<MessageId> claimed;
  for (int steps = 0; steps < 20 && claimed.size() < 2; ++steps) {
    const storage::ClaimOrder order{.owner = owner,
                                    .batch_size = 10,
                                    .lease = seconds{30},
                                    .max_attempts = 10,
                                    .after = &marks,
                                    .topics = &mine,
                                    .scan_limit = 1'000,
                                    .scans = true};
    storage::LookAhead look;
    database->read(
        [&](storage::ReadSession& session) { look = consumer.look_ahead(session, order); });
    marks = look.passed;
    if (look.unfinished) continue;
    storage::Claimed found;
    database->write(
        {}, [&](storage::WriteSession& session) { found = consumer.claim(session, order); });
    for (const auto& each : found.entries) claimed.push_back(each.claimed.message.id);
    for (std::size_t lane = 0; lane < marks.size(); ++lane) {
      if (found.passed[lane]) marks[lane] = found.passed[lane];
    }
  }
  EXPECT_THAT(claimed, ::testing::ElementsAre(urgent, ordinary));
}

TEST_P(SubscriptionContract, AWorkerLeavesTopicsWithoutAHandlerToOthers) {
  enqueue(20'000, "foreign");
  std::atomic<int> handled{0};
  auto worker = open_worker();
  worker.on("mine", [&](const Message&, HandlerContext&) { ++handled; });
  worker.start();
  enqueue(50, "mine");
  ASSERT_TRUE(all_done(50));
  outbox.enqueue({.topic = "mine", .due_at = backend.now() + seconds{5}});
  outbox.enqueue({.topic = "foreign", .due_at = backend.now() + seconds{1}});
  outbox.enqueue({.topic = "mine", .priority = 3});
  ASSERT_TRUE(all_done(51));
  backend.advance(seconds{6});
  ASSERT_TRUE(all_done(52));
  worker.stop();
  EXPECT_EQ(handled, 52);
  EXPECT_EQ(with_status(MessageStatus::ready), 20'001);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_messages") +
                           " where topic = 'foreign' and (retry_count > 0 or claim_epoch > 0)"),
            0);
}

TEST_P(SubscriptionContract, TwoServicesShareAQueueAndLoseNothing) {
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  auto one = open_worker();
  auto two = open_worker();
  one.on("one", [&](const Message&, HandlerContext&) { ++first; }, {.max_attempts = 1});
  two.on("two", [&](const Message&, HandlerContext&) { ++second; }, {.max_attempts = 1});
  one.start();
  two.start();
  for (int round = 0; round < 10; ++round) {
    enqueue(100, "one");
    enqueue(100, "two");
  }
  ASSERT_TRUE(all_done(2'000));
  EXPECT_EQ(first, 1'000);
  EXPECT_EQ(second, 1'000);
  EXPECT_EQ(claims_made(), 2'000) << "no claim was in vain";
}

TEST_P(SubscriptionContract, AMessageThatComesBackIsTakenAgainByItsWorker) {
  // A released message returns to its old position, before the position of the next claim.
  enqueue(2'000, "foreign");
  outbox.enqueue({.topic = "mine", .payload = "old"});
  const auto held = claim_topics({"mine"});
  ASSERT_THAT(held, SizeIs(1));
  std::atomic<int> handled{0};
  auto worker = open_worker();
  worker.on("mine", [&](const Message&, HandlerContext&) { ++handled; });
  worker.start();
  backend.advance(seconds{10});
  outbox.enqueue({.topic = "mine"});
  ASSERT_TRUE(all_done(1));
  EXPECT_EQ(outbox.snooze(owner, {{held[0].claim}}), 1U);
  EXPECT_TRUE(all_done(2));
}

TEST_P(SubscriptionContract, HasWorkLooksAtItsTopicsOnly) {
  const auto has_work = [&](const std::vector<std::string>& topics) {
    return outbox.has_work(topics);
  };
  outbox.enqueue({.topic = "a"});
  outbox.enqueue({.topic = "later", .due_at = backend.now() + seconds{60}});
  EXPECT_TRUE(has_work({"b", "a"}));
  EXPECT_FALSE(has_work({"b"}));
  EXPECT_FALSE(has_work({"later"}));
  EXPECT_FALSE(has_work({}));
  const auto claimed = claim_topics({"a"});
  EXPECT_TRUE(has_work({"a"})) << "in progress";
  outbox.ack(owner, claims_of(claimed));
  EXPECT_FALSE(has_work({"a"}));
  outbox.pause("p");
  outbox.enqueue({.topic = "p"});
  EXPECT_THAT(claim_topics({"p"}), IsEmpty());
  EXPECT_FALSE(has_work({"p"})) << "its topic is paused";
  EXPECT_THROW(static_cast<void>(has_work({""})), std::invalid_argument);
}

// --- which limit of attempts

TEST_P(SubscriptionContract, AReaperGivesBackAndTheNextClaimLetsTheMessageDie) {
  const auto id = outbox.enqueue({.topic = "t"});
  for (int deaths = 0; deaths < 12; ++deaths) {
    ASSERT_THAT(outbox.claim({.owner = OwnerToken::generate(), .max_attempts = 50}), SizeIs(1));
    backend.advance(seconds{31});
    EXPECT_EQ(outbox.reap_expired(), 1U);
    EXPECT_EQ(found(id).status, MessageStatus::ready);
    EXPECT_EQ(found(id).message.attempts, deaths + 1);
  }
  EXPECT_THAT(outbox.claim({.owner = owner, .topics = {"other"}, .max_attempts = 1}), IsEmpty());
  EXPECT_EQ(found(id).status, MessageStatus::ready) << "whoever handles other topics has no say";
  const auto handed_out = outbox.claim({.owner = owner});
  ASSERT_THAT(handed_out, SizeIs(1)) << "a claim without a limit lets no message die";
  EXPECT_EQ(outbox.snooze(owner, claims_of(handed_out), milliseconds{0}), 1U);
  EXPECT_THAT(outbox.claim({.owner = owner, .topics = {"t"}, .max_attempts = 12}), IsEmpty());
  EXPECT_EQ(found(id).status, MessageStatus::failed);
  EXPECT_EQ(found(id).message.attempts, 12) << "charged once per lost lease";
}

TEST_P(SubscriptionContract, AStrangersTriesDoNotKillAMessageWithoutACall) {
  const auto id = outbox.enqueue({.topic = "t"});
  for (int tries = 0; tries < 3; ++tries) {
    const auto claimed = claim_topics({"t"});
    ASSERT_THAT(claimed, SizeIs(1));
    EXPECT_EQ(
        outbox.abandon(owner, claims_of(claimed), {.delay = milliseconds{0}, .max_attempts = 50}),
        1U);
  }
  std::atomic<int> calls{0};
  auto worker = open_worker();
  worker.on("t", [&](const Message&, HandlerContext&) { ++calls; }, {.max_attempts = 1});
  worker.start();
  ASSERT_TRUE(all_done(1));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(found(id).status, MessageStatus::done);
}

TEST_P(SubscriptionContract, AnOwnerThatComesBackAbsolvesItsMessages) {
  std::atomic<int> calls{0};
  std::atomic<bool> go_on{false};
  auto worker =
      open_worker([](PlatformOptions& options) { options.worker.lease = std::chrono::hours{1}; });
  worker.on("t", [&](const Message&, HandlerContext&) {
    if (++calls <= 3) eventually([&] { return go_on.exchange(false); });
  });
  const auto id = outbox.enqueue({.topic = "t"});
  worker.start();
  for (int losses = 1; losses <= 3; ++losses) {
    ASSERT_TRUE(eventually([&] { return calls == losses; }));
    backend.advance(std::chrono::hours{2});  // the lease expires, as in an outage
    go_on = true;
  }
  ASSERT_TRUE(all_done(1));
  EXPECT_EQ(found(id).message.attempts, 3);
}

TEST_P(SubscriptionContract, AbsolvedMessagesAreNoSuspects) {
  outbox.enqueue({.topic = "t"});
  std::atomic<int> calls{0};
  std::atomic<bool> lost{false};
  auto worker =
      open_worker([](PlatformOptions& options) { options.worker.lease = std::chrono::hours{1}; });
  worker.on("t", [&](const Message&, HandlerContext&) {
    if (++calls == 1) {
      eventually([&] { return lost.load(); });
    } else {
      const auto losses = "select max(lost_leases) from " + backend.table("outbox");
      EXPECT_TRUE(eventually([&] { return backend.number(losses) == 0; })) << "its owner came back";
    }
  });
  worker.start();
  ASSERT_TRUE(eventually([&] { return calls == 1; }));
  backend.advance(std::chrono::hours{2});
  lost = true;
  ASSERT_TRUE(all_done(1));
  EXPECT_EQ(calls, 2);
}

TEST_P(SubscriptionContract, AnOwnerThatComesBackIsNotChargedForMessagesThatItDidNotBegin) {
  std::atomic<bool> begun{false};
  std::atomic<bool> go_on{false};
  auto worker = open_worker([](PlatformOptions& options) {
    options.worker.lease = std::chrono::hours{1};
    options.worker.threads = 1;
    options.worker.batch_size = 1;
  });
  worker.on("t", [&](const Message&, HandlerContext&) {
    begun = true;
    eventually([&] { return go_on.load(); });
  });
  enqueue(3, "t");
  worker.start();
  ASSERT_TRUE(eventually([&] { return begun && with_status(MessageStatus::in_progress) == 3; }));
  backend.advance(std::chrono::hours{2});
  EXPECT_EQ(outbox.reap_expired(), 3U);
  std::jthread stopper([&] { worker.stop(std::chrono::seconds{20}); });
  const auto losses = "select cast(sum(lost_leases) as bigint) from " + backend.table("outbox");
  EXPECT_TRUE(eventually([&] { return backend.number(losses) == 1; })) << "two did not begin";
  go_on = true;
  stopper.join();
  EXPECT_EQ(backend.number(losses), 0);
  EXPECT_EQ(backend.number("select cast(sum(retry_count) as bigint) from " +
                           backend.table("outbox_messages")),
            1);
}

// --- room

TEST_P(SubscriptionContract, AHandlerAtItsLimitIsClaimedForOnlyAsItHasRoom) {
  auto worker =
      open_worker([](PlatformOptions& options) { options.worker.lease = std::chrono::hours{1}; });
  std::atomic<int> quick{0};
  worker.on("slow",
            [&](const Message&, HandlerContext&) { std::this_thread::sleep_for(milliseconds{1}); },
            {.concurrency = 1});
  worker.on("quick", [&](const Message&, HandlerContext&) { ++quick; });
  enqueue(400, "slow");
  enqueue(100, "quick");
  worker.start();
  ASSERT_TRUE(all_done(500));
  EXPECT_EQ(quick, 100);
  EXPECT_EQ(claims_made(), 500) << "no claim was in vain";
}

TEST_P(SubscriptionContract, AFallbackWithALimitTakesTheRest) {
  auto worker = open_worker();
  std::atomic<int> own{0};
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  worker.on("own", [&](const Message&, HandlerContext&) { ++own; });
  worker.on("limited", [&](const Message&, HandlerContext&) { ++own; }, {.concurrency = 3});
  worker.on_any(
      [&](const Message& message, HandlerContext&) {
        EXPECT_EQ(message.topic, "rest");
        most = std::max(most.load(), ++inside);
        std::this_thread::sleep_for(milliseconds{1});
        --inside;
      },
      {.concurrency = 1});
  for (const auto* topic : {"own", "limited", "rest"}) enqueue(60, topic);
  worker.start();
  ASSERT_TRUE(all_done(180));
  EXPECT_EQ(own, 120);
  EXPECT_EQ(most, 1);
}

TEST_P(SubscriptionContract, HandlersThatUseTheirTransactionRunAtTheSameTime) {
  backend.sql("create table " + backend.table("effects") + " (n integer)");
  auto worker = open_worker();
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  worker.on("t", [&](const Message&, HandlerContext& context) {
    most = std::max(most.load(), ++inside);
    std::this_thread::sleep_for(milliseconds{30});
    --inside;
    context.transaction().execute("insert into " + backend.table("effects") + " values (1)");
  });
  enqueue(40, "t");
  worker.start();
  ASSERT_TRUE(all_done(40));
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("effects")), 40);
  EXPECT_GE(most, 3) << "of four threads";
}

// --- bytes

TEST_P(SubscriptionContract, AClaimHasABudgetOfBytes) {
  enqueue(5, "t", std::string(1'000, 'x'));
  const auto claim_bytes = [&](std::size_t bytes) {
    return outbox.claim({.owner = owner, .batch_size = 10, .max_bytes = bytes}).size();
  };
  EXPECT_EQ(claim_bytes(2'500), 2U);
  EXPECT_EQ(claim_bytes(10), 1U) << "one is always claimed";
  EXPECT_EQ(outbox.claim({.owner = owner, .topics = {"t"}, .max_bytes = 10}).size(), 1U);
  EXPECT_EQ(claim_bytes(1'000), 1U);
  EXPECT_EQ(claim_bytes(1'000), 0U);
}

TEST_P(SubscriptionContract, WhatWasTooLargeForAClaimComesWithTheNext) {
  auto worker = open_worker([](PlatformOptions& options) {
    options.worker.max_bytes = 4'000;
    options.worker.poll_interval = options.worker.idle_poll_interval = std::chrono::minutes{10};
  });
  worker.on("t", [](const Message&, HandlerContext&) {});
  outbox.enqueue_many(std::vector<EnqueueRequest>(
      20, {.topic = "t", .payload = std::string(1'500, 'x'), .priority = 5}));
  enqueue(20, "t", std::string(1'500, 'y'));
  worker.start();
  EXPECT_TRUE(all_done(40));
}

TEST_P(SubscriptionContract, MessagesThatAreSetAsideDoNotUseUpTheBudget) {
  outbox.enqueue(
      {.topic = "t", .payload = std::string(1'000, 'x'), .expires_at = backend.now() + seconds{1}});
  outbox.enqueue({.topic = "t", .payload = std::string(1'000, 'y')});
  backend.advance(seconds{2});
  EXPECT_THAT(outbox.claim({.owner = owner, .max_bytes = 1'200}), SizeIs(1));
}

TEST_P(SubscriptionContract, AWorkerHoldsNoMoreBytesThanItMay) {
  std::atomic<int> calls{0};
  std::atomic<bool> go_on{false};
  auto worker = open_worker([](PlatformOptions& options) {
    options.worker.max_bytes = 4'000;
    options.worker.threads = 1;
  });
  worker.on("t", [&](const Message&, HandlerContext&) {
    if (++calls > 8) eventually([&] { return go_on.load(); });
  });
  enqueue(40, "t", std::string(1'000, 'x'));
  worker.start();
  ASSERT_TRUE(eventually([&] { return calls == 9; }));
  // No event shows that no further claim follows. But a worker that ignored the budget would hold
  // all messages by now.
  std::this_thread::sleep_for(milliseconds{300});
  EXPECT_LE(with_status(MessageStatus::in_progress), 8)
      << "two claims of half the budget each, and one message";
  go_on = true;
  EXPECT_TRUE(all_done(40));
}

}  // namespace
}  // namespace dovetail::testing
