// The composite call of the work coordinator: storing, results, leases and events.
#include <map>

#include "support/work_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class CoordinatorContract : public WorkTest {};
DOVETAIL_CONTRACT(CoordinatorContract);

// --- storing and deduplication

TEST_P(CoordinatorContract, AnEmptyBatchDoesNothing) {
  const auto result = work.process_work_batch({});
  EXPECT_EQ(result.completed, 0U);
  EXPECT_THAT(result.work, IsEmpty());
  EXPECT_FALSE(result.share.has_value());
}

TEST_P(CoordinatorContract, StoringDoesNotClaim) {
  const auto result = store_outbox({message("a"), message("b", "s1")});
  EXPECT_THAT(result.outbox, SizeIs(2));
  EXPECT_TRUE(result.outbox[0].stored());
  EXPECT_THAT(result.work, IsEmpty());
  EXPECT_EQ(platform.outbox().counts().in_progress, 0);
  EXPECT_THAT(payloads(claim()), UnorderedElementsAre("a", "b"));
}

TEST_P(CoordinatorContract, AClaimLeasesExactlyWhatItReturns) {
  store_outbox({message("a"), message("b"), message("c"), message("d", "s"), message("e", "s")});
  const auto claimed = claim({}, 2);
  EXPECT_THAT(claimed, SizeIs(2));
  EXPECT_EQ(platform.outbox().counts().in_progress, 2);
}

TEST_P(CoordinatorContract, AMessageOfTheOutboxIsStoredOncePerId) {
  const auto id = MessageId::generate();
  auto request = message("once");
  request.message_id = id;
  const auto result = store_outbox({request, request});
  EXPECT_EQ(result.outbox[0].outcome, StoreOutcome::stored);
  EXPECT_EQ(result.outbox[1].outcome, StoreOutcome::duplicate);
  EXPECT_EQ(result.outbox[1].id, id);
  EXPECT_EQ(store_outbox({request}).outbox[0].outcome, StoreOutcome::duplicate);
  EXPECT_THAT(claim(), SizeIs(1));
}

TEST_P(CoordinatorContract, AMessageOfTheInboxIsStoredOncePerSourceAndId) {
  EXPECT_EQ(store_inbox("1").inbox[0].outcome, StoreOutcome::stored);
  EXPECT_EQ(store_inbox("1").inbox[0].outcome, StoreOutcome::duplicate);
  auto other = inbox_request("1");
  other.source = "other";
  const auto result = work.process_work_batch(
      {.inbox_messages = {
           {.message = other}, {.message = other}, {.message = inbox_request("2")}}});
  EXPECT_EQ(result.inbox[0].outcome, StoreOutcome::stored);
  EXPECT_EQ(result.inbox[1].outcome, StoreOutcome::duplicate);
  EXPECT_EQ(result.inbox[2].outcome, StoreOutcome::stored);
}

TEST_P(CoordinatorContract, AKnownMessageWithOtherContentIsRefused) {
  auto request = inbox_request("1");
  request.hash = Bytes(32, std::byte{1});
  work.process_work_batch({.inbox_messages = {{.message = request}}});
  request.hash = Bytes(32, std::byte{2});
  const auto result = work.process_work_batch({.inbox_messages = {{.message = request}}});
  EXPECT_EQ(result.inbox[0].outcome, StoreOutcome::hash_mismatch);
}

TEST_P(CoordinatorContract, WorkIsReturnedForAStoredMessageIfItIsNoDuplicate) {
  const auto first = store_inbox("1", true);
  ASSERT_THAT(first.work, SizeIs(1));
  EXPECT_TRUE(first.work[0].newly_stored);
  EXPECT_FALSE(first.work[0].orphaned);
  EXPECT_EQ(first.work[0].inbox_message().message_id, "1");
  EXPECT_EQ(first.work[0].inbox_message().source, "s");
  EXPECT_THAT(store_inbox("1", true).work, IsEmpty());
  complete(first.work);
  EXPECT_THAT(store_inbox("1", true).work, IsEmpty());
  EXPECT_EQ(platform.inbox().find("s", "1")->status, InboxStatus::processed);
}

