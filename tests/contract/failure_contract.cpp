// The failures of a message: every attempt that failed is kept with it, within a limit.
#include "storage/queue_store.hpp"
#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class FailureContract : public OutboxTest {
 protected:
  std::vector<FailedAttempt> failures_of(MessageId id) { return found(id).failures; }

  /// What a failure is, without its time and its owner: `2 failed broken`.
  static std::string text_of(const FailedAttempt& failure) {
    return std::to_string(failure.attempt) + " " + std::string{to_string(failure.kind)} +
           (failure.error ? " " + *failure.error : "");
  }
  std::vector<std::string> texts_of(MessageId id) {
    std::vector<std::string> texts;
    for (const auto& each : failures_of(id)) texts.push_back(text_of(each));
    return texts;
  }
  /// Claims the only message, a second later than before.
  std::vector<Claim> claim_again() {
    backend.advance(seconds{1});
    auto claims = claims_of(claim(1));
    EXPECT_THAT(claims, SizeIs(1));
    return claims;
  }
  void abandon(const std::vector<Claim>& claims, const std::string& error) {
    EXPECT_EQ(outbox.abandon(owner, claims, {.error = error, .delay = milliseconds{0}}), 1U);
  }
  /// A message that has failed `count` times, and is ready.
  MessageId failed_times(int count) {
    auto claims = claimed_one();
    const auto id = claims.at(0).id;
    for (int attempt = 1;; ++attempt) {
      EXPECT_EQ(outbox.abandon(owner, claims,
                               {.error = "error " + std::to_string(attempt),
                                .delay = milliseconds{0},
                                .max_attempts = 1'000}),
                1U);
      if (attempt == count) return id;
      claims = claim_again();
    }
  }
  /// Claims the streams, and returns the claims.
  std::vector<Claim> claim_stream() {
    return claims_of(outbox.claim_streams({.owner = owner, .batch_size = 100}));
  }
};
DOVETAIL_CONTRACT(FailureContract);

TEST_P(FailureContract, EachFailedAttemptIsKeptInOrder) {
  const auto before = backend.now();
  auto claims = claimed_one();
  const auto id = claims.at(0).id;
  EXPECT_THAT(failures_of(id), IsEmpty());
  abandon(claims, "timeout");
  abandon(claim_again(), "refused");
  EXPECT_EQ(outbox.fail(owner, claim_again(), "gone"), 1U);
  EXPECT_THAT(texts_of(id), ElementsAre("1 failed timeout", "2 failed refused", "3 failed gone"));
  const auto failures = failures_of(id);
  auto last = before;
  for (const auto& each : failures) {
    EXPECT_EQ(each.owner, owner);
    EXPECT_GE(each.at, last);
    last = each.at;
  }
  EXPECT_GE(failures.at(2).at - failures.at(0).at, seconds{2});
  EXPECT_LE(last, backend.now());
}

TEST_P(FailureContract, TheLastAttemptAndAnAttemptWithoutAnErrorAreKept) {
  auto claims = claimed_one();
  const auto id = claims.at(0).id;
  EXPECT_EQ(outbox.abandon(owner, claims, {.delay = milliseconds{0}}), 1U);
  EXPECT_EQ(outbox.abandon(owner, claim_again(), {.error = "broken", .max_attempts = 2}), 1U);
  EXPECT_EQ(found(id).status, MessageStatus::failed);
  EXPECT_THAT(texts_of(id), ElementsAre("1 failed", "2 failed broken"));
}

TEST_P(FailureContract, ALostLeaseIsAFailureOfItsOwner) {
  const auto dead = OwnerToken::generate();
  const auto id = outbox.enqueue({.topic = "t"});
  ASSERT_THAT(claim_as(dead), SizeIs(1));
  backend.advance(seconds{31});
  const auto claims = claim_again();
  EXPECT_THAT(texts_of(id), ElementsAre("1 lost_lease"));
  EXPECT_EQ(failures_of(id).at(0).owner, dead);
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.reap_expired(), 1U);
  EXPECT_EQ(outbox.ack(owner, claims), 0U);
  EXPECT_THAT(texts_of(id), ElementsAre("1 lost_lease", "2 lost_lease"));
  EXPECT_EQ(failures_of(id).at(1).owner, owner);
  abandon(claim_again(), "broken");
  EXPECT_THAT(texts_of(id), ElementsAre("1 lost_lease", "2 lost_lease", "3 failed broken"));
}

