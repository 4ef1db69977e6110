// Lists of messages in every state, and of topics.
#include "support/outbox_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

class MessageListContract : public OutboxTest {
 protected:
  static std::vector<MessageId> ids_of(const MessageList& list) {
    std::vector<MessageId> ids;
    for (const auto& each : list.messages) ids.push_back(each.stored.message.id);
    return ids;
  }
  MessageList listed(MessageState state) { return outbox.messages({.state = state}); }
  /// The ids of all pages.
  std::vector<MessageId> all_pages(const MessageFilter& filter, MessagePage page) {
    std::vector<MessageId> ids;
    for (int pages = 0; pages < 1'000; ++pages) {
      const auto list = outbox.messages(filter, page);
      for (const auto id : ids_of(list)) ids.push_back(id);
      if (!list.next) return ids;
      page.cursor = list.next;
    }
    ADD_FAILURE() << "the list does not end";
    return ids;
  }
  MessageId done_one(const std::string& topic = "t") {
    const auto claims = claimed_one(topic);
    EXPECT_EQ(outbox.ack(owner, claims), 1U);
    return MessageId{claims.at(0).id.uuid()};
  }
};
DOVETAIL_CONTRACT(MessageListContract);

TEST_P(MessageListContract, EachStateListsItsMessages) {
  const auto done = done_one();
  const auto failed = failed_one("t", "broken");
  const auto leased = claimed_one("leased").at(0).id;
  const MessageId parked = outbox.enqueue({.topic = "paused"});
  outbox.pause("paused");
  const MessageId ready = outbox.enqueue({.topic = "t"});
  const MessageId later = outbox.enqueue({.topic = "t", .due_at = backend.now() + hours{1}});

  EXPECT_THAT(ids_of(listed(MessageState::ready)), ElementsAre(ready));
  EXPECT_THAT(ids_of(listed(MessageState::scheduled)), ElementsAre(later));
  EXPECT_THAT(ids_of(listed(MessageState::in_progress)), ElementsAre(leased));
  EXPECT_THAT(ids_of(listed(MessageState::done)), ElementsAre(done));
  EXPECT_THAT(ids_of(listed(MessageState::failed)), ElementsAre(failed));
  EXPECT_THAT(ids_of(listed(MessageState::paused)), ElementsAre(parked));
  EXPECT_TRUE(claim().size() == 1U);  // the claim parks the message of the paused topic
  EXPECT_THAT(ids_of(listed(MessageState::paused)), ElementsAre(parked));

  const auto all = outbox.messages();
  EXPECT_THAT(ids_of(all), UnorderedElementsAre(done, failed, leased, parked, ready, later));
  EXPECT_FALSE(all.next.has_value());
  for (const auto& each : all.messages) {
    if (each.stored.message.id == failed) {
      EXPECT_EQ(each.state, MessageState::failed);
      EXPECT_EQ(each.stored.status, MessageStatus::failed);
      EXPECT_EQ(each.stored.last_error, "broken");
      EXPECT_TRUE(each.stored.processed_at.has_value());
    }
    if (each.stored.message.id == parked) {
      EXPECT_EQ(each.state, MessageState::paused);
    }
    EXPECT_EQ(each.stored.message.payload, "");
  }
}

TEST_P(MessageListContract, MessagesOfStreamsHaveStates) {
  for (const auto* stream : {"a", "b"}) {
    outbox.enqueue({.topic = "t", .stream = stream});
    outbox.enqueue({.topic = "t", .stream = stream});
  }
  EXPECT_THAT(outbox.messages({.state = MessageState::ready, .stream = "a"}).messages, SizeIs(2));
  const auto claimed = outbox.claim_streams({.owner = owner, .batch_size = 2});
  ASSERT_THAT(claimed, SizeIs(2));
  const auto leased = outbox.messages({.state = MessageState::in_progress});
  EXPECT_THAT(leased.messages, SizeIs(2));
  EXPECT_THAT(outbox.messages({.state = MessageState::ready}).messages, SizeIs(2));
  EXPECT_EQ(leased.messages.at(0).stored.message.stream, claimed[0].message.stream);
}

