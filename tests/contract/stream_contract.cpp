// Streams: claims and settlements of your own workers, and operation.
#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class StreamContract : public OutboxTest {
 protected:
  MessageId put(const std::string& stream, const std::string& payload) {
    return outbox.enqueue({.topic = "t", .payload = payload, .stream = stream});
  }
  void put_all(const std::string& stream, std::initializer_list<const char*> payloads) {
    for (const auto* payload : payloads) put(stream, payload);
  }
  std::vector<ClaimedMessage> claim_streams(OwnerToken who, int batch_size = 100,
                                            seconds lease = seconds{30}) {
    return outbox.claim_streams({.owner = who, .batch_size = batch_size, .lease = lease});
  }
  std::vector<ClaimedMessage> claim_streams(int batch_size = 100) {
    return claim_streams(owner, batch_size);
  }
  static std::vector<std::string> payloads_of(const std::vector<ClaimedMessage>& claimed) {
    std::vector<std::string> payloads;
    for (const auto& each : claimed) payloads.push_back(each.message.payload);
    return payloads;
  }
  /// The claims without hints, as callers in other languages have them.
  static std::vector<Claim> bare(const std::vector<ClaimedMessage>& claimed) {
    std::vector<Claim> claims;
    for (const auto& each : claimed) claims.push_back({each.claim.id, each.claim.epoch});
    return claims;
  }
  /// Claims and acks all messages, and returns their payloads in order.
  std::vector<std::string> drain() {
    std::vector<std::string> all;
    for (;;) {
      const auto claimed = claim_streams(owner);
      if (claimed.empty()) return all;
      for (const auto& each : claimed) all.push_back(each.message.payload);
      outbox.ack(owner, claims_of(claimed));
    }
  }
  StreamState state_of(const std::string& stream) {
    const auto found = outbox.find_stream(stream);
    EXPECT_TRUE(found.has_value());
    return found ? found->state : StreamState::ready;
  }
  const OwnerToken other = OwnerToken::generate();
};
DOVETAIL_CONTRACT(StreamContract);

// --- claims

TEST_P(StreamContract, AClaimOfMessagesDoesNotReturnMessagesOfStreams) {
  put("s", "1");
  outbox.enqueue({.topic = "t", .payload = "free"});
  EXPECT_THAT(payloads_of(claim()), ElementsAre("free"));
  EXPECT_THAT(payloads_of(claim_streams()), ElementsAre("1"));
}

TEST_P(StreamContract, AClaimOfStreamsReturnsEachStreamInOrder) {
  for (int i = 1; i <= 4; ++i) {
    put("a", "a" + std::to_string(i));
    put("b", "b" + std::to_string(i));
  }
  const auto claimed = claim_streams();
  EXPECT_THAT(payloads_of(claimed), ElementsAre("a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"));
  for (const auto& each : claimed) {
    EXPECT_EQ(each.message.stream, each.message.payload.substr(0, 1));
    EXPECT_GT(each.claim.epoch, 0);
  }
}

TEST_P(StreamContract, MessagesOfOneCallAreHandledInTheOrderOfTheCall) {
  std::vector<EnqueueRequest> requests;
  for (int i = 0; i < 30; ++i) {
    requests.push_back({.topic = "t", .payload = std::to_string(i), .stream = "s"});
  }
  outbox.enqueue_many(requests);
  std::vector<std::string> expected;
  for (int i = 0; i < 30; ++i) expected.push_back(std::to_string(i));
  EXPECT_EQ(drain(), expected);
}

TEST_P(StreamContract, MessagesOfOneTransactionAreHandledInTheOrderOfItsCalls) {
  auto transaction = platform.begin();
  for (const auto* payload : {"1", "2", "3"}) {
    outbox.enqueue(transaction, {.topic = "t", .payload = payload, .stream = "s"});
  }
  transaction.commit();
  EXPECT_THAT(drain(), ElementsAre("1", "2", "3"));
}

TEST_P(StreamContract, ALeasedStreamIsReturnedToNobodyElse) {
  put_all("s", {"1", "2"});
  EXPECT_THAT(claim_streams(owner, 1), SizeIs(1));
  put("s", "3");
  EXPECT_THAT(claim_streams(other), IsEmpty());
  EXPECT_THAT(claim_streams(owner), IsEmpty());
  EXPECT_EQ(state_of("s"), StreamState::leased);
}