TEST_P(FailureContract, ALeaseThatIsLostOnTheLastAttemptIsKeptOnce) {
  const auto by_reaper = claimed_one().at(0).id;
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.reap_expired({.max_attempts = 1}), 1U);
  EXPECT_THAT(texts_of(by_reaper),
              ElementsAre("1 lost_lease the lease expired on the last attempt"));
  EXPECT_EQ(failures_of(by_reaper).at(0).owner, owner);

  const auto by_claim = claimed_one().at(0).id;
  backend.advance(seconds{31});
  EXPECT_THAT(outbox.claim({.owner = owner, .max_attempts = 1}), IsEmpty());
  EXPECT_THAT(texts_of(by_claim),
              ElementsAre("1 lost_lease the lease expired on the last attempt"));

  const auto after_reaper = claimed_one().at(0).id;
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.reap_expired(), 1U);
  EXPECT_THAT(outbox.claim({.owner = owner, .max_attempts = 1}), IsEmpty());
  EXPECT_EQ(found(after_reaper).status, MessageStatus::failed);
  EXPECT_THAT(texts_of(after_reaper), ElementsAre("1 lost_lease"));
}

TEST_P(FailureContract, AnExpiryIsAFailureWithoutAnAttempt) {
  const auto id =
      outbox.enqueue({.topic = "t", .expires_at = backend.now() + std::chrono::minutes{1}});
  abandon(claims_of(claim(1)), "broken");
  backend.advance(hours{1});
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_THAT(texts_of(id),
              ElementsAre("1 failed broken", "1 expired expired before it was handled"));
  EXPECT_EQ(failures_of(id).at(1).owner, std::nullopt);
}

TEST_P(FailureContract, APausedMessageKeepsTheLeaseThatItLost) {
  const auto id = claimed_one().at(0).id;
  outbox.pause("t");
  backend.advance(seconds{31});
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_THAT(texts_of(id), ElementsAre("1 lost_lease"));
}

TEST_P(FailureContract, ALeaseThatIsTakenBackIsNoFailure) {
  const auto database = backend.open_database();
  const auto id = claimed_one().at(0).id;
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.reap_expired(), 1U);
  EXPECT_THAT(failures_of(id), SizeIs(1));
  database->write({.single_statement = true}, [&](storage::WriteSession& session) {
    database->queue("outbox").consumer.uncharge(session, std::vector{id});
  });
  EXPECT_THAT(failures_of(id), IsEmpty());
  EXPECT_EQ(found(id).message.attempts, 0);
}

TEST_P(FailureContract, OnlyTheNewestAreKept) {
  const auto id = failed_times(25);
  const auto texts = texts_of(id);
  ASSERT_THAT(texts, SizeIs(kept_failures));
  EXPECT_EQ(texts.front(), "16 failed error 16");
  EXPECT_EQ(texts.back(), "25 failed error 25");
}