TEST_P(CoordinatorContract, AClaimOfStoredMessagesLeavesOthersAlone) {
  store_inbox("waiting");
  const auto result = store_inbox("mine", true);
  ASSERT_THAT(result.work, SizeIs(1));
  EXPECT_EQ(result.work[0].message.payload, "payload of mine");
  EXPECT_THAT(payloads(claim_inbox()), ElementsAre("payload of waiting"));
}

TEST_P(CoordinatorContract, EarlierMessagesOfAStreamComeBeforeAStoredOne) {
  work.process_work_batch({.inbox_messages = {{.message = inbox_request("1", "s1")}}});
  const auto result =
      work.process_work_batch({.inbox_messages = {{.message = inbox_request("2", "s1")}},
                               .claim_inbox = WorkClaim{.stored_only = true}});
  EXPECT_THAT(payloads(result.work), ElementsAre("payload of 1", "payload of 2"));
  EXPECT_FALSE(result.work[0].newly_stored);
  EXPECT_TRUE(result.work[1].newly_stored);
  // The stream is leased: the next message waits.
  const auto later =
      work.process_work_batch({.inbox_messages = {{.message = inbox_request("3", "s1")}},
                               .claim_inbox = WorkClaim{.stored_only = true}});
  EXPECT_TRUE(later.inbox[0].stored());
  EXPECT_THAT(later.work, IsEmpty());
}

TEST_P(CoordinatorContract, AllFieldsOfAMessageSurvive) {
  const std::string hostile = "'; drop table x; -- \\ \" \n \t é 😀 {}[]";
  EnqueueRequest request{.topic = hostile,
                         .payload = hostile,
                         .correlation_id = hostile,
                         .headers = {{hostile, hostile}},
                         .expires_at = backend.now() + std::chrono::hours{1},
                         .priority = 3,
                         .stream = hostile};
  const auto stored = store_outbox({request});
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(1));
  const auto& got = claimed[0].message;
  EXPECT_EQ(got.id, *stored.outbox[0].id);
  EXPECT_EQ(got.topic, hostile);
  EXPECT_EQ(got.payload, hostile);
  EXPECT_EQ(got.correlation_id, hostile);
  EXPECT_EQ(got.headers, request.headers);
  EXPECT_EQ(got.stream, hostile);
  EXPECT_EQ(got.priority, 3);
  EXPECT_EQ(got.expires_at, request.expires_at);
  EXPECT_EQ(got.stages, Stages{Stage::stored});
}

TEST_P(CoordinatorContract, DelaysDueTimesAndUniqueKeysWorkAsInTheOutbox) {
  auto later = message("later");
  later.delay = seconds{60};
  auto due = message("due");
  due.due_at = backend.now() + std::chrono::hours{1};
  auto key = message("key");
  key.unique_key = "k";
  const auto result = store_outbox({later, due, key, key});
  EXPECT_EQ(result.outbox[3].outcome, StoreOutcome::duplicate);
  EXPECT_EQ(result.outbox[3].id, result.outbox[2].id);
  EXPECT_THAT(payloads(claim()), ElementsAre("key"));
  backend.advance(seconds{61});
  EXPECT_THAT(payloads(claim()), ElementsAre("later"));
}

TEST_P(CoordinatorContract, ALargeBatchIsStoredAndClaimedInOrder) {
  std::vector<EnqueueRequest> requests;
  std::vector<std::string> expected;
  for (int i = 0; i < 2'000; ++i) {
    requests.push_back(message(std::to_string(i), "stream"));
    expected.push_back(std::to_string(i));
  }
  store_outbox(requests);
  std::vector<std::string> seen;
  for (auto some = claim({}, 1'000); !some.empty(); some = claim({}, 1'000)) {
    for (const auto& text : payloads(some)) seen.push_back(text);
    complete(some);
  }
  EXPECT_EQ(seen, expected);
}

