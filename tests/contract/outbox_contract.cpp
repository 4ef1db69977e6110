// The guarantees of the outbox, on both engines.
#include <algorithm>
#include <set>
#include <thread>

#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

class OutboxContract : public OutboxTest {
 protected:
  template <class Failure>
  void expect_refused(const EnqueueRequest& request, const std::string& reason) {
    try {
      outbox.enqueue(request);
      ADD_FAILURE() << "accepted; expected: " << reason;
    } catch (const Failure& error) {
      EXPECT_THAT(error.what(), HasSubstr(reason));
    }
    EXPECT_EQ(stored(), 0);
  }
};
DOVETAIL_CONTRACT(OutboxContract);

// --- enqueue

TEST_P(OutboxContract, OBX_001_AnEnqueuedMessageIsInTheTable) {
  outbox.enqueue({.topic = "order.created", .payload = R"({"id":1})"});
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_messages") +
                           " where topic = 'order.created'"),
            1);
}

TEST_P(OutboxContract, OBX_002_StandaloneEnqueueIsCommittedOnReturn) {
  const auto id = outbox.enqueue({.topic = "t"});
  auto another = backend.open();
  const auto seen = another.outbox().claim({.owner = owner});
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_EQ(seen[0].message.message_id, id);
}

TEST_P(OutboxContract, AMessageOfAnOwnTransactionAppearsWithItsCommit) {
  auto transaction = platform.begin();
  outbox.enqueue(transaction, {.topic = "t"});
  EXPECT_EQ(stored(), 0);
  transaction.commit();
  EXPECT_EQ(stored(), 1);
}

TEST_P(OutboxContract, AMessageOfARolledBackTransactionNeverExisted) {
  {
    auto transaction = platform.begin();
    outbox.enqueue(transaction, {.topic = "t"});
    transaction.rollback();
  }
  {
    auto forgotten = platform.begin();
    outbox.enqueue(forgotten, {.topic = "t"});
  }
  EXPECT_EQ(stored(), 0);
}

TEST_P(OutboxContract, OBX_003_ABorrowedTransactionIsLeftToItsOwner) {
  UserConnection user(backend);
  for (const char* end : {"rollback", "commit"}) {
    user.execute(backend.is_postgres() ? "begin" : "begin immediate");
    {
      auto transaction = user.borrow();
      outbox.enqueue(transaction, {.topic = "t"});
      EXPECT_THROW(transaction.commit(), InvalidOperation);
      EXPECT_THROW(transaction.rollback(), InvalidOperation);
    }
    EXPECT_EQ(stored(), 0) << "committed by us";
    user.execute(end);
  }
  EXPECT_EQ(stored(), 1);
}

TEST_P(OutboxContract, UserRowsAndMessagesCommitTogether) {
  backend.sql("create table " + backend.table("orders") + " (id integer primary key, note text)");
  auto transaction = platform.begin();
  transaction.execute("insert into " + backend.table("orders") + " (id, note) values ($1, $2)", 7,
                      "seven");
  outbox.enqueue(transaction, {.topic = "order.created", .payload = "7"});
  transaction.commit();
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("orders")), 1);
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(OutboxContract, OBX_004_AnEmptyTopicIsRefused) {
  expect_refused<std::invalid_argument>({.topic = ""}, "topic must not be empty");
}

TEST_P(OutboxContract, OBX_006_AnEmptyPayloadIsAccepted) {
  outbox.enqueue({.topic = "t", .payload = ""});
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.payload, "");
}

TEST_P(OutboxContract, OBX_007_ATopicHoldsAtMost255Characters) {
  std::string longest;
  for (int i = 0; i < 255; ++i) longest += "ü";
  expect_refused<std::invalid_argument>({.topic = longest + "x"},
                                        "topic must not exceed 255 characters, got 256");
  outbox.enqueue({.topic = longest});
  EXPECT_EQ(claim().at(0).message.topic, longest);
}

TEST_P(OutboxContract, OBX_008_AnEmptyCorrelationIdIsStoredAsNone) {
  outbox.enqueue({.topic = "t", .correlation_id = ""});
  EXPECT_EQ(claim().at(0).message.correlation_id, std::nullopt);
}

TEST_P(OutboxContract, OBX_009_ACorrelationIdHoldsAtMost255Characters) {
  expect_refused<std::invalid_argument>({.topic = "t", .correlation_id = std::string(256, 'c')},
                                        "correlation_id must not exceed 255 characters");
  outbox.enqueue({.topic = "t", .correlation_id = std::string(255, 'c')});
  EXPECT_EQ(claim().at(0).message.correlation_id, std::string(255, 'c'));
}

