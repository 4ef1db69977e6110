// The queue of the inbox: it stores a message once and handles it like a message of the outbox,
// and the guard remembers it.
#include <atomic>
#include <thread>

#include "support/eventually.hpp"
#include "support/inbox_test.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class InboxQueueContract : public InboxTest {
 protected:
  PlatformOptions working() {
    auto options = backend.options();
    options.log_sink = log;
    options.worker = {.threads = 4,
                      .batch_size = 20,
                      .poll_interval = milliseconds{20},
                      .idle_poll_interval = milliseconds{50}};
    return options;
  }
  bool becomes(const std::string& id, InboxStatus status) {
    return eventually([&] { return status_of(id) == status; });
  }
  std::shared_ptr<RecordedLines> log = std::make_shared<RecordedLines>();
};
DOVETAIL_CONTRACT(InboxQueueContract);

TEST_P(InboxQueueContract, AMessageIsStoredOnceByItsSourceAndId) {
  const auto first = put("m");
  EXPECT_TRUE(first.stored());
  ASSERT_TRUE(first.id);
  const auto second = put("m", "another topic");
  EXPECT_EQ(second.outcome, InboxEnqueueOutcome::duplicate);
  EXPECT_EQ(second.id, first.id);
  EXPECT_TRUE(put("m", "t", "another source").stored());
  EXPECT_EQ(found("m").sightings, 2);
  EXPECT_EQ(found("m").attempts, 0) << "a sighting costs no attempt";
  EXPECT_EQ(status_of("m"), InboxStatus::queued);
  EXPECT_THAT(claim(), SizeIs(2));
}

TEST_P(InboxQueueContract, AClaimedMessageSaysWhereItCameFrom) {
  const auto due = backend.now() - seconds{1};
  inbox.enqueue({.topic = "orders",
                 .source = "partner",
                 .message_id = "42",
                 .payload = "{}",
                 .due_at = due,
                 .correlation_id = "c",
                 .headers = {{"h", "v"}},
                 .priority = 2});
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  const auto message = InboxMessage::from(claimed.front().message);
  EXPECT_EQ(message.source, "partner");
  EXPECT_EQ(message.message_id, "42");
  EXPECT_EQ(message.topic, "orders");
  EXPECT_EQ(message.payload, "{}");
  EXPECT_EQ(message.correlation_id, "c");
  EXPECT_EQ(message.headers, (Headers{{"h", "v"}}));
  EXPECT_EQ(message.due_at, due);
  EXPECT_EQ(message.priority, 2);
  EXPECT_EQ(message.attempts, 0);
}

TEST_P(InboxQueueContract, TheQueueAndTheOutboxKnowNothingOfEachOther) {
  put("m");
  platform.outbox().enqueue({.topic = "t"});
  EXPECT_THAT(platform.outbox().claim({.owner = owner}), SizeIs(1));
  EXPECT_THAT(claim(), SizeIs(1));
  EXPECT_EQ(platform.outbox().counts().in_progress, 1);
  EXPECT_EQ(inbox.counts().queue.in_progress, 1);
  inbox.queue().pause("t");
  EXPECT_THAT(platform.outbox().paused_topics(), IsEmpty());
}