TEST_P(FailureContract, LongErrorsAreShortenedExceptTheLast) {
  auto claims = claimed_one();
  const auto id = claims.at(0).id;
  for (int attempt = 1; attempt <= 30; ++attempt) {
    EXPECT_EQ(outbox.abandon(owner, claims,
                             {.error = std::to_string(attempt) + std::string(5'000, 'x'),
                              .delay = milliseconds{0},
                              .max_attempts = 1'000}),
              1U);
    claims = claim_again();
  }
  const auto failures = failures_of(id);
  ASSERT_THAT(failures, SizeIs(kept_failures));
  EXPECT_EQ(failures.back().error, found(id).last_error);
  EXPECT_THAT(*failures.back().error, SizeIs(2'048));
  EXPECT_THAT(*failures.front().error, SizeIs(512));
  EXPECT_LT(backend.number("select length(cast(failures as text)) from " +
                           backend.table("outbox_messages")),
            10'000);
}

TEST_P(FailureContract, ErrorsMayContainAnyText) {
  const std::string hostile = "\"]},{'$[0]' \\ \n\t \xE2\x82\xAC \xF0\x9F\x98\x80";
  const auto claims = claimed_one();
  abandon(claims, hostile);
  abandon(claim_again(), hostile);
  for (const auto& each : failures_of(claims.at(0).id)) EXPECT_EQ(each.error, hostile);
}

TEST_P(FailureContract, ADoneMessageKeepsThem) {
  const auto id = failed_times(2);
  EXPECT_EQ(outbox.ack(owner, claim_again()), 1U);
  EXPECT_EQ(found(id).status, MessageStatus::done);
  EXPECT_THAT(texts_of(id), ElementsAre("1 failed error 1", "2 failed error 2"));
}

TEST_P(FailureContract, AReplayKeepsThemAndContinuesTheirNumbers) {
  const auto id = failed_times(1);
  EXPECT_EQ(outbox.fail(owner, claim_again(), "gone"), 1U);
  EXPECT_EQ(outbox.replay(std::vector{id}), 1U);
  EXPECT_THAT(texts_of(id), ElementsAre("1 failed error 1", "2 failed gone"));
  abandon(claim_again(), "again");
  EXPECT_THAT(texts_of(id), ElementsAre("1 failed error 1", "2 failed gone", "3 failed again"));
  EXPECT_EQ(found(id).message.attempts, 1);
}

TEST_P(FailureContract, APurgeRemovesThemWithTheMessage) {
  const auto id = failed_one();
  EXPECT_EQ(outbox.purge_dead_letters(std::vector{id}), 1U);
  EXPECT_FALSE(outbox.find(id).has_value());
  outbox.enqueue({.topic = "t", .message_id = id});
  EXPECT_THAT(failures_of(id), IsEmpty());
}

TEST_P(FailureContract, ListsDoNotHaveThem) {
  failed_one();
  ASSERT_THAT(outbox.dead_letters(), SizeIs(1));
  EXPECT_THAT(outbox.dead_letters().at(0).failures, IsEmpty());
  ASSERT_THAT(outbox.messages().messages, SizeIs(1));
  EXPECT_THAT(outbox.messages().messages.at(0).stored.failures, IsEmpty());
}

TEST_P(FailureContract, MessagesOfStreamsHaveThem) {
  const auto id = outbox.enqueue({.topic = "t", .stream = "s"});
  EXPECT_EQ(outbox.abandon(owner, claim_stream(), {.error = "once", .delay = milliseconds{0}}), 1U);
  ASSERT_THAT(claim_stream(), SizeIs(1));
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.reap_expired(), 1U);
  EXPECT_EQ(outbox.fail(owner, claim_stream(), "blocked"), 1U);
  EXPECT_TRUE(outbox.resume_stream("s"));
  EXPECT_EQ(outbox.fail(owner, claim_stream(), "beside", StreamFailure::skip_order), 1U);
  EXPECT_THAT(texts_of(id),
              ElementsAre("1 failed once", "2 lost_lease", "3 failed blocked", "4 failed beside"));
  for (const auto& each : failures_of(id)) EXPECT_EQ(each.owner, owner);
}

TEST_P(FailureContract, ParkedAndSkippedMessagesOfStreamsHaveThem) {
  const auto parked = outbox.enqueue({.topic = "t", .stream = "s"});
  const auto skipped = outbox.enqueue({.topic = "t", .stream = "s"});
  const auto claims = claim_stream();
  ASSERT_THAT(claims, SizeIs(2));
  EXPECT_EQ(outbox.fail(owner, std::vector{claims[0]}, "parked", StreamFailure::park), 1U);
  EXPECT_EQ(outbox.fail(owner, std::vector{claims[1]}, "blocked"), 1U);
  EXPECT_TRUE(outbox.skip_stream("s"));
  EXPECT_THAT(texts_of(parked), ElementsAre("1 failed parked"));
  EXPECT_THAT(texts_of(skipped), ElementsAre("1 failed blocked"));
  EXPECT_EQ(found(skipped).status, MessageStatus::failed);
}

TEST_P(FailureContract, DoneMessagesOfStreamsKeepThem) {
  const auto id = outbox.enqueue({.topic = "t", .stream = "s"});
  EXPECT_EQ(outbox.abandon(owner, claim_stream(), {.error = "once", .delay = milliseconds{0}}), 1U);
  EXPECT_EQ(outbox.ack(owner, claim_stream()), 1U);
  EXPECT_THAT(texts_of(id), ElementsAre("1 failed once"));
}

TEST_P(FailureContract, TheInboxAndTheTimersHaveThem) {
  platform.inbox().enqueue({.topic = "t", .source = "s", .message_id = "1"});
  platform.timers().schedule({.topic = "t", .due_at = backend.now()});
  for (auto* queue : {&platform.inbox().queue(), &platform.timers().queue()}) {
    const auto claims = claims_of(queue->claim({.owner = owner}));
    ASSERT_THAT(claims, SizeIs(1)) << queue->name();
    EXPECT_EQ(queue->abandon(owner, claims, {.error = "broken"}), 1U);
    const auto stored = queue->find(claims.at(0).id);
    ASSERT_TRUE(stored) << queue->name();
    ASSERT_THAT(stored->failures, SizeIs(1)) << queue->name();
    EXPECT_EQ(text_of(stored->failures.at(0)), "1 failed broken") << queue->name();
  }
}

}  // namespace
}  // namespace dovetail::testing