TEST_P(OutboxContract, OBX_010_TopicsAreCaseSensitive) {
  outbox.enqueue({.topic = "Order.Created"});
  outbox.enqueue({.topic = "order.created"});
  std::set<std::string> topics;
  for (const auto& each : claim()) topics.insert(each.message.topic);
  EXPECT_THAT(topics, ElementsAre("Order.Created", "order.created"));
}

TEST_P(OutboxContract, OBX_011_PayloadsAreHandedThroughUnchanged) {
  const std::string hostile = "'; drop table outbox; -- \" \\ \r\n\t € 😀 $1 ?1 {schema} not json {";
  outbox.enqueue({.topic = hostile, .payload = hostile, .correlation_id = hostile});
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.topic, hostile);
  EXPECT_EQ(claimed[0].message.payload, hostile);
  EXPECT_EQ(claimed[0].message.correlation_id, hostile);
}

TEST_P(OutboxContract, TextThatIsNotUtf8IsRefusedBeforeAnyIo) {
  expect_refused<std::invalid_argument>({.topic = "\xFF"}, "topic must be valid UTF-8");
  expect_refused<std::invalid_argument>({.topic = "t", .payload = "a\xC0\xAF"},
                                        "payload must be valid UTF-8");
  expect_refused<std::invalid_argument>({.topic = "t", .payload = std::string{"a\0b", 3}},
                                        "without NUL");
  expect_refused<std::invalid_argument>({.topic = "t", .correlation_id = "\xED\xA0\x80"},
                                        "correlation_id must be");
}

TEST_P(OutboxContract, APayloadAboveTheLimitIsRefusedBeforeAnyIo) {
  expect_refused<std::invalid_argument>({.topic = "t", .payload = std::string((1 << 20) + 1, 'x')},
                                        "payload must not exceed 1048576 bytes, got 1048577");
  outbox.enqueue({.topic = "t", .payload = std::string(1 << 20, 'x')});
  EXPECT_THAT(claim().at(0).message.payload, SizeIs(1 << 20));
}

TEST_P(OutboxContract, ThePayloadLimitCanBeRaisedUpTo64Mebibytes) {
  auto options = backend.options();
  options.outbox.max_payload_bytes = (std::size_t{64} << 20) + 1;
  EXPECT_THROW((void)Platform::open(backend.url(), options), std::out_of_range);
  options.outbox.max_payload_bytes = std::size_t{4} << 20;
  auto generous = Platform::open(backend.url(), options);
  generous.outbox().enqueue({.topic = "t", .payload = std::string(std::size_t{3} << 20, 'y')});
  EXPECT_THAT(claim().at(0).message.payload, SizeIs(std::size_t{3} << 20));
}

TEST_P(OutboxContract, ADueTimeOutsideTheCalendarIsRefused) {
  expect_refused<std::out_of_range>({.topic = "t", .due_at = WallTime::max()},
                                    "due_at must lie in the years 1 to 9999");
  expect_refused<std::out_of_range>({.topic = "t", .due_at = WallTime::min()},
                                    "due_at must lie in the years 1 to 9999");
}

