// Sources: messages of a broker go to the inbox.
#include <atomic>

#include "dovetail/error.hpp"
#include "support/transport_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class TransportConsumeContract : public TransportTest {
 protected:
  IncomingMessage incoming(const std::string& id, const std::string& payload = "payload") {
    return {.id = id, .topic = "t", .payload = payload};
  }
  void start_source(ConsumeOptions options = {.source = "s"}) {
    platform.consume(consumer(), std::move(options));
    platform.start();
  }
  bool all_acked() {
    return eventually([&] { return broker->unacked() == 0; });
  }
  InboxEntry entry(const std::string& id) {
    const auto found = platform.inbox().find("s", id);
    EXPECT_TRUE(found.has_value()) << id;
    return found.value_or(InboxEntry{});
  }
  InboxMessage stored(const std::string& id) {
    const auto found = platform.inbox().queue().find(entry(id).id.value_or(MessageId{}));
    EXPECT_TRUE(found.has_value());
    return found ? InboxMessage::from(found->message) : InboxMessage{};
  }
};
DOVETAIL_CONTRACT(TransportConsumeContract);

TEST_P(TransportConsumeContract, AMessageIsStoredInTheInboxAndThenAcknowledged) {
  std::atomic<int> missing = 0;
  broker->on_ack([&](std::span<const std::uint64_t>) {
    if (!platform.inbox().find("s", "1")) ++missing;
  });
  auto message = incoming("1", "hello");
  message.headers = {{"colour", "red"}, {"dovetail-source", "forged"}};
  message.correlation_id = "order-7";
  message.stream = "order-7";
  broker->put(message);
  start_source();
  ASSERT_TRUE(all_acked());
  EXPECT_EQ(missing, 0) << "acknowledged before it was stored";
  const auto found = stored("1");
  EXPECT_EQ(found.payload, "hello");
  EXPECT_EQ(found.topic, "t");
  EXPECT_EQ(found.source, "s");
  EXPECT_EQ(found.correlation_id, "order-7");
  EXPECT_EQ(found.stream, "order-7");
  EXPECT_EQ(found.headers, (Headers{{"colour", "red"}}));
}

TEST_P(TransportConsumeContract, ARepeatedMessageIsAcknowledgedAndNotStoredAgain) {
  std::atomic<int> handled = 0;
  platform.on_inbox("t", [&](const InboxMessage&, HandlerContext&) { ++handled; });
  for (int i = 0; i < 3; ++i) broker->put(incoming("1"));
  start_source();
  ASSERT_TRUE(all_acked());
  broker->put(incoming("1"));
  ASSERT_TRUE(all_acked());
  EXPECT_TRUE(eventually([&] { return handled == 1; }));
  EXPECT_EQ(info().done, 1U);
  EXPECT_EQ(info().repeated, 3U);
}

TEST_P(TransportConsumeContract, AMessageThatCannotBeReadIsADeadLetterWithTheReason) {
  auto bad = incoming("bad", "{ \xff");
  bad.problem = "the content type is not supported";
  broker->put(incoming("before"));
  broker->put(bad);
  broker->put(incoming("after"));
  start_source();
  ASSERT_TRUE(all_acked());
  EXPECT_EQ(entry("before").status, InboxStatus::queued);
  EXPECT_EQ(entry("after").status, InboxStatus::queued);
  EXPECT_EQ(entry("bad").status, InboxStatus::dead_letter);
  EXPECT_EQ(entry("bad").last_error, "the content type is not supported");
  EXPECT_EQ(stored("bad").payload, "{ ?");
  EXPECT_THAT(platform.inbox().dead_letters(), SizeIs(1));
  EXPECT_EQ(platform.inbox().counts().queue.failed, 1);
}

TEST_P(TransportConsumeContract, AMessageThatTheInboxRefusesIsADeadLetter) {
  auto long_topic = incoming("long topic");
  long_topic.topic = std::string(300, 'x');
  auto many_headers = incoming("headers");
  for (int i = 0; i < 200; ++i) many_headers.headers["h" + std::to_string(i)] = "v";
  broker->put(incoming("large", std::string((1 << 20) + 1, 'x')));
  broker->put(incoming("text", "\xc3\x28"));
  broker->put(long_topic);
  broker->put(many_headers);
  broker->put(incoming("good"));
  start_source();
  ASSERT_TRUE(all_acked());
  for (const auto* id : {"large", "text", "long topic", "headers"}) {
    EXPECT_EQ(entry(id).status, InboxStatus::dead_letter) << id;
  }
  EXPECT_THAT(entry("large").last_error.value_or(""), HasSubstr("1048576 bytes"));
  EXPECT_THAT(entry("headers").last_error.value_or(""), HasSubstr("headers must not exceed"));
  EXPECT_EQ(entry("good").status, InboxStatus::queued);
  EXPECT_EQ(info().dead, 4U);
}

