// Routes: messages of the outbox go to a broker.
#include <atomic>

#include "dovetail/error.hpp"
#include "support/transport_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class TransportPublishContract : public TransportTest {
 protected:
  void start_route(const std::string& pattern = "t", PublishOptions options = quick()) {
    platform.publish(pattern, publisher(), std::move(options));
    platform.start();
  }
  std::vector<MessageId> put_many(int count) {
    std::vector<MessageId> ids;
    for (int i = 0; i < count; ++i) ids.push_back(put(std::to_string(i)));
    return ids;
  }
};
DOVETAIL_CONTRACT(TransportPublishContract);

// --- answers

TEST_P(TransportPublishContract, AMessageIsDoneAfterItsConfirmation) {
  const auto id = outbox.enqueue({.topic = "t",
                                  .payload = "hello",
                                  .correlation_id = "order 7",
                                  .headers = {{"traceparent", "00-1-2-01"}, {"colour", "grün"}}});
  start_route();
  ASSERT_TRUE(becomes(id, MessageStatus::done));
  const auto stored = broker->stored();
  ASSERT_THAT(stored, SizeIs(1));
  EXPECT_EQ(stored[0].payload, "hello");
  EXPECT_EQ(stored[0].headers.at("ce-id"), id.to_string());
  EXPECT_EQ(stored[0].headers.at("ce-source"), platform.name());
  EXPECT_EQ(stored[0].headers.at("traceparent"), "00-1-2-01");
  const auto incoming = incoming_of(stored[0]);
  EXPECT_EQ(incoming.correlation_id, "order 7");
  EXPECT_EQ(incoming.headers.at("colour"), "grün");
}

TEST_P(TransportPublishContract, AMessageWithoutItsOwnConfirmationIsNotDone) {
  broker->set_answer([](const Message& message) {
    return PublishOutcome{
        message.payload == "silent" ? PublishResult::unavailable : PublishResult::confirmed,
        "no confirmation"};
  });
  const auto silent = put("silent");
  const auto loud = put("loud");
  start_route();
  ASSERT_TRUE(becomes(loud, MessageStatus::done));
  EXPECT_TRUE(eventually([&] { return found(silent).status == MessageStatus::ready; }));
  EXPECT_EQ(found(silent).message.attempts, 0);
}

TEST_P(TransportPublishContract, ARejectedMessageIsRetriedAfterTheTimeThatTheBrokerAsksFor) {
  std::atomic<bool> rejects = true;
  broker->set_answer([&](const Message&) {
    return rejects ? PublishOutcome{PublishResult::rejected, "queue is full", seconds{600}}
                   : PublishOutcome{PublishResult::confirmed};
  });
  const auto id = put("1");
  start_route();
  ASSERT_TRUE(eventually([&] { return found(id).message.attempts == 1; }));
  const auto stored = found(id);
  EXPECT_EQ(stored.last_error, "queue is full");
  ASSERT_TRUE(stored.next_attempt_at);
  EXPECT_GT(*stored.next_attempt_at, backend.now() + seconds{500});
  rejects = false;
  backend.advance(seconds{601});
  outbox.enqueue({.topic = "other"});  // wakes the route, whose clock the test does not move
  EXPECT_TRUE(becomes(id, MessageStatus::done));
}

TEST_P(TransportPublishContract, AMessageIsADeadLetterAfterTheLastAttemptOfItsRoute) {
  broker->set_answer([](const Message&) {
    return PublishOutcome{PublishResult::rejected, "no", milliseconds{0}};
  });
  const auto id = put("1");
  auto options = quick();
  options.max_attempts = 3;
  start_route("t", options);
  ASSERT_TRUE(becomes(id, MessageStatus::failed));
  EXPECT_EQ(found(id).message.attempts, 3);
  EXPECT_EQ(found(id).last_error, "no");
}

TEST_P(TransportPublishContract, ARefusedMessageIsADeadLetterWithTheReason) {
  broker->set_answer([](const Message& message) {
    return message.payload == "large" ? PublishOutcome{PublishResult::refused, "too large: \xff"}
                                      : PublishOutcome{PublishResult::confirmed};
  });
  const auto large = put("large");
  const auto small = put("small");
  start_route();
  ASSERT_TRUE(becomes(large, MessageStatus::failed));
  EXPECT_TRUE(becomes(small, MessageStatus::done));
  EXPECT_EQ(found(large).last_error, "too large: ?");
}