TEST_P(OutboxContract, OBX_012_OBX_018_AMessageIsNotClaimedBeforeItIsDue) {
  const auto now = backend.now();
  outbox.enqueue({.topic = "later", .due_at = now + seconds{60}});
  EXPECT_THAT(claim(), IsEmpty());
  backend.advance(seconds{59});
  EXPECT_THAT(claim(), IsEmpty());
  backend.advance(seconds{2});
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(OutboxContract, OBX_013_AMessageDueInThePastIsClaimedAtOnce) {
  outbox.enqueue({.topic = "t", .due_at = WallTime{seconds{1}}});
  outbox.enqueue({.topic = "t"});
  EXPECT_THAT(claim(), SizeIs(2));
}

TEST_P(OutboxContract, OBX_014_EveryMessageHasAnIdOfItsOwn) {
  std::set<MessageId> ids;
  for (int i = 0; i < 50; ++i) ids.insert(outbox.enqueue({.topic = "t"}));
  EXPECT_THAT(ids, SizeIs(50));
  std::set<MessageId> claimed;
  for (const auto& each : claim()) claimed.insert(each.message.message_id);
  EXPECT_EQ(claimed, ids);
}

TEST_P(OutboxContract, OBX_015_TheCreationTimeIsTheDatabases) {
  backend.advance(std::chrono::hours{1000});
  const auto before = backend.now();
  outbox.enqueue({.topic = "t"});
  const auto created = claim().at(0).message.created_at;
  EXPECT_GE(created, before);
  EXPECT_LT(created, before + seconds{60});
}

TEST_P(OutboxContract, OBX_016_ANewMessageStartsReadyWithoutAttempts) {
  outbox.enqueue({.topic = "t"});
  EXPECT_EQ(with_status(MessageStatus::ready), 1);
  EXPECT_EQ(claim().at(0).message.attempts, 0);
}

TEST_P(OutboxContract, ARepeatedEnqueueWithTheSameIdStoresItOnce) {
  const EnqueueRequest request{
      .topic = "t", .payload = "first", .message_id = MessageId::generate()};
  EXPECT_EQ(outbox.enqueue(request), *request.message_id);
  EXPECT_EQ(outbox.enqueue(request), *request.message_id);
  auto changed = request;
  changed.payload = "second";
  outbox.enqueue(changed);
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.payload, "first");
}

TEST_P(OutboxContract, ManyMessagesAreStoredInOneCall) {
  std::vector<EnqueueRequest> requests;
  for (int i = 0; i < 3'000; ++i) {
    requests.push_back({.topic = "t" + std::to_string(i % 7), .payload = std::to_string(i)});
    if (i % 3 == 0) requests.back().correlation_id = "c" + std::to_string(i);
    if (i % 10 == 9) requests.back().due_at = backend.now() + std::chrono::hours{1};
  }
  const auto ids = outbox.enqueue_many(requests);
  ASSERT_THAT(ids, SizeIs(requests.size()));
  EXPECT_EQ(stored(), 3'000);
  const auto claimed = outbox.claim({.owner = owner, .batch_size = 5'000});
  ASSERT_THAT(claimed, SizeIs(2'700));
  for (const auto& each : claimed) {
    const auto index = static_cast<std::size_t>(std::stoi(each.message.payload));
    EXPECT_EQ(each.message.message_id, ids[index]);
    EXPECT_EQ(each.message.topic, requests[index].topic);
    EXPECT_EQ(each.message.correlation_id, requests[index].correlation_id);
  }
}

TEST_P(OutboxContract, ManyMessagesAreStoredInTheCallersTransactionOrNotAtAll) {
  const std::vector<EnqueueRequest> requests{{.topic = "a"},
                                             {.topic = "b", .due_at = backend.now()}};
  {
    auto transaction = platform.begin();
    outbox.enqueue_many(transaction, requests);
    transaction.rollback();
  }
  EXPECT_EQ(stored(), 0);
  UserConnection user(backend);
  user.execute(backend.is_postgres() ? "begin" : "begin immediate");
  {
    auto transaction = user.borrow();
    outbox.enqueue_many(transaction, requests);
  }
  user.execute("commit");
  EXPECT_EQ(stored(), 2);
}

TEST_P(OutboxContract, OneBadRequestAmongManyStoresNone) {
  const std::vector<EnqueueRequest> requests{{.topic = "good"}, {.topic = ""}};
  EXPECT_THROW(outbox.enqueue_many(requests), std::invalid_argument);
  EXPECT_EQ(stored(), 0);
  EXPECT_THAT(outbox.enqueue_many(std::vector<EnqueueRequest>{}), IsEmpty());
}

TEST_P(OutboxContract, ManyRepeatedMessagesAreStoredOnce) {
  std::vector<EnqueueRequest> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(
        {.topic = "t", .payload = std::to_string(i), .message_id = MessageId::generate()});
  }
  outbox.enqueue_many(std::span{requests}.first(10));
  outbox.enqueue_many(requests);
  EXPECT_EQ(stored(), 20);
}

// --- claim

TEST_P(OutboxContract, OBX_020_TheLeaseEndsAfterItsLengthByTheDatabasesClock) {
  outbox.enqueue({.topic = "t"});
  const auto before = backend.now();
  const auto claimed = claim(1, seconds{90});
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_GE(claimed[0].lease_until, before + seconds{90});
  EXPECT_LT(claimed[0].lease_until, before + seconds{150});
}

TEST_P(OutboxContract, OBX_019_ALeasedMessageIsNotClaimedAgain) {
  outbox.enqueue({.topic = "t"});
  ASSERT_THAT(claim(), SizeIs(1));
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_THAT(claim_as(OwnerToken::generate()), IsEmpty());
}

TEST_P(OutboxContract, OBX_021_TheClaimIsRecordedForItsOwner) {
  outbox.enqueue({.topic = "t"});
  const auto claimed = claim();
  EXPECT_EQ(outbox.ack(OwnerToken::generate(), claims_of(claimed)), 0U);
  EXPECT_EQ(outbox.ack(owner, claims_of(claimed)), 1U);
}

TEST_P(OutboxContract, OBX_022_TheClaimReturnsEveryMessageItLeased) {
  std::vector<MessageId> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(outbox.enqueue({.topic = "t"}));
  std::vector<MessageId> claimed;
  for (const auto& each : claim()) claimed.push_back(each.message.message_id);
  EXPECT_THAT(claimed, UnorderedElementsAreArray(ids));
  EXPECT_EQ(with_status(MessageStatus::in_progress), 5);
}

TEST_P(OutboxContract, OBX_023_AnEmptyOutboxAnswersWithNothing) {
  EXPECT_THAT(claim(), IsEmpty());
}

TEST_P(OutboxContract, OBX_026_AClaimNeverExceedsTheBatchSize) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(25, {.topic = "t"}));
  EXPECT_THAT(claim(10), SizeIs(10));
  EXPECT_EQ(with_status(MessageStatus::in_progress), 10);
  EXPECT_THAT(claim(10), SizeIs(10));
  EXPECT_THAT(claim(10), SizeIs(5));
}

TEST_P(OutboxContract, AClaimMixesExpiredAndReadyMessagesWithinTheBatchSize) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(6, {.topic = "old"}));
  ASSERT_THAT(claim(4, seconds{10}), SizeIs(4));
  backend.advance(seconds{11});
  const auto claimed = claim(5);
  ASSERT_THAT(claimed, SizeIs(5));
  EXPECT_EQ(
      std::ranges::count_if(claimed, [](const auto& each) { return each.message.attempts == 1; }),
      4);
  EXPECT_EQ(with_status(MessageStatus::ready), 1);
}