TEST_P(StreamContract, TheNextMessagesFollowWhenTheRunIsSettled) {
  put_all("s", {"1", "2", "3"});
  const auto first = claim_streams(2);
  EXPECT_THAT(payloads_of(first), ElementsAre("1", "2"));
  EXPECT_EQ(outbox.ack(owner, std::vector{first[0].claim}), 1U);
  EXPECT_THAT(claim_streams(other), IsEmpty());
  EXPECT_EQ(outbox.ack(owner, std::vector{first[1].claim}), 1U);
  EXPECT_THAT(payloads_of(claim_streams(other)), ElementsAre("3"));
}

TEST_P(StreamContract, ClaimsWithoutHintsAreSettled) {
  put_all("s", {"1", "2", "3"});
  EXPECT_EQ(outbox.ack(owner, bare(claim_streams(1))), 1U);
  EXPECT_EQ(outbox.snooze(owner, bare(claim_streams(1))), 1U);
  EXPECT_EQ(outbox.renew(owner, bare(claim_streams(1)), seconds{60}), 1U);
}

TEST_P(StreamContract, AClaimTakesOnlyItsTopics) {
  outbox.enqueue({.topic = "a", .payload = "1", .stream = "s"});
  outbox.enqueue({.topic = "b", .payload = "2", .stream = "s"});
  outbox.enqueue({.topic = "a", .payload = "3", .stream = "s"});
  const auto claim_topic = [&](const std::string& topic) {
    return outbox.claim_streams({.owner = owner, .topics = {topic}});
  };
  EXPECT_THAT(claim_topic("b"), IsEmpty());
  const auto first = claim_topic("a");
  EXPECT_THAT(payloads_of(first), ElementsAre("1"));
  outbox.ack(owner, claims_of(first));
  EXPECT_THAT(claim_topic("a"), IsEmpty());
  const auto second = claim_topic("b");
  EXPECT_THAT(payloads_of(second), ElementsAre("2"));
  outbox.ack(owner, claims_of(second));
  EXPECT_THAT(payloads_of(claim_topic("a")), ElementsAre("3"));
}

TEST_P(StreamContract, ManyStreamsOfForeignTopicsHideNothing) {
  std::vector<EnqueueRequest> requests;
  for (int i = 0; i < 12'000; ++i) {
    requests.push_back({.topic = "foreign", .stream = "foreign-" + std::to_string(i)});
  }
  outbox.enqueue_many(requests);
  outbox.enqueue({.topic = "own", .payload = "1", .stream = "s"});
  EXPECT_THAT(payloads_of(outbox.claim_streams({.owner = owner, .topics = {"own"}})),
              ElementsAre("1"));
}

TEST_P(StreamContract, AClaimStaysWithinItsBytesAndLosesNothing) {
  put("a", std::string(600, 'x'));
  put("a", std::string(600, 'y'));
  put("b", std::string(600, 'z'));
  std::size_t seen = 0;
  for (int i = 0; i < 3; ++i) {
    const auto claimed = outbox.claim_streams({.owner = owner, .max_bytes = 1000});
    EXPECT_THAT(claimed, SizeIs(1));
    seen += claimed.size();
    outbox.ack(owner, claims_of(claimed));
  }
  EXPECT_EQ(seen, 3U);
}

TEST_P(StreamContract, HigherPrioritiesOfOtherStreamsComeFirst) {
  outbox.enqueue({.topic = "t", .payload = "low", .priority = -5, .stream = "a"});
  outbox.enqueue({.topic = "t", .payload = "high", .priority = 5, .stream = "b"});
  EXPECT_THAT(payloads_of(claim_streams(1)), ElementsAre("high"));
}

// --- failures

TEST_P(StreamContract, AFailedMessageKeepsItsPlaceAndItsSuccessorsWait) {
  put_all("s", {"1", "2"});
  auto claimed = claim_streams();
  outbox.abandon(owner, std::vector{claimed[0].claim}, {.error = "no", .delay = seconds{5}});
  outbox.snooze(owner, std::vector{claimed[1].claim});
  put("s", "3");
  EXPECT_THAT(claim_streams(other), IsEmpty());
  backend.advance(seconds{6});
  claimed = claim_streams(other);
  EXPECT_THAT(payloads_of(claimed), ElementsAre("1", "2", "3"));
  EXPECT_EQ(claimed[0].message.attempts, 1);
  EXPECT_EQ(claimed[1].message.attempts, 0);
}

