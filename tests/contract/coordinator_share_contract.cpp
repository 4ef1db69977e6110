// The work coordinator: leases, order, partitions, instances, and messages that are events.
#include <map>
#include <set>

#include "support/work_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CoordinatorShareContract : public WorkTest {
 protected:
  /// Stores one message in each of `count` streams.
  void store_streams(int count) {
    std::vector<EnqueueRequest> requests;
    for (int i = 0; i < count; ++i)
      requests.push_back(message(std::to_string(i), "stream-" + std::to_string(i)));
    store_outbox(requests);
  }
  /// Both instances take part.
  void join(const WorkOptions& options) { claim(options); }

  const WorkOptions first{.instance = InstanceId::generate()};
  const WorkOptions second{.instance = InstanceId::generate()};
};
DOVETAIL_CONTRACT(CoordinatorShareContract);

// --- leases and failover

TEST_P(CoordinatorShareContract, ALeaseExpiresAndAnotherInstanceTakesTheOrphan) {
  store_outbox({message("a"), message("b", "s")});
  const WorkOptions brief{.lease = seconds{10}, .instance = first.instance};
  const auto lost = claim(brief);
  ASSERT_THAT(lost, SizeIs(2));
  EXPECT_EQ(lost[0].lease_until - backend.now() <= seconds{10}, true);
  EXPECT_THAT(claim(second), IsEmpty());
  backend.advance(seconds{11});
  // The first claim takes the lease of the stream back. The stream may belong to the other share.
  const WorkOptions helpful{.help_after = milliseconds{1}, .instance = second.instance};
  auto taken = claim(helpful);
  backend.advance(seconds{1});
  for (const auto& each : claim(helpful)) taken.push_back(each);
  ASSERT_THAT(taken, SizeIs(2));
  for (const auto& each : taken) {
    EXPECT_TRUE(each.orphaned);
    EXPECT_EQ(each.message.attempts, 1);
  }
  EXPECT_THAT(complete(lost, {}, first).lost, SizeIs(2));
  EXPECT_EQ(complete(taken, {}, second).completed, 2U);
}

TEST_P(CoordinatorShareContract, TheDefaultLeaseIsFiveMinutes) {
  store_outbox({message("a")});
  const auto lease = claim().at(0).lease_until - backend.now();
  EXPECT_GT(lease, seconds{290});
  EXPECT_LT(lease, seconds{302});
}

TEST_P(CoordinatorShareContract, ARenewedLeaseDoesNotExpire) {
  store_outbox({message("a"), message("b", "s")});
  const WorkOptions brief{.lease = seconds{10}};
  const auto held = claim(brief);
  backend.advance(seconds{8});
  WorkBatch renewals;
  for (const auto& each : held) renewals.renewals.push_back({each.queue, each.claim});
  EXPECT_THAT(work.process_work_batch(renewals, brief).lost, IsEmpty());
  backend.advance(seconds{8});
  EXPECT_EQ(complete(held).completed, 2U);
  EXPECT_THAT(work.process_work_batch(renewals, brief).lost, SizeIs(2));
}

// --- order

TEST_P(CoordinatorShareContract, AStreamIsHeldByOneInstanceUntilItIsSettled) {
  store_outbox({message("1", "s"), message("2", "s"), message("3", "s")});
  const WorkOptions helpful{.help_after = milliseconds{1}, .instance = second.instance};
  const auto held = claim(first, 4);
  EXPECT_THAT(payloads(held), ElementsAre("1", "2"));
  backend.advance(seconds{1});
  EXPECT_THAT(claim(helpful), IsEmpty());
  complete({held[0]}, {}, first);
  EXPECT_THAT(claim(helpful), IsEmpty());
  complete({held[1]}, {}, first);
  backend.advance(seconds{1});
  EXPECT_THAT(payloads(claim(helpful)), ElementsAre("3"));
}

TEST_P(CoordinatorShareContract, AFailedMessageHoldsItsStreamBack) {
  store_outbox({message("1", "s"), message("2", "s"), message("x", "other")});
  const auto held = claim();
  ASSERT_THAT(held, SizeIs(3));
  for (const auto& each : held) {
    if (each.message.payload == "1") fail(each, "no", {.delay = seconds{10}});
    if (each.message.payload == "2")
      work.process_work_batch({.releases = {{.queue = each.queue, .claim = each.claim}}});
    if (each.message.payload == "x") complete({each});
  }
  EXPECT_THAT(claim(), IsEmpty());
  backend.advance(seconds{11});
  EXPECT_THAT(payloads(claim()), ElementsAre("1", "2"));
}