TEST_P(CoordinatorContract, BadArgumentsAreRejectedBeforeAnything) {
  const auto rejects = [&](const WorkBatch& batch, const WorkOptions& options = {}) {
    EXPECT_ANY_THROW(work.process_work_batch(batch, options));
  };
  rejects({.outbox_messages = {{.message = message("good")}, {.message = {.topic = ""}}}});
  rejects({.outbox_messages = {{.message = message("x"), .options = {.is_event = true}}}});
  rejects({.inbox_messages = {{.message = {.topic = "t", .source = "", .message_id = "1"}}}});
  rejects({.failures = {{.error = ""}}});
  rejects({.failures = {{.error = "x", .delay = milliseconds{-1}}}});
  rejects({.claim_outbox = WorkClaim{.batch_size = 0}});
  rejects({.claim_outbox = WorkClaim{.batch_size = 10'001}});
  rejects({}, {.partition_count = 0});
  rejects({}, {.max_partitions_per_instance = 0});
  rejects({}, {.lease = milliseconds{0}});
  rejects({}, {.stale_after = milliseconds{1}});
  rejects({}, {.help_after = milliseconds{0}});
  EXPECT_EQ(platform.outbox().counts().ready, 0);
}

// --- completions and failures

TEST_P(CoordinatorContract, ACompletionEndsAMessageAndKeepsItsStages) {
  store_outbox({message("a"), message("b", "s")});
  const auto claimed = claim();
  const auto result = complete(claimed, Stage::published);
  EXPECT_EQ(result.completed, 2U);
  EXPECT_THAT(result.lost, IsEmpty());
  for (const auto& each : claimed) {
    const auto stored = outbox_message(each.claim.id);
    EXPECT_EQ(stored.status, MessageStatus::done);
    EXPECT_EQ(stored.message.stages, Stage::stored | Stage::published);
    EXPECT_EQ(stored.processed_by, OwnerToken{work.instance().uuid()});
  }
  EXPECT_EQ(backend.number("select min(stages) from " + backend.table("outbox_messages")), 5);
}

TEST_P(CoordinatorContract, AFailureIsRetriedWithTheStagesThatSucceeded) {
  store_outbox({message("a"), message("b", "s")});
  for (const auto& each : claim()) {
    const auto result = fail(each, "broken", {.stages = Stage::published, .delay = seconds{5}});
    EXPECT_EQ(result.failed, 1U);
    const auto stored = outbox_message(each.claim.id);
    EXPECT_EQ(stored.message.attempts, 1);
    EXPECT_EQ(stored.last_error, "broken");
  }
  EXPECT_THAT(claim(), IsEmpty());
  backend.advance(seconds{6});
  const auto again = claim();
  ASSERT_THAT(again, SizeIs(2));
  for (const auto& each : again) {
    EXPECT_EQ(each.message.stages, Stage::stored | Stage::published);
    EXPECT_EQ(each.message.attempts, 1);
    EXPECT_FALSE(each.orphaned);
  }
}

TEST_P(CoordinatorContract, APermanentFailureIsADeadLetterThatKeepsItsStagesWhenReplayed) {
  const auto id = *store_outbox({message("a")}).outbox[0].id;
  fail(claim().at(0), "never", {.stages = Stage::published, .permanent = true});
  const auto stored = outbox_message(id);
  EXPECT_EQ(stored.status, MessageStatus::failed);
  EXPECT_EQ(stored.last_error, "never");
  EXPECT_EQ(platform.outbox().replay(std::vector{id}), 1U);
  EXPECT_EQ(claim().at(0).message.stages, Stage::stored | Stage::published);
}

TEST_P(CoordinatorContract, TheLastAttemptMakesADeadLetterOrBlocksTheStream) {
  store_outbox({message("a"), message("b", "s")});
  for (int attempt = 1; attempt <= platform.outbox().options().max_attempts; ++attempt) {
    for (const auto& each : claim()) fail(each, "again", {.delay = milliseconds{0}});
  }
  EXPECT_THAT(claim(), IsEmpty());
  EXPECT_THAT(platform.outbox().dead_letters(), SizeIs(1));
  EXPECT_EQ(platform.outbox().find_stream("s")->state, StreamState::blocked);
}

TEST_P(CoordinatorContract, APolicyDecidesAboutTheStreamOfAFailedMessage) {
  std::map<StreamFailure, MessageId> failed;
  for (const auto policy : {StreamFailure::block, StreamFailure::park, StreamFailure::skip_order}) {
    const std::string stream{to_string(policy)};
    store_outbox({message("first-" + stream, stream), message("next-" + stream, stream)});
    const auto first =
        work.process_work_batch({.claim_outbox = WorkClaim{.batch_size = 1}}).work.at(0);
    ASSERT_EQ(first.message.payload, "first-" + stream);
    failed[policy] = first.message.id;
    const auto result = work.process_work_batch(
        {.failures = {{.claim = first.claim, .error = "no", .permanent = true}}},
        {.on_stream_failure = policy});
    EXPECT_EQ(result.failed, 1U) << stream;
    // Without them, the next claim finds the messages of the next policy.
    if (policy != StreamFailure::block) complete(claim());
  }
  EXPECT_EQ(platform.outbox().find_stream("block")->state, StreamState::blocked);
  ASSERT_THAT(platform.outbox().dead_letters(), SizeIs(1));
  EXPECT_EQ(platform.outbox().dead_letters()[0].message.id, failed[StreamFailure::park]);
  const auto skipped = platform.outbox().find(failed[StreamFailure::skip_order]);
  EXPECT_NE(skipped->status, MessageStatus::failed) << "it is retried";
  EXPECT_EQ(skipped->message.stream, std::nullopt) << "without its stream";
}

TEST_P(CoordinatorContract, AReleaseChargesNoAttemptAndKeepsStages) {
  store_outbox({message("a"), message("b", "s")});
  for (const auto& each : claim()) {
    const auto result = work.process_work_batch(
        {.releases = {
             {.queue = each.queue, .claim = each.claim, .stages = Stage::receptor_processed}}});
    EXPECT_EQ(result.released, 1U);
  }
  const auto again = claim();
  ASSERT_THAT(again, SizeIs(2));
  EXPECT_EQ(again[0].message.attempts, 0);
  EXPECT_TRUE(again[0].message.stages.has(Stage::receptor_processed));
}

TEST_P(CoordinatorContract, UnknownClaimsAreReturnedAsLostAndDoNotDisturbOthers) {
  store_outbox({message("a")});
  const auto mine = claim().at(0);
  const auto unknown = MessageId::generate();
  const auto result =
      work.process_work_batch({.completions = {{.claim = {unknown, 1}}, {.claim = mine.claim}},
                               .failures = {{.claim = {unknown, 2}, .error = "x"}}});
  EXPECT_EQ(result.completed, 1U);
  ASSERT_THAT(result.lost, SizeIs(1));
  EXPECT_EQ(result.lost[0].id, unknown);
}

TEST_P(CoordinatorContract, ARepeatedCompletionCountsOnce) {
  store_outbox({message("a")});
  const auto claimed = claim();
  const auto result = complete({claimed[0], claimed[0]});
  EXPECT_EQ(result.completed, 1U);
  EXPECT_THAT(complete(claimed).lost, SizeIs(1));
}

TEST_P(CoordinatorContract, ResultsOfAnotherInstanceChangeNothing) {
  store_outbox({message("a"), message("b", "s")});
  const auto claimed = claim();
  const WorkOptions other{.instance = InstanceId::generate()};
  EXPECT_THAT(complete(claimed, Stage::published, other).lost, SizeIs(2));
  EXPECT_THAT(fail(claimed[0], "x", {}, other).lost, SizeIs(1));
  EXPECT_EQ(outbox_message(claimed[0].claim.id).message.stages, Stages{Stage::stored});
  EXPECT_EQ(complete(claimed).completed, 2U);
}

TEST_P(CoordinatorContract, CompletionsOfBothQueuesGoTogether) {
  store_outbox({message("a")});
  store_inbox("1");
  auto result = work.process_work_batch(
      {.claim_outbox = WorkClaim{}, .claim_inbox = WorkClaim{.topics = {"t"}}});
  ASSERT_THAT(result.work, SizeIs(2));
  EXPECT_EQ(complete(result.work, Stage::receptor_processed).completed, 2U);
  EXPECT_EQ(platform.inbox().find("s", "1")->status, InboxStatus::processed);
}

}  // namespace
}  // namespace dovetail::testing