TEST_P(StreamContract, TheLastFailedAttemptBlocksTheStream) {
  const auto head = put("s", "1");
  put("s", "2");
  put("free", "x");
  auto claimed = claim_streams(owner, 1);
  ASSERT_THAT(payloads_of(claimed), ElementsAre("1"));
  EXPECT_EQ(outbox.abandon(owner, claims_of(claimed), {.error = "broken", .max_attempts = 1}), 1U);
  put("s", "3");
  EXPECT_THAT(drain(), ElementsAre("x"));
  const auto found = outbox.find_stream("s");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->state, StreamState::blocked);
  EXPECT_EQ(found->head, head);
  EXPECT_EQ(found->head_attempts, 1);
  EXPECT_EQ(found->last_error, "broken");
  EXPECT_EQ(found->messages, 3);
  EXPECT_TRUE(found->blocked_at.has_value());
  EXPECT_THAT(outbox.dead_letters(), IsEmpty());
  EXPECT_THAT(outbox.streams({.only_blocked = true}), SizeIs(1));
}

TEST_P(StreamContract, AResumedStreamRetriesItsFirstMessageAndGoesOnInOrder) {
  put_all("s", {"1", "2"});
  outbox.fail(owner, claims_of(claim_streams(1)), "broken");
  put("s", "3");
  EXPECT_THAT(drain(), IsEmpty());
  EXPECT_TRUE(outbox.resume_stream("s"));
  EXPECT_FALSE(outbox.resume_stream("s"));
  const auto claimed = claim_streams();
  EXPECT_THAT(payloads_of(claimed), ElementsAre("1", "2", "3"));
  EXPECT_EQ(claimed[0].message.attempts, 0);
}

TEST_P(StreamContract, ASkippedMessageBecomesADeadLetterAndTheStreamGoesOn) {
  put_all("s", {"1", "2"});
  outbox.fail(owner, claims_of(claim_streams(1)), "broken");
  EXPECT_TRUE(outbox.skip_stream("s"));
  EXPECT_FALSE(outbox.skip_stream("s"));
  EXPECT_THAT(drain(), ElementsAre("2"));
  const auto letters = outbox.dead_letters();
  ASSERT_THAT(letters, SizeIs(1));
  EXPECT_EQ(letters[0].last_error, "broken");
  EXPECT_EQ(letters[0].message.stream, "s");
}

TEST_P(StreamContract, AParkedMessageBecomesADeadLetterAndTheStreamGoesOn) {
  put_all("s", {"1", "2"});
  outbox.fail(owner, claims_of(claim_streams(1)), "broken", StreamFailure::park);
  EXPECT_THAT(drain(), ElementsAre("2"));
  EXPECT_THAT(outbox.dead_letters(), SizeIs(1));
}

TEST_P(StreamContract, AMessageThatSkipsTheOrderIsRetriedBesideItsStream) {
  put_all("s", {"1", "2"});
  outbox.fail(owner, claims_of(claim_streams(1)), "broken", StreamFailure::skip_order);
  EXPECT_THAT(drain(), ElementsAre("2"));
  backend.advance(seconds{70});
  const auto claimed = claim();
  ASSERT_THAT(payloads_of(claimed), ElementsAre("1"));
  EXPECT_EQ(claimed[0].message.attempts, 0);
  EXPECT_EQ(found(claimed[0].message.id).past_attempts, 1);
}

TEST_P(StreamContract, AReplayedDeadLetterGoesToTheEndOfItsStream) {
  put_all("s", {"1", "2"});
  outbox.fail(owner, claims_of(claim_streams(1)), "broken", StreamFailure::park);
  EXPECT_EQ(outbox.replay(DeadLetterFilter{}), 1U);
  EXPECT_THAT(drain(), ElementsAre("2", "1"));
}

// --- leases

TEST_P(StreamContract, AnExpiredLeaseIsChargedToTheFirstMessageAlone) {
  put_all("s", {"1", "2"});
  const auto lost = claim_streams(owner, 100, seconds{10});
  backend.advance(seconds{11});
  auto claimed = claim_streams(other);
  // The first message may have killed its worker: the claim returns only this message.
  EXPECT_THAT(payloads_of(claimed), ElementsAre("1"));
  EXPECT_EQ(claimed[0].message.attempts, 1);
  EXPECT_GT(claimed[0].claim.epoch, lost[0].claim.epoch);
  EXPECT_EQ(outbox.ack(other, claims_of(claimed)), 1U);
  claimed = claim_streams(other);
  EXPECT_THAT(payloads_of(claimed), ElementsAre("2"));
  EXPECT_EQ(claimed[0].message.attempts, 0);
}