TEST_P(TransportPublishContract, AnExceptionMeansThatTheBrokerIsUnavailable) {
  std::atomic<bool> throws = true;
  broker->set_answer([&](const Message&) -> PublishOutcome {
    if (throws) throw std::runtime_error("the library is broken");
    return {PublishResult::confirmed};
  });
  const auto id = put("1");
  start_route();
  ASSERT_TRUE(eventually([&] { return broker->probes() > 0; }));
  EXPECT_EQ(found(id).message.attempts, 0);
  throws = false;
  EXPECT_TRUE(becomes(id, MessageStatus::done));
}

// --- outages

TEST_P(TransportPublishContract, AnOutageCostsNoMessageAndNoAttempt) {
  broker->set_down(true);
  const auto ids = put_many(30);
  start_route();
  ASSERT_TRUE(reaches(TransportState::unavailable));
  ASSERT_TRUE(eventually([&] { return broker->probes() >= 5; }));
  const auto calls = broker->calls();
  ASSERT_TRUE(eventually([&] { return broker->probes() >= 10; }));
  EXPECT_EQ(broker->calls(), calls) << "an unavailable broker gets no messages";
  for (const auto id : ids) EXPECT_TRUE(becomes(id, MessageStatus::ready));
  broker->set_down(false);
  ASSERT_TRUE(drained());
  EXPECT_THAT(broker->stored(), SizeIs(30));
  for (const auto id : ids) EXPECT_EQ(found(id).message.attempts, 0);
  EXPECT_EQ(info().state, TransportState::running);
}

TEST_P(TransportPublishContract, OtherRoutesGoOnWhileABrokerIsDown) {
  const auto other = std::make_shared<MemoryBroker>();
  broker->set_down(true);
  platform.publish("other", std::make_shared<MemoryPublisher>(other), quick());
  const auto waits = put("waits");
  start_route();
  ASSERT_TRUE(eventually([&] { return broker->probes() > 0; }));
  for (int i = 0; i < 20; ++i) put(std::to_string(i), "other");
  EXPECT_TRUE(eventually([&] { return other->stored().size() == 20; }));
  EXPECT_EQ(found(waits).message.attempts, 0);
}

TEST_P(TransportPublishContract, HealthIsDegradedWhileABrokerIsDown) {
  broker->set_down(true);
  put("1");
  start_route();
  ASSERT_TRUE(reaches(TransportState::unavailable));
  const auto check_of = [&] {
    const auto report = platform.health().all();
    for (const auto& check : report.checks) {
      if (check.name == "transports") return check;
    }
    return HealthCheck{};
  };
  EXPECT_EQ(check_of().status, HealthStatus::degraded);
  EXPECT_THAT(check_of().description, HasSubstr("connection refused"));
  EXPECT_EQ(platform.health().ready().status, HealthStatus::healthy);
}

TEST_P(TransportPublishContract, ABrokerThatAsksToWaitGetsNothing) {
  broker->set_blocked("low on disk");
  const auto id = put("1");
  start_route();
  ASSERT_TRUE(reaches(TransportState::blocked));
  EXPECT_EQ(info().reason, "low on disk");
  EXPECT_EQ(broker->calls(), 0U);
  EXPECT_EQ(found(id).status, MessageStatus::ready);
  broker->set_blocked({});
  EXPECT_TRUE(becomes(id, MessageStatus::done));
}

// --- the window

TEST_P(TransportPublishContract, TheWindowLimitsTheMessagesOnTheirWay) {
  broker->set_held(true);
  put_many(40);
  for (int i = 0; i < 10; ++i) put(std::to_string(i), "t", "s" + std::to_string(i));
  auto options = quick();
  options.window = 8;
  start_route("t", options);
  ASSERT_TRUE(eventually([&] { return broker->in_flight() == 8; }));
  EXPECT_EQ(info().in_flight, 8U);
  broker->set_held(false);
  ASSERT_TRUE(drained());
  EXPECT_THAT(broker->stored(), SizeIs(50));
  EXPECT_LE(broker->most_in_flight(), 8U);
}

TEST_P(TransportPublishContract, AWindowOfOnePublishesMessagesAndStreams) {
  for (int i = 0; i < 5; ++i) put(std::to_string(i));
  for (int i = 0; i < 5; ++i) put("s" + std::to_string(i), "t", "s");
  auto options = quick();
  options.window = 1;
  start_route("t", options);
  ASSERT_TRUE(drained());
  EXPECT_THAT(broker->stored(), SizeIs(10));
  EXPECT_EQ(broker->most_in_flight(), 1U);
}

