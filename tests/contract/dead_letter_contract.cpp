// Operating the outbox: dead letters, retention, pausing.
#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DeadLetterContract : public OutboxTest {
 protected:
  static std::vector<MessageId> ids_of(const std::vector<StoredMessage>& messages) {
    std::vector<MessageId> ids;
    for (const auto& each : messages) ids.push_back(each.message.message_id);
    return ids;
  }
};
DOVETAIL_CONTRACT(DeadLetterContract);

TEST_P(DeadLetterContract, AreListedInPagesAndByFilter) {
  const auto before = backend.now();
  std::vector<MessageId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(failed_one("mail"));
  backend.advance(hours{1});
  const auto between = backend.now();
  const auto sms = failed_one("sms", "no signal");
  std::ranges::sort(ids);

  EXPECT_THAT(outbox.dead_letters(), SizeIs(4));
  EXPECT_EQ(ids_of(outbox.dead_letters({.topic = "mail"})), ids);
  EXPECT_THAT(ids_of(outbox.dead_letters({.failed_after = between})), ElementsAre(sms));
  EXPECT_THAT(outbox.dead_letters({.failed_after = before, .failed_before = between}), SizeIs(3));
  EXPECT_THAT(outbox.dead_letters({.topic = "fax"}), IsEmpty());

  std::vector<MessageId> paged;
  DeadLetterPage page{.size = 1};
  for (;;) {
    const auto some = outbox.dead_letters({.topic = "mail"}, page);
    if (some.empty()) break;
    paged.push_back(some[0].message.message_id);
    page.after = paged.back();
  }
  EXPECT_EQ(paged, ids);
  EXPECT_THROW((void)outbox.dead_letters({}, {.size = 0}), std::out_of_range);
}

TEST_P(DeadLetterContract, AreListedNewestFirstInPages) {
  std::vector<MessageId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(failed_one("mail"));
  const auto sms = failed_one("sms");
  std::ranges::sort(ids, std::greater{});
  EXPECT_EQ(ids_of(outbox.dead_letters({.topic = "mail"}, {.newest_first = true})), ids);
  EXPECT_EQ(outbox.dead_letters({}, {.size = 1, .newest_first = true}).at(0).message.message_id,
            sms);
  EXPECT_THAT(ids_of(outbox.dead_letters({}, {.after = ids[1], .newest_first = true})),
              ElementsAre(ids[2]));
}

TEST_P(DeadLetterContract, AreSummedUpByTopicAndError) {
  EXPECT_THAT(outbox.dead_letter_summary().groups, IsEmpty());
  EXPECT_EQ(outbox.dead_letter_summary().letters_read, 0);
  failed_one("sms", "no signal");
  backend.advance(seconds{1});
  const auto first = backend.now();
  failed_one("mail", "bounced");
  backend.advance(hours{1});
  const auto between = backend.now();
  failed_one("mail", "full");
  failed_one("mail", "bounced");

  const auto all = outbox.dead_letter_summary();
  ASSERT_THAT(all.groups, SizeIs(3));
  EXPECT_EQ(all.groups[0].topic, "mail");
  EXPECT_EQ(all.groups[0].error, "bounced");
  EXPECT_EQ(all.groups[0].count, 2);
  EXPECT_GE(all.groups[0].oldest, first);
  EXPECT_LT(all.groups[0].oldest, between);
  EXPECT_GE(all.groups[0].newest, between);
  EXPECT_EQ(all.groups[1].error, "full");
  EXPECT_EQ(all.groups[2].topic, "sms");
  EXPECT_EQ(all.letters_read, 4);
  EXPECT_FALSE(all.letters_cut);
  EXPECT_FALSE(all.groups_cut);

  EXPECT_THAT(outbox.dead_letter_summary({.topic = "sms"}).groups, SizeIs(1));
  EXPECT_THAT(outbox.dead_letter_summary({.failed_after = between}).groups, SizeIs(2));
  EXPECT_THAT(outbox.dead_letter_summary({.failed_before = first}).groups, SizeIs(1));
}