TEST_P(InboxQueueContract, WhatTheGuardHasSeenOrBegunIsNeverClaimed) {
  inbox.already_processed("s", "seen");
  (void)inbox.try_begin("s", "begun");
  inbox.mark_processed("s", "processed");
  inbox.mark_dead("s", "dead");
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_EQ(put("begun").outcome, InboxEnqueueOutcome::duplicate);
  EXPECT_EQ(put("processed").outcome, InboxEnqueueOutcome::duplicate);
  EXPECT_EQ(put("dead").outcome, InboxEnqueueOutcome::duplicate);
  EXPECT_FALSE(put("dead").id);
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_TRUE(put("seen").stored()) << "nobody has begun with it";
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(InboxQueueContract, WhatIsInTheQueueBelongsToIt) {
  put("m");
  EXPECT_EQ(inbox.try_begin("s", "m").outcome, BeginOutcome::in_progress);
  EXPECT_FALSE(inbox.mark_processing("s", "m"));
  EXPECT_FALSE(inbox.mark_processed("s", "m"));
  EXPECT_FALSE(inbox.mark_dead("s", "m"));
  EXPECT_FALSE(inbox.already_processed("s", "m"));
  EXPECT_EQ(inbox.queue().ack(owner, claims()), 1U);
  EXPECT_TRUE(inbox.already_processed("s", "m"));
  EXPECT_EQ(inbox.try_begin("s", "m").outcome, BeginOutcome::processed);
  EXPECT_EQ(put("m").outcome, InboxEnqueueOutcome::duplicate);
}

TEST_P(InboxQueueContract, EveryWayToADeadLetterMarksItDead) {
  inbox.enqueue({.topic = "t", .source = "s", .message_id = "failed"});
  EXPECT_EQ(inbox.queue().fail(owner, claims(), "broken"), 1U);
  put("abandoned");
  EXPECT_EQ(inbox.queue().abandon(owner, claims(), {.error = "broken", .max_attempts = 1}), 1U);
  inbox.enqueue(
      {.topic = "t", .source = "s", .message_id = "expired", .expires_at = backend.now()});
  EXPECT_THAT(claim(), IsEmpty());
  put("reaped");
  EXPECT_THAT(claim(), SizeIs(1));
  backend.advance(minutes{1});
  EXPECT_EQ(inbox.queue().reap_expired({.max_attempts = 1}), 1U);
  for (const auto* id : {"failed", "abandoned", "expired", "reaped"}) {
    EXPECT_EQ(status_of(id), InboxStatus::dead_letter) << id;
    EXPECT_EQ(inbox.try_begin("s", id).outcome, BeginOutcome::dead_letter) << id;
    EXPECT_TRUE(found(id).last_error) << id;
  }
  EXPECT_EQ(inbox.queue().replay(DeadLetterFilter{}), 4U);
  EXPECT_EQ(status_of("failed"), InboxStatus::queued)
      << "also when the queue's own call replays it";
}

TEST_P(InboxQueueContract, AnAbandonedOneComesAgainAndCountsItsAttempts) {
  put("m");
  EXPECT_EQ(inbox.queue().abandon(owner, claims(), {.error = "later", .delay = seconds{5}}), 1U);
  EXPECT_EQ(status_of("m"), InboxStatus::queued);
  EXPECT_EQ(found("m").attempts, 1);
  EXPECT_EQ(found("m").last_error, "later");
  EXPECT_THAT(claim(), IsEmpty());
  backend.advance(seconds{6});
  const auto again = claim();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again.front().message.attempts, 1);
  EXPECT_EQ(again.front().claim.epoch, 2);
}

TEST_P(InboxQueueContract, AStaleClaimMarksNothing) {
  put("m");
  const auto stale = claims();
  backend.advance(minutes{1});
  const auto live = claims();
  EXPECT_EQ(inbox.queue().ack(owner, stale), 0U);
  EXPECT_EQ(status_of("m"), InboxStatus::queued);
  EXPECT_EQ(inbox.queue().ack(owner, live), 1U);
  EXPECT_EQ(status_of("m"), InboxStatus::processed);
}

