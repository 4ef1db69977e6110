// A glance at a database: the time until the database has work.
#include "storage/glance_store.hpp"

#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::Le;
using ::testing::Optional;

class GlanceContract : public OutboxTest {
 protected:
  storage::Glance glance(const storage::GlanceTopics& topics = {}) {
    storage::Glance seen;
    database->read([&](storage::ReadSession& session) {
      seen = database->store<storage::GlanceStore>().look(session, topics);
    });
    return seen;
  }
  /// The time of PostgreSQL advances while the test runs.
  static auto about(microseconds time) { return Optional(AllOf(Le(time), Gt(time - seconds{20}))); }
  static auto now_or_past() { return Optional(Le(microseconds{0})); }

  std::unique_ptr<storage::Database> database = backend.open_database();
};
DOVETAIL_CONTRACT(GlanceContract);

TEST_P(GlanceContract, AnEmptyDatabaseHasNothingToDo) {
  const auto seen = glance();
  EXPECT_FALSE(seen.outbox);
  EXPECT_FALSE(seen.inbox);
  EXPECT_FALSE(seen.timers);
  EXPECT_FALSE(seen.jobs);
}

TEST_P(GlanceContract, EachPartIsSeenByItself) {
  outbox.enqueue({.topic = "t", .due_at = backend.now() + hours{1}});
  EXPECT_THAT(glance().outbox, about(hours{1}));
  EXPECT_FALSE(glance().inbox);
  platform.inbox().enqueue({.topic = "t", .source = "s", .message_id = "1"});
  EXPECT_THAT(glance().inbox, now_or_past());
  EXPECT_FALSE(glance().timers);
  platform.timers().schedule({.topic = "t", .due_at = backend.now() + hours{2}});
  EXPECT_THAT(glance().timers, about(hours{2}));
  EXPECT_FALSE(glance().jobs);
  platform.jobs().create_or_update({.name = "j", .topic = "t", .cron = "0 0 1 1 *"});
  EXPECT_THAT(glance().jobs, Optional(Le(hours{24 * 366})));
  EXPECT_THAT(glance().outbox, about(hours{1})) << "the others do not change it";
}

TEST_P(GlanceContract, TheEarliestMessageOfAllPrioritiesCounts) {
  outbox.enqueue({.topic = "t", .due_at = backend.now() + hours{3}, .priority = 5});
  outbox.enqueue({.topic = "t", .due_at = backend.now() + hours{2}, .priority = -5});
  EXPECT_THAT(glance().outbox, about(hours{2}));
  backend.advance(hours{2} + seconds{1});
  EXPECT_THAT(glance().outbox, now_or_past());
}

TEST_P(GlanceContract, AMessageInProgressIsDueWhenItsLeaseExpires) {
  outbox.enqueue({.topic = "t"});
  EXPECT_THAT(glance().outbox, now_or_past());
  ASSERT_EQ(claim(1, minutes{10}).size(), 1U);
  EXPECT_THAT(glance().outbox, about(minutes{10}));
  outbox.enqueue({.topic = "t", .due_at = backend.now() + minutes{5}});
  EXPECT_THAT(glance().outbox, about(minutes{5})) << "before the lease expires";
  backend.advance(minutes{11});
  EXPECT_THAT(glance().outbox, now_or_past());
}

TEST_P(GlanceContract, AMessageBehindOthersInProgressIsSeen) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(1'200, {.topic = "t"}));
  ASSERT_EQ(claim(1'000).size() + claim(1'000).size(), 1'200U);
  EXPECT_THAT(glance().outbox, Optional(Gt(microseconds{0})));
  outbox.enqueue({.topic = "t"});
  EXPECT_THAT(glance().outbox, now_or_past());
}

TEST_P(GlanceContract, FinishedMessagesAreNothingToDo) {
  for (int i = 0; i < 3; ++i) outbox.ack(owner, claimed_one());
  failed_one();
  EXPECT_FALSE(glance().outbox);
}

TEST_P(GlanceContract, MessagesOfAPausedTopicAreLeftOutOnceAClaimHasPutThemAside) {
  outbox.pause("t");
  outbox.enqueue({.topic = "t"});
  EXPECT_TRUE(claim().empty());
  EXPECT_FALSE(glance().outbox);
  outbox.resume("t");
  EXPECT_THAT(glance().outbox, now_or_past());
}

TEST_P(GlanceContract, AMessageThatWaitsAfterAFailureIsDueAtItsNextAttempt) {
  outbox.abandon(owner, claimed_one(), {.delay = minutes{7}});
  EXPECT_THAT(glance().outbox, about(minutes{7}));
}

// --- topics

TEST_P(GlanceContract, MessagesOfOtherTopicsDoNotCount) {
  outbox.enqueue({.topic = "foreign"});
  outbox.enqueue({.topic = "ours", .due_at = backend.now() + hours{1}});
  platform.inbox().enqueue({.topic = "foreign", .source = "s", .message_id = "1"});
  const storage::GlanceTopics ours{.outbox = {{"ours", "another"}}, .inbox = {{"ours"}}};
  EXPECT_THAT(glance(ours).outbox, about(hours{1}));
  EXPECT_FALSE(glance(ours).inbox);
  EXPECT_THAT(glance().outbox, now_or_past()) << "all topics";
  EXPECT_THAT(glance({.outbox = std::vector<std::string>{}}).outbox, std::nullopt) << "none";
  EXPECT_THAT(glance({.outbox = {{"foreign"}}}).outbox, now_or_past());
}

TEST_P(GlanceContract, AMessageInProgressOfAnotherTopicDoesNotCount) {
  outbox.enqueue({.topic = "foreign"});
  ASSERT_EQ(outbox.claim({.owner = OwnerToken::generate(), .lease = hours{1}}).size(), 1U);
  EXPECT_FALSE(glance({.outbox = {{"ours"}}}).outbox);
  EXPECT_THAT(glance({.outbox = {{"foreign"}}}).outbox, about(hours{1}));
}

TEST_P(GlanceContract, ManyMessagesOfOtherTopicsHideNothing) {
  std::vector<EnqueueRequest> foreign(1'500, {.topic = "foreign"});
  outbox.enqueue_many(foreign);
  outbox.enqueue({.topic = "ours"});
  EXPECT_THAT(glance({.outbox = {{"ours"}}}).outbox, now_or_past());
}

TEST_P(GlanceContract, StreamsAreSeenWhileTheyWaitAndWhenTheirLeasesEnd) {
  outbox.enqueue({.topic = "t", .delay = hours{1}, .stream = "later"});
  EXPECT_THAT(glance().outbox, about(hours{1}));
  outbox.enqueue({.topic = "t", .stream = "now"});
  EXPECT_THAT(glance().outbox, now_or_past());
  EXPECT_EQ(outbox.claim_streams({.owner = owner, .lease = minutes{2}}).size(), 1U);
  EXPECT_THAT(glance().outbox, about(minutes{2}));
}

}  // namespace
}  // namespace dovetail::testing