TEST_P(StreamContract, AnOwnerWhoseLeaseExpiredChangesNothing) {
  put_all("s", {"1", "2"});
  const auto lost = claims_of(claim_streams(owner, 100, seconds{10}));
  backend.advance(seconds{11});
  const auto held = claims_of(claim_streams(other));
  EXPECT_EQ(outbox.ack(owner, lost), 0U);
  EXPECT_EQ(outbox.abandon(owner, lost), 0U);
  EXPECT_EQ(outbox.fail(owner, lost, "late"), 0U);
  EXPECT_EQ(outbox.snooze(owner, lost), 0U);
  EXPECT_EQ(outbox.renew(owner, lost, seconds{10}), 0U);
  EXPECT_EQ(outbox.ack(other, held), 1U);
}

TEST_P(StreamContract, ARenewedLeaseLasts) {
  put_all("s", {"1", "2"});
  const auto claims = claims_of(claim_streams(owner, 100, seconds{10}));
  backend.advance(seconds{8});
  EXPECT_EQ(outbox.renew(owner, std::vector{claims[1]}, seconds{10}), 1U);
  backend.advance(seconds{8});
  EXPECT_THAT(claim_streams(other), IsEmpty());
  EXPECT_EQ(outbox.ack(owner, claims), 2U);
}