TEST_P(OutboxContract, ClaimsOutOfRangeAreRefusedBeforeAnyIo) {
  EXPECT_THROW((void)outbox.claim({.owner = OwnerToken{}}), std::invalid_argument);
  EXPECT_THROW((void)outbox.claim({.owner = owner, .batch_size = 0}), std::out_of_range);
  EXPECT_THROW((void)outbox.claim({.owner = owner, .batch_size = 10'001}), std::out_of_range);
  EXPECT_THROW((void)outbox.claim({.owner = owner, .lease = milliseconds{0}}), std::out_of_range);
  EXPECT_THROW((void)outbox.claim({.owner = owner, .lease = std::chrono::hours{25}}),
               std::out_of_range);
}

TEST_P(OutboxContract, OldestMessagesAreClaimedFirst) {
  const auto now = backend.now();
  outbox.enqueue({.topic = "third", .due_at = now + seconds{30}});
  outbox.enqueue({.topic = "first", .due_at = now + seconds{10}});
  outbox.enqueue({.topic = "second", .due_at = now + seconds{20}});
  backend.advance(seconds{60});
  const auto claimed = claim(2);
  ASSERT_THAT(claimed, SizeIs(2));
  EXPECT_EQ(claimed[0].message.topic, "first");
  EXPECT_EQ(claimed[1].message.topic, "second");
}

TEST_P(OutboxContract, OBX_100_OBX_101_ConcurrentWorkersShareTheWorkWithoutOverlap) {
  constexpr int messages = 600;
  outbox.enqueue_many(std::vector<EnqueueRequest>(messages, {.topic = "t"}));
  std::mutex mutex;
  std::vector<MessageId> seen;
  std::atomic<std::size_t> acked{0};
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 6; ++i) {
      workers.emplace_back([&] {
        const auto me = OwnerToken::generate();
        for (;;) {
          const auto claimed = outbox.claim({.owner = me, .batch_size = 7, .lease = seconds{60}});
          if (claimed.empty()) return;
          acked += outbox.ack(me, claims_of(claimed));
          std::lock_guard lock(mutex);
          for (const auto& each : claimed) seen.push_back(each.message.id);
        }
      });
    }
  }
  EXPECT_THAT(seen, SizeIs(messages));
  EXPECT_THAT((std::set<MessageId>(seen.begin(), seen.end())), SizeIs(messages));
  EXPECT_EQ(acked, messages);
  EXPECT_EQ(with_status(MessageStatus::done), messages);
}

// --- ack

TEST_P(OutboxContract, OBX_027_OBX_028_OBX_029_AnAckRecordsThatWhenAndByWhomItWasDone) {
  outbox.enqueue({.topic = "t"});
  EXPECT_EQ(outbox.ack(owner, claims_of(claim())), 1U);
  EXPECT_EQ(backend.number(
                "select count(*) from " + backend.table("outbox_messages") +
                " where status = 2 and processed_at >= created_at and processed_by is not null" +
                " and owner_token is null and locked_until is null"),
            1);
}

TEST_P(OutboxContract, OBX_031_AckIgnoresUnknownIds) {
  outbox.enqueue({.topic = "t"});
  auto claims = claims_of(claim());
  claims.push_back({MessageId::generate(), 1});
  EXPECT_EQ(outbox.ack(owner, claims), 1U);
  EXPECT_EQ(outbox.ack(owner, std::vector<Claim>{}), 0U);
}

TEST_P(OutboxContract, OBX_030_AckIgnoresClaimsOfAnotherOwner) {
  outbox.enqueue({.topic = "t"});
  const auto claims = claims_of(claim());
  EXPECT_EQ(outbox.ack(OwnerToken::generate(), claims), 0U);
  EXPECT_EQ(with_status(MessageStatus::in_progress), 1);
}

TEST_P(OutboxContract, OBX_032_AnAckedMessageIsNeverClaimedAgain) {
  outbox.enqueue({.topic = "t"});
  outbox.ack(owner, claims_of(claim()));
  backend.advance(std::chrono::hours{48});
  EXPECT_THAT(claim(), IsEmpty());
}

TEST_P(OutboxContract, OneClaimIsAckedOnce) {
  outbox.enqueue({.topic = "t"});
  const auto claims = claims_of(claim());
  const std::vector<Claim> twice{claims[0], claims[0]};
  EXPECT_EQ(outbox.ack(owner, twice), 1U);
  EXPECT_EQ(outbox.ack(owner, claims), 0U);
}

TEST_P(OutboxContract, AZombieChangesNothingOnceItsLeaseRanOut) {
  outbox.enqueue({.topic = "t"});
  const auto zombie = claim(1, seconds{10});
  backend.advance(seconds{11});
  EXPECT_EQ(outbox.ack(owner, claims_of(zombie)), 0U)
      << "expired, though nobody has taken it over yet";

  const auto successor = OwnerToken::generate();
  const auto taken = claim_as(successor);
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_GT(taken[0].claim.epoch, zombie[0].claim.epoch);
  EXPECT_EQ(taken[0].message.attempts, 1) << "an expired lease is charged";
  EXPECT_EQ(outbox.ack(owner, claims_of(zombie)), 0U);
  EXPECT_EQ(outbox.ack(successor, claims_of(taken)), 1U);
}

TEST_P(OutboxContract, AnOlderEpochOfTheSameOwnerIsIgnored) {
  outbox.enqueue({.topic = "t"});
  const auto first = claim(1, seconds{10});
  backend.advance(seconds{11});
  const auto second = claim(1, seconds{10});
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(outbox.ack(owner, claims_of(first)), 0U);
  EXPECT_EQ(outbox.ack(owner, claims_of(second)), 1U);
}

TEST_P(OutboxContract, OBX_121_ThePlatformHasOneOutbox) {
  EXPECT_EQ(&platform.outbox(), &platform.outbox());
}

// --- counts

TEST_P(OutboxContract, CountsTellHowManyMessagesAreInWhichState) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(6, {.topic = "t"}));
  outbox.enqueue({.topic = "t", .due_at = backend.now() + std::chrono::hours{1}});
  const auto claimed = claim(3);
  outbox.ack(owner, std::vector<Claim>{claimed[0].claim});
  backend.advance(seconds{5});
  const auto counts = outbox.counts();
  EXPECT_EQ(counts.ready, 3);
  EXPECT_EQ(counts.scheduled, 1);
  EXPECT_EQ(counts.in_progress, 2);
  EXPECT_EQ(counts.done, 1);
  EXPECT_EQ(counts.failed, 0);
  ASSERT_TRUE(counts.oldest_due.has_value());
  EXPECT_GE(*counts.oldest_due, seconds{5});
}

}  // namespace
}  // namespace dovetail::testing