// --- partitions and distribution

TEST_P(CoordinatorShareContract, InstancesShareTheStreamsWithoutOverlap) {
  join(first);
  join(second);
  store_streams(60);
  std::map<std::string, int> owners;
  const auto of_first = claim(first);
  const auto of_second = claim(second);
  for (const auto& each : of_first) ++owners[*each.message.stream];
  for (const auto& each : of_second) ++owners[*each.message.stream];
  EXPECT_THAT(owners, SizeIs(60));
  EXPECT_EQ(of_first.size() + of_second.size(), 60U);
  EXPECT_GE(of_first.size(), 12U);
  EXPECT_GE(of_second.size(), 12U);
}

TEST_P(CoordinatorShareContract, AStreamComesBackToItsInstance) {
  join(first);
  join(second);
  store_streams(20);
  std::set<std::string> mine;
  const auto claimed = claim(first);
  for (const auto& each : claimed) mine.insert(*each.message.stream);
  complete(claimed, {}, first);
  complete(claim(second), {}, second);
  store_streams(20);
  std::set<std::string> again;
  for (const auto& each : claim(first)) again.insert(*each.message.stream);
  EXPECT_EQ(again, mine);
}

TEST_P(CoordinatorShareContract, TheShareOfPartitionsIsReturned) {
  const auto alone = work.process_work_batch({.claim_outbox = WorkClaim{}}, first).share;
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(alone->live_instances, 1);
  EXPECT_EQ(alone->partitions, 10'000);
  join(second);
  const auto one = work.process_work_batch({.claim_outbox = WorkClaim{}}, first).share;
  const auto two = work.process_work_batch({.claim_outbox = WorkClaim{}}, second).share;
  EXPECT_EQ(one->live_instances, 2);
  EXPECT_EQ(one->rank + two->rank, 1);
  EXPECT_EQ(one->partitions + two->partitions, 10'000);
}

TEST_P(CoordinatorShareContract, ThePartitionCountDecidesWhoOwnsAStream) {
  WorkOptions one{.partition_count = 1, .instance = first.instance};
  WorkOptions two{.partition_count = 1, .instance = second.instance};
  join(one);
  join(two);
  store_streams(10);
  // There is only the partition 0: the instance of rank 0 has all streams.
  const auto a = claim(one);
  const auto b = claim(two);
  EXPECT_EQ(a.size() + b.size(), 10U);
  EXPECT_TRUE(a.empty() || b.empty());
}

TEST_P(CoordinatorShareContract, AnInstanceHoldsStreamsInALimitedNumberOfPartitions) {
  store_streams(30);
  const WorkOptions few{.max_partitions_per_instance = 5, .instance = first.instance};
  const auto held = claim(few);
  EXPECT_THAT(held, SizeIs(5));
  EXPECT_THAT(claim(few), IsEmpty());
  complete({held[0], held[1]}, {}, few);
  EXPECT_THAT(claim(few), SizeIs(2));
}

TEST_P(CoordinatorShareContract, EveryInstanceClaimsMessagesWithoutAStream) {
  join(first);
  join(second);
  store_outbox({message("a"), message("b"), message("c"), message("d")});
  EXPECT_THAT(claim(first, 2), SizeIs(2));
  EXPECT_THAT(claim(second), SizeIs(2));
}

TEST_P(CoordinatorShareContract, InstancesShareOnlyWithThoseThatClaimTheSame) {
  claim_inbox(second);
  const WorkBatch others{.claim_outbox = WorkClaim{.topics = {"other", "another"}}};
  work.process_work_batch(others, {.instance = InstanceId::generate()});
  store_streams(20);
  EXPECT_THAT(claim(first), SizeIs(20));
  // An instance may claim from both queues, in different calls.
  const auto share = work.process_work_batch({.claim_inbox = WorkClaim{}}, first).share;
  EXPECT_EQ(share->live_instances, 2);
  EXPECT_EQ(work.process_work_batch({.claim_outbox = WorkClaim{}}, first).share->live_instances, 1);
}

TEST_P(CoordinatorShareContract, StreamsThatWaitTooLongAreClaimedByEveryInstance) {
  join(first);
  join(second);
  store_streams(20);
  const auto own = claim(first).size();
  EXPECT_LT(own, 20U);
  EXPECT_THAT(claim(first), IsEmpty());
  backend.advance(seconds{6});
  EXPECT_THAT(claim(first), SizeIs(20 - own));
}

TEST_P(CoordinatorShareContract, AnInstanceThatLeavesGivesItsPartitionsAway) {
  join(first);
  join(second);
  store_streams(20);
  const auto own = claim(first).size();
  EXPECT_TRUE(work.leave(second));
  EXPECT_FALSE(work.leave(second));
  EXPECT_THAT(claim(first), SizeIs(20 - own));
}

TEST_P(CoordinatorShareContract, APlatformThatEndsLeaves) {
  {
    auto other = backend.open();
    other.work().process_work_batch({.claim_inbox = WorkClaim{}});
    EXPECT_THAT(platform.instances().list(), SizeIs(1));
  }
  EXPECT_THAT(platform.instances().list(), IsEmpty());
}

TEST_P(CoordinatorShareContract, WorkOfAnInstanceThatLeavesIsReadyAtOnceWithoutAnAttempt) {
  store_outbox({message("a"), message("b", "s"), message("c", "s")});
  const auto held = claim(second);
  ASSERT_THAT(held, SizeIs(3));
  EXPECT_TRUE(work.leave(second));
  const auto taken = claim(first);
  ASSERT_THAT(taken, SizeIs(3));
  for (const auto& each : taken) {
    EXPECT_EQ(each.message.attempts, 0);
    EXPECT_FALSE(each.orphaned);
  }
  EXPECT_THAT(complete(held, {}, second).lost, SizeIs(3));
  EXPECT_EQ(complete(taken, {}, first).completed, 3U);
}

TEST_P(CoordinatorShareContract, WorkOfAPlatformThatEndsIsReadyAtOnce) {
  store_outbox({message("a"), message("b", "s")});
  {
    auto other = backend.open();
    EXPECT_THAT(other.work().process_work_batch({.claim_outbox = WorkClaim{}}).work, SizeIs(2));
  }
  EXPECT_THAT(claim(first), SizeIs(2));
}

TEST_P(CoordinatorShareContract, OnlyInstancesThatClaimTakeAShare) {
  work.process_work_batch({.outbox_messages = {{.message = message("x")}}}, second);
  EXPECT_THAT(platform.instances().list(), IsEmpty());
  const auto share = work.process_work_batch({.claim_outbox = WorkClaim{}}, first).share;
  EXPECT_EQ(share->live_instances, 1);
}

// --- stale instances

TEST_P(CoordinatorShareContract, AStaleInstanceLosesItsLeases) {
  store_outbox({message("a"), message("b", "s")});
  const auto lost = claim(first);
  ASSERT_THAT(lost, SizeIs(2));
  join(second);
  backend.advance(seconds{91});
  const auto result = work.process_work_batch({.claim_outbox = WorkClaim{}}, second);
  EXPECT_EQ(result.share->stale_removed, 1);
  EXPECT_EQ(result.share->live_instances, 1);
  EXPECT_THAT(result.work, SizeIs(2));
  EXPECT_THAT(complete(lost, {}, first).lost, SizeIs(2));
  EXPECT_THAT(platform.instances().list(), SizeIs(1));
}

TEST_P(CoordinatorShareContract, AConsumerOfStoredMessagesThatDiesLosesItsLeases) {
  const auto stored = work.process_work_batch({.outbox_messages = {{.message = message("a")}},
                                               .claim_outbox = WorkClaim{.stored_only = true}},
                                              first);
  ASSERT_THAT(stored.work, SizeIs(1));
  const auto early = work.process_work_batch({.claim_outbox = WorkClaim{}}, second);
  EXPECT_EQ(early.share->live_instances, 1) << "the consumer takes no share";
  EXPECT_THAT(early.work, IsEmpty());
  backend.advance(seconds{91});
  const auto late = work.process_work_batch({.claim_outbox = WorkClaim{}}, second);
  EXPECT_EQ(late.share->stale_removed, 1);
  EXPECT_THAT(late.work, SizeIs(1));
}

TEST_P(CoordinatorShareContract, CallsRenewTheHeartbeat) {
  const WorkOptions brief{.stale_after = seconds{9}, .instance = first.instance};
  store_outbox({message("a")});
  const auto held = claim(brief);
  for (int i = 0; i < 5; ++i) {
    backend.advance(seconds{5});
    // A call that only stores is a sign of life, too.
    work.process_work_batch({.outbox_messages = {{.message = message("x")}}}, brief);
    EXPECT_EQ(work.process_work_batch({.claim_outbox = WorkClaim{.topics = {"none"}}}, second)
                  .share->stale_removed,
              0);
  }
  EXPECT_EQ(complete(held, {}, brief).completed, 1U);
}

TEST_P(CoordinatorShareContract, AnInstanceThatClaimsIsInTheTableOfInstances) {
  join(first);
  const auto all = platform.instances().list();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].id, *first.instance);
  EXPECT_TRUE(all[0].handles("outbox", "t"));
  EXPECT_FALSE(all[0].handles("inbox", "t"));
}