TEST_P(MessageListContract, PagesListEachMessageOnceWhileMessagesArrive) {
  std::vector<MessageId> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(outbox.enqueue({.topic = "t"}));
    backend.advance(seconds{1});
  }
  auto page = outbox.messages({}, {.size = 2});
  EXPECT_THAT(ids_of(page), ElementsAre(ids[4], ids[3]));
  EXPECT_FALSE(page.cut);
  outbox.enqueue({.topic = "t"});
  page = outbox.messages({}, {.cursor = page.next, .size = 2});
  EXPECT_THAT(ids_of(page), ElementsAre(ids[2], ids[1]));
  page = outbox.messages({}, {.cursor = page.next, .size = 2});
  EXPECT_THAT(ids_of(page), ElementsAre(ids[0]));
  EXPECT_FALSE(page.next.has_value());

  auto waiting = outbox.messages({.state = MessageState::ready}, {.size = 3});
  ASSERT_TRUE(waiting.next.has_value());
  outbox.enqueue({.topic = "t"});
  auto seen = ids_of(waiting);
  waiting = outbox.messages({.state = MessageState::ready}, {.cursor = waiting.next});
  for (const auto id : ids_of(waiting)) seen.push_back(id);
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_THAT(seen, SizeIs(7));
}

TEST_P(MessageListContract, FinishedMessagesAreListedInPages) {
  std::vector<MessageId> done;
  std::vector<MessageId> failed;
  for (int i = 0; i < 3; ++i) outbox.enqueue({.topic = "t"});
  const auto claims = claims_of(claim());
  EXPECT_EQ(outbox.ack(owner, claims), 3U);  // all have one time
  for (const auto& each : claims) done.push_back(each.id);
  backend.advance(hours{1});
  const auto between = backend.now();
  done.push_back(done_one());
  for (int i = 0; i < 3; ++i) failed.push_back(failed_one("mail"));

  EXPECT_THAT(all_pages({.state = MessageState::done}, {.size = 1}),
              UnorderedElementsAreArray(done));
  EXPECT_EQ(ids_of(outbox.messages({.state = MessageState::done}, {.size = 1})).at(0), done[3]);
  EXPECT_THAT(all_pages({.state = MessageState::failed}, {.size = 2}),
              UnorderedElementsAreArray(failed));
  EXPECT_THAT(ids_of(outbox.messages({.state = MessageState::done, .finished_after = between})),
              ElementsAre(done[3]));
  EXPECT_THAT(outbox.messages({.state = MessageState::done, .finished_before = between}).messages,
              SizeIs(3));
  EXPECT_THAT(outbox.messages({.state = MessageState::failed, .finished_before = between}).messages,
              IsEmpty());
}

TEST_P(MessageListContract, AMessageMustMatchEveryFilter) {
  const auto before = backend.now();
  const MessageId one = outbox.enqueue({.topic = "a/b?c#d", .correlation_id = "order-1"});
  backend.advance(minutes{1});
  const auto between = backend.now();
  const MessageId two = outbox.enqueue({.topic = "t", .correlation_id = "order-1"});
  EXPECT_THAT(ids_of(outbox.messages({.topic = "a/b?c#d"})), ElementsAre(one));
  EXPECT_THAT(ids_of(outbox.messages({.topic = "t", .correlation_id = "order-1"})),
              ElementsAre(two));
  EXPECT_THAT(outbox.messages({.correlation_id = "order-2"}).messages, IsEmpty());
  EXPECT_THAT(ids_of(outbox.messages({.created_after = between})), ElementsAre(two));
  EXPECT_THAT(
      ids_of(outbox.messages(
          {.state = MessageState::ready, .created_after = before, .created_before = between})),
      ElementsAre(one));
}