// --- what is published

TEST_P(TransportPublishContract, OtherTopicsAreNotTouched) {
  std::vector<MessageId> foreign;
  for (int i = 0; i < 100; ++i) foreign.push_back(put("foreign", "foreign"));
  const auto id = put("mine");
  start_route();
  ASSERT_TRUE(becomes(id, MessageStatus::done));
  for (const auto each : foreign) EXPECT_EQ(found(each).status, MessageStatus::ready);
  EXPECT_THAT(broker->payloads(), ElementsAre("mine"));
}

TEST_P(TransportPublishContract, AnExpiredMessageFailsAsExpired) {
  const auto id = outbox.enqueue({.topic = "t", .expires_at = backend.now() + seconds{5}});
  backend.advance(seconds{10});
  start_route();
  ASSERT_TRUE(becomes(id, MessageStatus::failed));
  EXPECT_THAT(found(id).last_error.value_or(""), HasSubstr("expired"));
  EXPECT_THAT(broker->stored(), IsEmpty());
}

TEST_P(TransportPublishContract, APausedTopicIsNotPublished) {
  platform.publish("u", publisher(), quick());
  outbox.pause("t");
  const auto paused = put("paused");
  start_route();
  const auto other = put("other", "u");
  ASSERT_TRUE(becomes(other, MessageStatus::done));
  EXPECT_EQ(found(paused).status, MessageStatus::ready);
  outbox.resume("t");
  EXPECT_TRUE(becomes(paused, MessageStatus::done));
}

// --- stop

TEST_P(TransportPublishContract, AStopWaitsForConfirmations) {
  broker->set_held(true);
  const auto id = put("1");
  start_route();
  ASSERT_TRUE(eventually([&] { return broker->in_flight() == 1; }));
  std::jthread release([&] { broker->set_held(false); });
  EXPECT_TRUE(platform.stop(seconds{30}));
  EXPECT_EQ(found(id).status, MessageStatus::done);
}

TEST_P(TransportPublishContract, AStopGivesBackMessagesWithoutAnAnswer) {
  broker->set_held(true);
  const auto ids = put_many(20);
  start_route();
  ASSERT_TRUE(eventually([&] { return broker->in_flight() > 0; }));
  EXPECT_TRUE(platform.stop(milliseconds{10}));
  for (const auto id : ids) {
    EXPECT_EQ(found(id).status, MessageStatus::ready);
    EXPECT_EQ(found(id).message.attempts, 0);
  }
}

// --- registration

TEST_P(TransportPublishContract, ATopicHasOneHandlerOrRoute) {
  const auto handler = [](const Message&, HandlerContext&) {};
  platform.on("handled", handler);
  platform.publish("t", publisher());
  platform.publish("order.*", publisher());
  EXPECT_THROW(platform.publish("handled", publisher()), InvalidOperation);
  EXPECT_THROW(platform.publish("t", publisher()), InvalidOperation);
  EXPECT_THROW(platform.publish("order.*", publisher()), InvalidOperation);
  EXPECT_THROW(platform.on("t", handler), InvalidOperation);
  EXPECT_THROW(platform.on_any(handler), InvalidOperation);
  platform.start();
  EXPECT_THROW(platform.publish("late", publisher()), InvalidOperation);
}

TEST_P(TransportPublishContract, OptionsOutOfRangeAreRefused) {
  EXPECT_THROW(platform.publish("t", nullptr), std::invalid_argument);
  EXPECT_THROW(platform.publish("", publisher()), std::invalid_argument);
  EXPECT_THROW(platform.publish("t", publisher(), {.window = 0}), std::out_of_range);
  EXPECT_THROW(platform.publish("t", publisher(), {.window = 10'001}), std::out_of_range);
  EXPECT_THROW(platform.publish("t", publisher(), {.timeout = milliseconds{1}}), std::out_of_range);
  EXPECT_THROW(platform.publish("t", publisher(), {.max_attempts = 0}), std::out_of_range);
  EXPECT_THROW(
      platform.publish("t", publisher(), {.first_probe = seconds{2}, .longest_probe = seconds{1}}),
      std::out_of_range);
}

}  // namespace
}  // namespace dovetail::testing