// --- events

TEST_P(CoordinatorShareContract, AnEventIsStoredWithItsMessageOnce) {
  auto request = message("data", "order-1");
  request.message_id = MessageId::generate();
  request.headers = {{"k", "v"}};
  request.correlation_id = "c";
  const WorkBatch batch{.outbox_messages = {{.message = request, .options = {.is_event = true}}}};
  EXPECT_TRUE(work.process_work_batch(batch).outbox[0].stored());
  EXPECT_EQ(work.process_work_batch(batch).outbox[0].outcome, StoreOutcome::duplicate);
  const auto events = platform.events().read("order-1");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].type, "t");
  EXPECT_EQ(events[0].data, "data");
  EXPECT_EQ(events[0].version, 1);
  EXPECT_EQ(events[0].correlation_id, "c");
  EXPECT_TRUE(events[0].metadata.has_value());
  EXPECT_EQ(events[0].id.uuid(), request.message_id->uuid());
  EXPECT_EQ(claim().at(0).message.stages, Stage::stored | Stage::event_stored);
}

TEST_P(CoordinatorShareContract, EventsOfAStreamHaveTheVersionsOfTheirOrder) {
  WorkBatch batch;
  for (int i = 0; i < 5; ++i) {
    batch.outbox_messages.push_back(
        {.message = message(std::to_string(i), i == 3 ? "b" : "a"), .options = {.is_event = true}});
  }
  batch.outbox_messages.push_back({.message = message("no event", "a")});
  batch.inbox_messages.push_back(
      {.message = inbox_request("1", "a"), .options = {.is_event = true}});
  work.process_work_batch(batch);
  std::vector<std::string> data;
  for (const auto& event : platform.events().read("a")) data.push_back(event.data);
  EXPECT_THAT(data, ElementsAre("0", "1", "2", "4", "payload of 1"));
  EXPECT_THAT(platform.events().read("b"), SizeIs(1));
}

