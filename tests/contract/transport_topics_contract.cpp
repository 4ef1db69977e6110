// The topics and streams of routes.
#include <map>

#include "support/transport_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class TransportTopicsContract : public TransportTest {};
DOVETAIL_CONTRACT(TransportTopicsContract);

// --- patterns

TEST_P(TransportTopicsContract, APatternPublishesTopicsThatAppearLater) {
  platform.publish("order.*", publisher(), quick());
  const auto early = put("early", "order.paid");
  platform.start();
  ASSERT_TRUE(becomes(early, MessageStatus::done));
  const auto late = put("late", "order.shipped.eu");
  const auto foreign = put("foreign", "invoice.paid");
  ASSERT_TRUE(becomes(late, MessageStatus::done));
  EXPECT_EQ(found(foreign).status, MessageStatus::ready);
  EXPECT_THAT(broker->payloads(), UnorderedElementsAre("early", "late"));
}

TEST_P(TransportTopicsContract, HandlersAndBetterRoutesWinOverAPattern) {
  const auto other = std::make_shared<MemoryBroker>();
  const auto exact = std::make_shared<MemoryBroker>();
  std::atomic<int> handled = 0;
  platform.on("order.handled", [&](const Message&, HandlerContext&) { ++handled; });
  platform.publish("*", publisher(), quick());
  platform.publish("order.*", std::make_shared<MemoryPublisher>(other), quick());
  platform.publish("order.exact", std::make_shared<MemoryPublisher>(exact), quick());
  for (const auto* topic : {"order.handled", "order.paid", "order.exact", "invoice"}) {
    put(topic, topic);
  }
  platform.start();
  ASSERT_TRUE(drained());
  EXPECT_EQ(handled, 1);
  EXPECT_THAT(broker->payloads(), ElementsAre("invoice"));
  EXPECT_THAT(other->payloads(), ElementsAre("order.paid"));
  EXPECT_THAT(exact->payloads(), ElementsAre("order.exact"));
}

TEST_P(TransportTopicsContract, AHandlerOfAllTopicsLeavesTheTopicOfARoute) {
  std::atomic<int> handled = 0;
  platform.on_any([&](const Message&, HandlerContext&) { ++handled; });
  platform.publish("t", publisher(), quick());
  put("published");
  put("handled", "u");
  platform.start();
  ASSERT_TRUE(drained());
  EXPECT_EQ(handled, 1);
  EXPECT_THAT(broker->payloads(), ElementsAre("published"));
}

TEST_P(TransportTopicsContract, TopicsOfRoutesAreHandled) {
  broker->set_down(true);
  platform.publish("t", publisher(), quick());
  platform.publish("order.*", publisher(), quick());
  for (const auto* topic : {"t", "order.paid", "nobody"}) put("1", topic);
  platform.start();
  backend.advance(seconds{70});
  const auto unhandled = [&] {
    std::vector<std::string> topics;
    for (const auto& each : platform.instances().unhandled_topics()) topics.push_back(each.topic);
    return topics;
  };
  EXPECT_TRUE(eventually([&] { return unhandled() == std::vector<std::string>{"nobody"}; }));
}

// --- streams

TEST_P(TransportTopicsContract, MessagesOfAStreamArePublishedInOrder) {
  constexpr int streams = 7;
  constexpr int count = 25;
  for (int i = 0; i < count; ++i) {
    for (int s = 0; s < streams; ++s) {
      put("s" + std::to_string(s) + ":" + std::to_string(i), "t", "s" + std::to_string(s));
    }
    put("free");
  }
  platform.publish("t", publisher(), quick());
  platform.start();
  ASSERT_TRUE(drained());
  EXPECT_FALSE(broker->mixed_a_stream());
  std::map<std::string, int> last;
  for (const auto& payload : broker->payloads()) {
    const auto colon = payload.find(':');
    if (colon == std::string::npos) continue;
    EXPECT_EQ(last[payload.substr(0, colon)]++, std::stoi(payload.substr(colon + 1))) << payload;
  }
  EXPECT_THAT(last, SizeIs(streams));
  EXPECT_THAT(broker->stored(), SizeIs((streams + 1) * count));
}

TEST_P(TransportTopicsContract, ARejectedMessageHoldsBackItsStream) {
  int rejections = 3;
  broker->set_answer([&](const Message& message) {
    if (message.payload != "2" || rejections-- <= 0) {
      return PublishOutcome{PublishResult::confirmed};
    }
    return PublishOutcome{PublishResult::rejected, "not yet", milliseconds{0}};
  });
  for (const auto* payload : {"1", "2", "3", "4"}) put(payload, "t", "s");
  platform.publish("t", publisher(), quick());
  platform.start();
  ASSERT_TRUE(drained());
  EXPECT_THAT(broker->payloads(), ElementsAre("1", "2", "3", "4"));
}

TEST_P(TransportTopicsContract, ARefusedMessageBlocksItsStreamOrLeavesIt) {
  broker->set_answer([](const Message& message) {
    return message.payload == "bad" ? PublishOutcome{PublishResult::refused, "bad"}
                                    : PublishOutcome{PublishResult::confirmed};
  });
  put("bad", "blocks", "s1");
  const auto waits = put("waits", "blocks", "s1");
  put("bad", "parks", "s2");
  const auto goes_on = put("goes on", "parks", "s2");
  auto parks = quick();
  parks.on_stream_failure = StreamFailure::park;
  platform.publish("blocks", publisher(), quick());
  platform.publish("parks", publisher(), parks);
  platform.start();
  ASSERT_TRUE(becomes(goes_on, MessageStatus::done));
  ASSERT_TRUE(eventually([&] {
    const auto stream = outbox.find_stream("s1");
    return stream && stream->state == StreamState::blocked;
  }));
  EXPECT_EQ(found(waits).status, MessageStatus::ready);
}

TEST_P(TransportTopicsContract, AnOutageKeepsTheOrderOfAStream) {
  int left = 5;
  broker->set_answer([&](const Message&) {
    return PublishOutcome{left-- > 0 ? PublishResult::confirmed : PublishResult::unavailable,
                          "connection reset"};
  });
  std::vector<std::string> expected;
  for (int i = 0; i < 20; ++i) {
    expected.push_back(std::to_string(i));
    put(expected.back(), "t", "s");
  }
  platform.publish("t", publisher(), quick());
  platform.start();
  ASSERT_TRUE(eventually([&] { return broker->probes() > 0; }));
  broker->set_answer({});
  ASSERT_TRUE(drained());
  EXPECT_EQ(broker->payloads(), expected);
  EXPECT_EQ(outbox.counts().failed, 0);
}

}  // namespace
}  // namespace dovetail::testing