TEST_P(TransportConsumeContract, AMessageWithoutAnIdOrATopicIsADeadLetterOnce) {
  IncomingMessage no_id{.topic = "t", .payload = "no id"};
  IncomingMessage no_topic{.id = "no topic", .payload = "p"};
  for (int i = 0; i < 2; ++i) {
    broker->put(no_id);
    broker->put(no_topic);
  }
  start_source();
  ASSERT_TRUE(all_acked());
  EXPECT_EQ(entry("no topic").last_error, "the message has no topic");
  EXPECT_THAT(platform.inbox().dead_letters(), SizeIs(2));
}

TEST_P(TransportConsumeContract, TheTopicOfTheSourceIsForMessagesWithoutOne) {
  broker->put({.id = "1", .payload = "p"});
  start_source({.source = "s", .topic = "default"});
  ASSERT_TRUE(all_acked());
  EXPECT_EQ(stored("1").topic, "default");
}

TEST_P(TransportConsumeContract, MessagesAreGivenBackWhileTheDatabaseFails) {
  const auto guard = backend.table("inbox_guard");
  const auto bare = backend.is_postgres() ? "gone" : backend.schema() + "_gone";
  const auto gone = backend.is_postgres() ? backend.schema() + ".gone" : bare;
  backend.sql("alter table " + guard + " rename to " + bare);
  for (int i = 0; i < 5; ++i) broker->put(incoming(std::to_string(i)));
  start_source();
  EXPECT_TRUE(eventually([&] { return broker->returned() >= 5; }));
  EXPECT_TRUE(reaches(TransportState::failing));
  const auto name = guard.substr(guard.find('.') == std::string::npos ? 0 : guard.find('.') + 1);
  backend.sql("alter table " + gone + " rename to " + name);
  ASSERT_TRUE(all_acked());
  EXPECT_EQ(platform.inbox().queue().counts().ready, 5);
}

TEST_P(TransportConsumeContract, ASourceConnectsAgainAfterAnOutage) {
  broker->set_down(true);
  start_source();
  ASSERT_TRUE(reaches(TransportState::unavailable));
  EXPECT_EQ(info().reason, "connection refused");
  broker->put(incoming("1"));
  broker->set_down(false);
  ASSERT_TRUE(all_acked());
  EXPECT_EQ(entry("1").status, InboxStatus::queued);
  EXPECT_TRUE(reaches(TransportState::running));
}

TEST_P(TransportConsumeContract, FromTheOutboxThroughABrokerToTheInboxTheOrderIsKept) {
  std::mutex mutex;
  std::vector<std::string> handled;
  platform.on_inbox("t", [&](const InboxMessage& message, HandlerContext&) {
    const std::lock_guard lock(mutex);
    handled.push_back(message.payload);
  });
  platform.publish("t", publisher(), quick());
  std::vector<std::string> expected;
  for (int i = 0; i < 30; ++i) {
    expected.push_back(std::to_string(i));
    put(expected.back(), "t", "s");
  }
  start_source();
  ASSERT_TRUE(drained());
  for (const auto& message : broker->stored()) {
    broker->put(incoming_of(message));
    broker->put(incoming_of(message));  // delivered twice
  }
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return handled.size() == expected.size();
  }));
  ASSERT_TRUE(all_acked());
  const std::lock_guard lock(mutex);
  EXPECT_EQ(handled, expected);
}

TEST_P(TransportConsumeContract, ASourceIsRegisteredOnce) {
  platform.consume(consumer(), {.source = "s"});
  EXPECT_THROW(platform.consume(consumer(), {.source = "s"}), InvalidOperation);
  EXPECT_THROW(platform.consume(consumer(), {.source = ""}), std::invalid_argument);
  EXPECT_THROW(platform.consume(nullptr, {.source = "x"}), std::invalid_argument);
  EXPECT_THROW(platform.consume(consumer(), {.source = "x", .prefetch = 0}), std::out_of_range);
}

}  // namespace
}  // namespace dovetail::testing