TEST_P(CoordinatorShareContract, ADuplicateOfTheInboxIsNoEvent) {
  const WorkBatch batch{
      .inbox_messages = {{.message = inbox_request("1", "a"), .options = {.is_event = true}}}};
  work.process_work_batch(batch);
  EXPECT_EQ(work.process_work_batch(batch).inbox[0].outcome, StoreOutcome::duplicate);
  EXPECT_THAT(platform.events().read("a"), SizeIs(1));
}

TEST_P(CoordinatorShareContract, AClosedStreamOfEventsRefusesTheMessageOnly) {
  platform.events().close("closed");
  const auto result = work.process_work_batch(
      {.outbox_messages = {{.message = message("no", "closed"), .options = {.is_event = true}},
                           {.message = message("yes", "open"), .options = {.is_event = true}}},
       .inbox_messages = {
           {.message = inbox_request("1", "closed"), .options = {.is_event = true}}}});
  EXPECT_EQ(result.outbox[0].outcome, StoreOutcome::stream_closed);
  EXPECT_EQ(result.outbox[1].outcome, StoreOutcome::stored);
  EXPECT_EQ(result.inbox[0].outcome, StoreOutcome::stream_closed);
  EXPECT_THAT(payloads(claim()), ElementsAre("yes"));
  EXPECT_FALSE(platform.inbox().find("s", "1").has_value());
}

TEST_P(CoordinatorShareContract, TheMetricsShowSharesLeasesAndNoViolationOfTheOrder) {
  store_streams(3);
  claim();
  const auto metrics = platform.metrics();
  double leases = -1;
  double partitions = -1;
  for (const auto& gauge : metrics.gauges) {
    if (gauge.name == "dovetail_coordinator_leases") leases = gauge.value;
    if (gauge.name == "dovetail_coordinator_partitions") partitions = gauge.value;
  }
  EXPECT_EQ(leases, 3);
  EXPECT_EQ(partitions, 10'000);
  EXPECT_EQ(metrics.counter("dovetail_coordinator_order_violations_total"), 0U);
  EXPECT_EQ(metrics.counter("dovetail_coordinator_claimed_total"), 3U);
}

}  // namespace
}  // namespace dovetail::testing