TEST_P(InboxQueueContract, AnEnqueueInATransactionIsSeenWithIt) {
  {
    auto transaction = platform.begin();
    EXPECT_TRUE(
        inbox.enqueue(transaction, {.topic = "t", .source = "s", .message_id = "m"}).stored());
  }
  EXPECT_FALSE(inbox.find("s", "m"));
  auto transaction = platform.begin();
  EXPECT_TRUE(
      inbox.enqueue(transaction, {.topic = "t", .source = "s", .message_id = "m"}).stored());
  EXPECT_FALSE(
      inbox.enqueue(transaction, {.topic = "t", .source = "s", .message_id = "m"}).stored());
  transaction.commit();
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(InboxQueueContract, ManyAreStoredInOneGoAndAnsweredInTheirOrder) {
  put("b");
  std::vector<InboxRequest> requests;
  for (const auto* id : {"c", "b", "a", "c"}) {
    requests.push_back({.topic = "t", .source = "s", .message_id = id});
  }
  const auto answers = inbox.enqueue_many(requests);
  std::vector<bool> stored;
  for (const auto& answer : answers) stored.push_back(answer.stored());
  EXPECT_THAT(stored, ElementsAre(true, false, true, false));
  EXPECT_EQ(answers[0].id, answers[3].id);
  EXPECT_THAT(claim(), SizeIs(3));
  EXPECT_THAT(inbox.enqueue_many({}), IsEmpty());
  requests[2].topic = "";
  requests[0].message_id = "new";
  EXPECT_THROW(inbox.enqueue_many(requests), std::invalid_argument);
  EXPECT_FALSE(inbox.find("s", "new")) << "all or none";
}

// --- handlers

TEST_P(InboxQueueContract, HandlersGetWhatIsEnqueuedAndTheGuardRemembers) {
  auto worker = Platform::open(backend.url(), working());
  std::mutex mutex;
  std::vector<std::string> got;
  worker.on("t", [](const Message&, HandlerContext&) { FAIL() << "that is the outbox's"; });
  worker.on_inbox("t", [&](const InboxMessage& message, HandlerContext& context) {
    std::lock_guard lock(mutex);
    got.push_back(message.source + "/" + message.message_id + ": " + message.payload);
    EXPECT_EQ(context.epoch(), 1);
  });
  worker.start();
  put("m");
  EXPECT_TRUE(becomes("m", InboxStatus::processed));
  put("m");
  put("n");
  EXPECT_TRUE(becomes("n", InboxStatus::processed));
  std::lock_guard lock(mutex);
  EXPECT_THAT(got, ElementsAre("s/m: payload of m", "s/n: payload of n"));
}

TEST_P(InboxQueueContract, WhatAHandlerWritesCommitsWithTheMark) {
  const auto table = effects_table();
  auto worker = Platform::open(backend.url(), working());
  std::atomic<int> tries{0};
  worker.on_inbox("t",
                  [&](const InboxMessage& message, HandlerContext& context) {
                    context.transaction().execute("insert into " + table + " (effect) values ($1)",
                                                  message.message_id);
                    if (++tries == 1) throw std::runtime_error("after its write");
                  },
                  {.backoff = [](int) { return milliseconds{1}; }});
  worker.start();
  put("m");
  // On SQLite the test moves the clock, so that messages that wait for a retry become due.
  EXPECT_TRUE(eventually([&] {
    backend.advance(milliseconds{10});
    return status_of("m") == InboxStatus::processed;
  }));
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(backend.number("select count(*) from " + table), 1);
  EXPECT_EQ(found("m").attempts, 1);
}

TEST_P(InboxQueueContract, APoisonMessageDiesAndLivesAgainWhenReplayed) {
  auto worker = Platform::open(backend.url(), working());
  std::atomic<bool> healed{false};
  worker.on_inbox("t", [&](const InboxMessage&, HandlerContext&) {
    if (!healed) throw PermanentFailure("poison");
  });
  worker.on_any_inbox(
      [](const InboxMessage&, HandlerContext&) { throw PermanentFailure("no such topic"); });
  worker.start();
  put("m");
  EXPECT_TRUE(becomes("m", InboxStatus::dead_letter));
  EXPECT_EQ(found("m").last_error, "poison");
  healed = true;
  EXPECT_EQ(inbox.replay({.source = "s", .message_id = "m"}), 1U);
  EXPECT_TRUE(becomes("m", InboxStatus::processed));
  put("x", "of no handler");
  EXPECT_TRUE(becomes("x", InboxStatus::dead_letter));
}

TEST_P(InboxQueueContract, EventsOfTheInboxHaveItsName) {
  auto options = working();
  auto worker = Platform::open(backend.url(), options);
  worker.on_inbox("t", [](const InboxMessage&, HandlerContext&) { throw PermanentFailure("no"); });
  worker.start();
  put("m");
  EXPECT_TRUE(becomes("m", InboxStatus::dead_letter));
  worker.stop();
  EXPECT_EQ(log->count("inbox.dead_letter"), 1);
  EXPECT_EQ(log->count("outbox.dead_letter"), 0);
}

}  // namespace
}  // namespace dovetail::testing