TEST_P(MessageListContract, ASearchStopsAtItsLimitAndContinues) {
  std::vector<MessageId> wanted;
  for (int i = 0; i < 30; ++i) {
    const auto topic = i % 10 == 5 ? "rare" : "t";
    const MessageId id = outbox.enqueue({.topic = topic});
    if (i % 10 == 5) wanted.push_back(id);
  }
  for (const auto state : {std::optional<MessageState>{}, std::optional{MessageState::ready}}) {
    const MessageFilter filter{.state = state, .topic = "rare"};
    const auto first = outbox.messages(filter, {.size = 3, .scan_limit = 4});
    EXPECT_TRUE(first.cut);
    EXPECT_TRUE(first.next.has_value());
    EXPECT_THAT(all_pages(filter, {.size = 3, .scan_limit = 4}), UnorderedElementsAreArray(wanted));
  }
  for (int i = 0; i < 4; ++i) done_one("done");
  const MessageFilter absent{.state = MessageState::done, .topic = "rare"};
  EXPECT_TRUE(outbox.messages(absent, {.size = 1, .scan_limit = 2}).cut);
  EXPECT_THAT(all_pages(absent, {.size = 1, .scan_limit = 2}), IsEmpty());
}

TEST_P(MessageListContract, BadCursorsAndLimitsAreRejected) {
  outbox.enqueue({.topic = "t"});
  outbox.enqueue({.topic = "t"});
  const auto next = outbox.messages({}, {.size = 1}).next;
  ASSERT_TRUE(next.has_value());
  for (const std::string cursor :
       {"", "x", "all", "all.0.0.0", "all.0.0.0.x", "all.x.0.0.", "all.0.-1.0.",
        "all.99999999999999999999.0.0.", "ready.0.0.0."}) {
    EXPECT_THROW((void)outbox.messages({}, {.cursor = cursor}), std::invalid_argument) << cursor;
  }
  EXPECT_THROW((void)outbox.messages({.state = MessageState::done}, {.cursor = next}),
               std::invalid_argument);
  EXPECT_THROW((void)outbox.messages({}, {.size = 0}), std::out_of_range);
  EXPECT_THROW((void)outbox.messages({}, {.scan_limit = 0}), std::out_of_range);
  EXPECT_THROW((void)outbox.messages({.finished_after = backend.now()}), std::invalid_argument);
  EXPECT_THROW((void)outbox.messages({.topic = ""}), std::invalid_argument);
}

TEST_P(MessageListContract, CountingStopsAtALimit) {
  for (int i = 0; i < 5; ++i) outbox.enqueue({.topic = "t"});
  const auto counts = outbox.counts(3);
  EXPECT_EQ(counts.ready, 3);
  EXPECT_EQ(counts.counted_up_to, 3);
  EXPECT_EQ(outbox.counts().ready, 5);
  EXPECT_EQ(outbox.counts().counted_up_to, 100'000);
  EXPECT_THROW((void)outbox.counts(0), std::out_of_range);
}

TEST_P(MessageListContract, TopicsAreListedWithTheirCounts) {
  failed_one("b");
  done_one("b");
  claimed_one("c");
  outbox.enqueue({.topic = "a"});
  outbox.enqueue({.topic = "a", .due_at = backend.now() + hours{1}});
  outbox.pause("quiet");
  outbox.pause("d");
  outbox.enqueue({.topic = "d"});

  const auto list = outbox.topics();
  EXPECT_FALSE(list.cut);
  ASSERT_THAT(list.topics, SizeIs(5));
  EXPECT_EQ(list.topics[0].topic, "a");
  EXPECT_EQ(list.topics[0].scheduled, 1);
  EXPECT_EQ(list.topics[0].ready, 1);
  EXPECT_EQ(list.topics[1].failed, 1);
  EXPECT_EQ(list.topics[1].done, 1);
  EXPECT_EQ(list.topics[2].in_progress, 1);
  EXPECT_EQ(list.topics[3].paused, 1);
  EXPECT_EQ(list.topics[4].topic, "quiet");
  EXPECT_EQ(list.topics[4].paused, 0);
  const auto second = outbox.topics({.after = "a", .size = 1});
  ASSERT_THAT(second.topics, SizeIs(1));
  EXPECT_EQ(second.topics[0].topic, "b");
  EXPECT_TRUE(outbox.topics({.scan_limit = 1}).cut);
  EXPECT_THROW((void)outbox.topics({.scan_limit = 0}), std::out_of_range);
}

}  // namespace
}  // namespace dovetail::testing