TEST_P(StreamContract, AMessageThatKillsItsWorkersBlocksItsStreamInTheEnd) {
  put_all("s", {"1", "2"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(claim_streams(OwnerToken::generate(), 1, seconds{10}), SizeIs(1));
    backend.advance(seconds{11});
  }
  EXPECT_THAT(outbox.claim_streams({.owner = other, .max_attempts = 3}), IsEmpty());
  EXPECT_EQ(state_of("s"), StreamState::blocked);
}

TEST_P(StreamContract, ReapingReturnsStreamsWhoseLeasesExpired) {
  put("s", "1");
  EXPECT_THAT(claim_streams(owner, 1, seconds{10}), SizeIs(1));
  backend.advance(seconds{11});
  EXPECT_EQ(outbox.reap_expired(), 1U);
  EXPECT_EQ(state_of("s"), StreamState::ready);
  EXPECT_THAT(claim_streams(other), SizeIs(1));
}

TEST_P(StreamContract, ASecondSettlementOfTheSameClaimChangesNothing) {
  put_all("s", {"1", "2", "3"});
  const auto claimed = claim_streams();
  const std::vector behind{claimed[1].claim, claimed[2].claim};
  EXPECT_EQ(outbox.snooze(owner, behind), 2U);
  EXPECT_EQ(outbox.snooze(owner, behind), 0U);
  EXPECT_EQ(outbox.ack(owner, behind), 0U);
  EXPECT_EQ(outbox.abandon(owner, behind), 0U);
  EXPECT_THAT(claim_streams(other), IsEmpty()) << "the first message is still with its owner";
  EXPECT_EQ(outbox.ack(owner, std::vector{claimed[0].claim}), 1U);
  EXPECT_THAT(payloads_of(claim_streams(other)), ElementsAre("2", "3"));
}

TEST_P(StreamContract, AMessageThatIsSettledOutOfOrderIsNotForgotten) {
  put_all("s", {"1", "2"});
  const auto claimed = claim_streams();
  EXPECT_EQ(outbox.abandon(owner, std::vector{claimed[0].claim}, {.delay = seconds{0}}), 1U);
  EXPECT_EQ(outbox.ack(owner, std::vector{claimed[1].claim}), 1U);
  EXPECT_THAT(drain(), ElementsAre("1"));
}

TEST_P(StreamContract, AMessageThatLostItsLeaseDoesNotFollowAnotherOne) {
  put_all("s", {"1", "2"});
  auto claimed = claim_streams();
  outbox.ack(owner, std::vector{claimed[0].claim});
  backend.advance(seconds{31});
  EXPECT_EQ(outbox.reap_expired(), 1U);
  EXPECT_THAT(payloads_of(claim_streams(other)), ElementsAre("2"));
}

TEST_P(StreamContract, AClaimNeverReturnsMoreThanItsBatch) {
  for (int i = 0; i < 300; ++i) put("s" + std::to_string(i), "1");
  EXPECT_THAT(claim_streams(owner, 250), SizeIs(250));
  for (int i = 0; i < 250; ++i) {
    outbox.enqueue(
        {.topic = "t", .payload = "2", .priority = 5, .stream = "s" + std::to_string(i)});
  }
  EXPECT_THAT(claim_streams(other, 20), SizeIs(20));
}

// --- times, pauses, expiry

TEST_P(StreamContract, AMessageThatIsNotDueYetDelaysItsSuccessors) {
  outbox.enqueue({.topic = "t", .payload = "1", .delay = seconds{60}, .stream = "s"});
  put("s", "2");
  EXPECT_THAT(drain(), IsEmpty());
  backend.advance(seconds{61});
  EXPECT_THAT(drain(), ElementsAre("1", "2"));
}

TEST_P(StreamContract, APausedTopicStopsItsStreamUntilItIsResumed) {
  put("s", "1");
  outbox.enqueue({.topic = "paused", .payload = "2", .stream = "s"});
  put("s", "3");
  outbox.pause("paused");
  EXPECT_THAT(drain(), ElementsAre("1"));
  put("s", "4");
  EXPECT_THAT(drain(), IsEmpty());
  outbox.resume("paused");
  EXPECT_THAT(drain(), ElementsAre("2", "3", "4"));
}

TEST_P(StreamContract, AnExpiredMessageFailsAndItsStreamGoesOn) {
  outbox.enqueue(
      {.topic = "t", .payload = "1", .expires_at = backend.now() + seconds{5}, .stream = "s"});
  put("s", "2");
  backend.advance(seconds{6});
  EXPECT_THAT(drain(), ElementsAre("2"));
  EXPECT_THAT(outbox.dead_letters(), SizeIs(1));
}

// --- operation

TEST_P(StreamContract, CountsContainTheMessagesOfStreams) {
  put_all("a", {"1", "2"});
  put_all("b", {"1"});
  outbox.enqueue({.topic = "t", .delay = seconds{60}, .stream = "c"});
  auto counts = outbox.counts();
  EXPECT_EQ(counts.ready, 3);
  EXPECT_EQ(counts.scheduled, 1);
  const auto claimed = claim_streams();
  EXPECT_EQ(claimed.size(), 3U);
  counts = outbox.counts();
  EXPECT_EQ(counts.ready, 0);
  EXPECT_EQ(counts.in_progress, 3);
  EXPECT_EQ(with_status(MessageStatus::in_progress), 3);
  outbox.ack(owner, claims_of(claimed));
  EXPECT_EQ(outbox.counts().done, 3);
}

TEST_P(StreamContract, StreamsAreListedByNameInPages) {
  for (const auto* stream : {"c", "a", "b"}) put(stream, "1");
  EXPECT_THAT(claim_streams(1), SizeIs(1));
  const auto page = outbox.streams({.size = 2});
  ASSERT_THAT(page, SizeIs(2));
  EXPECT_EQ(page[0].stream, "a");
  EXPECT_EQ(page[1].stream, "b");
  const auto rest = outbox.streams({.after = "b"});
  ASSERT_THAT(rest, SizeIs(1));
  EXPECT_EQ(rest[0].stream, "c");
  EXPECT_EQ(rest[0].state, StreamState::leased);
  EXPECT_EQ(rest[0].owner, owner);
  EXPECT_FALSE(outbox.find_stream("nothing").has_value());
}

TEST_P(StreamContract, AStreamWithoutMessagesLeavesNothingBehind) {
  for (int i = 0; i < 20; ++i) put("s" + std::to_string(i), "1");
  EXPECT_THAT(drain(), SizeIs(20));
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_stream")), 0);
}

TEST_P(StreamContract, BadStreamsAreRefusedBeforeAnyWrite) {
  EXPECT_THROW(put(std::string(256, 's'), "1"), std::invalid_argument);
  EXPECT_THROW(put(std::string("a\0b", 3), "1"), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(outbox.find_stream("")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(outbox.streams({.size = 0})), std::out_of_range);
  EXPECT_EQ(stored(), 0);
  put("", "free");
  EXPECT_THAT(payloads_of(claim()), ElementsAre("free"));
}

TEST_P(StreamContract, HostileNamesOfStreamsAreNamesLikeOthers) {
  const std::string name = "'; drop table x; -- {schema} \xF0\x9F\x92\xA9 \" \\";
  put(name, "1");
  const auto claimed = claim_streams();
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.stream, name);
  EXPECT_TRUE(outbox.find_stream(name).has_value());
}

TEST_P(StreamContract, AKnownIdOfAStreamIsStoredOnce) {
  const auto id = MessageId::generate();
  const EnqueueRequest request{.topic = "t", .payload = "1", .message_id = id, .stream = "s"};
  EXPECT_TRUE(outbox.enqueue(request).stored());
  EXPECT_FALSE(outbox.enqueue(request).stored());
  EXPECT_THAT(drain(), ElementsAre("1"));
  EXPECT_FALSE(outbox.enqueue(request).stored());
  EXPECT_THAT(drain(), IsEmpty());
}

}  // namespace
}  // namespace dovetail::testing