TEST_P(DeadLetterContract, TheSummaryIsBoundedAndSaysSo) {
  failed_one("sms");
  for (int i = 0; i < 2; ++i) failed_one("mail");
  const auto newest = outbox.dead_letter_summary({}, {.letters = 2});
  ASSERT_THAT(newest.groups, SizeIs(1));
  EXPECT_EQ(newest.groups[0].topic, "mail");
  EXPECT_EQ(newest.groups[0].count, 2);
  EXPECT_TRUE(newest.letters_cut);
  const auto largest = outbox.dead_letter_summary({}, {.groups = 1});
  ASSERT_THAT(largest.groups, SizeIs(1));
  EXPECT_EQ(largest.groups[0].topic, "mail");
  EXPECT_TRUE(largest.groups_cut);
  EXPECT_FALSE(largest.letters_cut);
  EXPECT_THROW((void)outbox.dead_letter_summary({}, {.letters = 0}), std::out_of_range);
  EXPECT_THROW((void)outbox.dead_letter_summary({}, {.groups = 10'001}), std::out_of_range);
}

TEST_P(DeadLetterContract, AreInspectedWithEverythingThatIsKnown) {
  const auto due = backend.now() - seconds{60};
  const auto id = outbox.enqueue({.topic = "mail",
                                  .payload = "{\"to\":1}",
                                  .due_at = due,
                                  .correlation_id = "c-1",
                                  .headers = {{"h", "v"}},
                                  .priority = 2,
                                  .unique_key = "k"});
  EXPECT_EQ(found(id).status, MessageStatus::ready);
  ASSERT_TRUE(found(id).next_attempt_at.has_value());
  const auto claims = claims_of(claim());
  EXPECT_EQ(found(id).status, MessageStatus::in_progress);
  outbox.fail(owner, claims, "bounced");
  const auto dead = found(id);
  EXPECT_EQ(dead.status, MessageStatus::failed);
  EXPECT_EQ(dead.message.payload, "{\"to\":1}");
  EXPECT_EQ(dead.message.topic, "mail");
  EXPECT_EQ(dead.message.due_at, due);
  EXPECT_EQ(dead.message.correlation_id, "c-1");
  EXPECT_EQ(dead.message.headers, (Headers{{"h", "v"}}));
  EXPECT_EQ(dead.message.priority, 2);
  EXPECT_EQ(dead.message.attempts, 1);
  EXPECT_EQ(dead.unique_key, "k");
  EXPECT_EQ(dead.last_error, "bounced");
  EXPECT_FALSE(outbox.find(MessageId::generate()).has_value());
  EXPECT_EQ(outbox.dead_letters().at(0).message.payload, "") << "lists leave payloads out";
}

TEST_P(DeadLetterContract, AreReplayedOneByOne) {
  const auto one = failed_one();
  const auto other = failed_one();
  const auto epoch_before =
      backend.number("select max(claim_epoch) from " + backend.table("outbox_messages"));
  EXPECT_EQ(outbox.replay(std::vector{one, MessageId::generate()}), 1U);
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.message_id, one);
  EXPECT_EQ(claimed[0].message.attempts, 0) << "attempts are reset";
  EXPECT_GT(claimed[0].claim.epoch, epoch_before) << "the fence is not";
  EXPECT_EQ(found(one).past_attempts, 1) << "history is kept";
  EXPECT_EQ(found(one).last_error, "broken");
  EXPECT_EQ(found(other).status, MessageStatus::failed);
  EXPECT_EQ(outbox.ack(owner, claims_of(claimed)), 1U);
  EXPECT_EQ(found(one).status, MessageStatus::done);
}

TEST_P(DeadLetterContract, AreReplayedByFilterAndAllTogether) {
  for (int i = 0; i < 3; ++i) failed_one("mail");
  for (int i = 0; i < 2; ++i) failed_one("sms");
  EXPECT_EQ(outbox.replay(DeadLetterFilter{.topic = "mail"}), 3U);
  EXPECT_EQ(with_status(MessageStatus::failed), 2);
  EXPECT_EQ(outbox.replay(DeadLetterFilter{}), 2U);
  EXPECT_THAT(claim(), SizeIs(5));
}

TEST_P(DeadLetterContract, MoreThanAPortionIsReplayedAndPurged) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(2'500, {.topic = "t"}));
  outbox.fail(owner, claims_of(claim(5'000)), "no");
  EXPECT_EQ(outbox.replay(DeadLetterFilter{.topic = "t"}), 2'500U);
  outbox.fail(owner, claims_of(claim(5'000)), "no");
  EXPECT_EQ(outbox.purge_dead_letters(DeadLetterFilter{}), 2'500U);
  EXPECT_EQ(stored(), 0);
}

TEST_P(DeadLetterContract, AReplayDoesNotTakeAUniqueKeyThatIsInUse) {
  outbox.enqueue({.topic = "t", .unique_key = "k"});
  const auto claims = claims_of(claim());
  outbox.fail(owner, claims, "no");
  const MessageId id{claims[0].id.uuid()};
  const auto live = outbox.enqueue({.topic = "t", .unique_key = "k"});
  EXPECT_TRUE(live.stored());
  EXPECT_EQ(outbox.replay(std::vector{id}), 0U);
  EXPECT_EQ(outbox.replay(DeadLetterFilter{}), 0U);
  outbox.ack(owner, claims_of(claim()));
  EXPECT_EQ(outbox.replay(std::vector{id}), 1U);
}

TEST_P(DeadLetterContract, AreNotReplayedIntoTheirOldExpiry) {
  const auto id = outbox.enqueue({.topic = "t", .expires_at = backend.now() + seconds{1}});
  backend.advance(seconds{2});
  ASSERT_THAT(claim(), IsEmpty());
  EXPECT_EQ(outbox.replay(std::vector<MessageId>{id}), 1U);
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(DeadLetterContract, ArePurgedByIdAndByFilter) {
  const auto one = failed_one("mail");
  failed_one("mail");
  failed_one("sms");
  const auto live = outbox.enqueue({.topic = "mail"});
  EXPECT_EQ(outbox.purge_dead_letters(std::vector<MessageId>{one, live}), 1U)
      << "only what has failed";
  EXPECT_EQ(outbox.purge_dead_letters(DeadLetterFilter{.failed_before = backend.now() - hours{1}}),
            0U);
  EXPECT_EQ(outbox.purge_dead_letters(DeadLetterFilter{.failed_after = backend.now() + hours{1}}),
            0U);
  EXPECT_EQ(outbox.purge_dead_letters(DeadLetterFilter{.topic = "mail"}), 1U);
  EXPECT_THAT(outbox.dead_letters(), SizeIs(1));
  EXPECT_TRUE(outbox.find(live).has_value());
}

// --- retention

TEST_P(DeadLetterContract, OBX_024_DoneMessagesAreKeptForATimeAndThenPurged) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(1'500, {.topic = "old"}));
  outbox.ack(owner, claims_of(claim(2'000)));
  backend.advance(hours{2});
  outbox.enqueue({.topic = "young"});
  outbox.ack(owner, claims_of(claim()));
  failed_one();
  EXPECT_THAT(claim(), IsEmpty()) << "what is processed is not claimed";
  EXPECT_EQ(outbox.purge_done(hours{3}), 0U);
  EXPECT_EQ(outbox.purge_done(hours{1}), 1'500U);
  EXPECT_EQ(with_status(MessageStatus::done), 1);
  EXPECT_EQ(with_status(MessageStatus::failed), 1) << "dead letters are not history";
  EXPECT_THROW(outbox.purge_done(seconds{-1}), std::out_of_range);
}

TEST_P(DeadLetterContract, WithoutRetentionAnAckDeletes) {
  auto options = backend.options();
  options.outbox.retain_done = seconds{0};
  auto forgetful = Platform::open(backend.url(), options);
  outbox.enqueue({.topic = "t"});
  EXPECT_EQ(forgetful.outbox().ack(owner, claims_of(claim())), 1U);
  EXPECT_EQ(stored(), 0);
}

// --- pausing

TEST_P(DeadLetterContract, APausedTopicIsNotClaimedUntilItIsResumed) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(5, {.topic = "mail"}));
  outbox.enqueue({.topic = "sms"});
  EXPECT_TRUE(outbox.pause("mail"));
  EXPECT_FALSE(outbox.pause("mail"));
  ASSERT_THAT(outbox.paused_topics(), SizeIs(1));
  EXPECT_EQ(outbox.paused_topics()[0].topic, "mail");
  auto claimed = claim(3);
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.topic, "sms");
  outbox.enqueue({.topic = "mail", .payload = "while paused"});
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_EQ(outbox.counts().paused, 6);
  EXPECT_EQ(outbox.counts().ready, 0);

  EXPECT_TRUE(outbox.resume("mail"));
  EXPECT_FALSE(outbox.resume("mail"));
  EXPECT_THAT(outbox.paused_topics(), IsEmpty());
  EXPECT_THAT(claim(), SizeIs(6));
}

TEST_P(DeadLetterContract, MessagesInProgressGoOnWhileTheirTopicIsPaused) {
  const auto claims = claimed_one("mail");
  outbox.enqueue({.topic = "mail"});
  const auto others = claims_of(claim(1));
  outbox.pause("mail");
  EXPECT_EQ(outbox.ack(owner, claims), 1U);
  EXPECT_EQ(outbox.abandon(owner, others, {.delay = milliseconds{0}}), 1U);
  EXPECT_THAT(claim(), IsEmpty());
  outbox.resume("mail");
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(DeadLetterContract, AMessageWhoseWorkerDiedWhileItsTopicWasPausedWaitsToo) {
  claimed_one("mail");
  outbox.pause("mail");
  backend.advance(seconds{31});
  EXPECT_THAT(claim(), IsEmpty());
  outbox.resume("mail");
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.attempts, 1);
}

TEST_P(DeadLetterContract, ALongPausedQueueDoesNotHideOtherTopics) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(3'000, {.topic = "mail"}));
  outbox.enqueue({.topic = "sms"});
  outbox.pause("mail");
  std::size_t claimed = 0;
  for (int i = 0; i < 10 && claimed == 0; ++i) claimed = claim(50).size();
  EXPECT_EQ(claimed, 1U);
  EXPECT_TRUE(outbox.resume("mail"));
  EXPECT_THAT(claim(5'000), SizeIs(3'000));
}

TEST_P(DeadLetterContract, TopicsToPauseAreCheckedLikeAnyOther) {
  EXPECT_THROW(outbox.pause(""), std::invalid_argument);
  EXPECT_THROW(outbox.resume(std::string(256, 'x')), std::invalid_argument);
  const std::string hostile = "'; drop table outbox; --";
  outbox.enqueue({.topic = hostile});
  EXPECT_TRUE(outbox.pause(hostile));
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_TRUE(outbox.resume(hostile));
  EXPECT_THAT(claim(), SizeIs(1));
}

}  // namespace
}  // namespace dovetail::testing
