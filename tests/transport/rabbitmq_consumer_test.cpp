// Receiving from a real RabbitMQ server, and outages of it.
#include <thread>

#include "support/eventually.hpp"
#include "transport/support/rabbitmq_server.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class RabbitMqConsumerTest : public RabbitMqTest {
 protected:
  std::shared_ptr<Consumer> consumer(const std::string& queue, int prefetch = 256) const {
    return RabbitMq({.urls = {server.url()}}).consumer({.queue = queue, .prefetch = prefetch});
  }
  void publish(const std::vector<Message>& messages) const {
    const auto outcomes =
        RabbitMq({.urls = {server.url()}}).publisher()->publish(messages, patient_call());
    for (const auto& outcome : outcomes) {
      ASSERT_EQ(outcome.result, PublishResult::confirmed) << outcome.reason;
    }
  }
  /// Publishes as another program would.
  void publish_raw(const std::string& queue, const std::string& payload,
                   const std::string& message_id, const Headers& headers) const {
    using namespace transport::rabbitmq;
    const auto state = log_in({.urls = {server.url()}}, server.url());
    std::vector<amqp_table_entry_t> entries;
    for (const auto& [name, value] : headers) {
      amqp_table_entry_t entry{};
      entry.key = bytes_of(name);
      entry.value.kind = AMQP_FIELD_KIND_UTF8;
      entry.value.value.bytes = bytes_of(value);
      entries.push_back(entry);
    }
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_HEADERS_FLAG;
    if (!message_id.empty()) properties._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
    properties.message_id = bytes_of(message_id);
    properties.headers = {.num_entries = static_cast<int>(entries.size()),
                          .entries = entries.data()};
    require(amqp_basic_publish(state.get(), channel, amqp_empty_bytes, bytes_of(queue), 0, 0,
                               &properties, bytes_of(payload)),
            "publish");
    require_reply(amqp_channel_close(state.get(), channel, AMQP_REPLY_SUCCESS), "close");
  }
};

TEST_F(RabbitMqConsumerTest, AMessageStaysUntilItIsAcknowledged) {
  server.add_queue("stays");
  publish({make_message("stays"), make_message("stays")});
  {
    const auto first = consumer("stays");
    EXPECT_TRUE(eventually([&] { return !first->fetch(1, patient_call()).empty(); }));
  }
  const auto second = consumer("stays");
  std::vector<IncomingMessage> messages;
  while (messages.size() < 2) {
    auto some = second->fetch(10, patient_call());
    ASSERT_FALSE(some.empty());
    messages.insert(messages.end(), some.begin(), some.end());
  }
  second->ack(tags_of(messages), patient_call());
  second->close();
  EXPECT_TRUE(eventually([&] { return server.messages_in("stays") == 0; }));
  EXPECT_TRUE(second->fetch(10, call_for(seconds{1})).empty());
}

TEST_F(RabbitMqConsumerTest, AMessageThatIsGivenBackComesAgain) {
  server.add_queue("back");
  publish({make_message("back")});
  const auto receiver = consumer("back");
  const auto first = receiver->fetch(10, patient_call());
  receiver->give_back(tags_of(first), patient_call());
  const auto again = receiver->fetch(10, patient_call());
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].id, first.at(0).id);
  EXPECT_NE(again[0].tag, first[0].tag);
}

TEST_F(RabbitMqConsumerTest, TheBrokerSendsNoMoreThanThePrefetch) {
  server.add_queue("prefetch");
  std::vector<Message> messages;
  for (int i = 0; i < 10; ++i) messages.push_back(make_message("prefetch"));
  publish(messages);
  const auto receiver = consumer("prefetch", 4);
  std::vector<IncomingMessage> held;
  while (held.size() < 4) {
    auto some = receiver->fetch(10, patient_call());
    ASSERT_FALSE(some.empty());
    held.insert(held.end(), some.begin(), some.end());
  }
  EXPECT_EQ(held.size(), 4U);
  EXPECT_EQ(server.messages_in("prefetch"), 6);
  receiver->ack(tags_of(held), patient_call());
  EXPECT_FALSE(receiver->fetch(10, patient_call()).empty());
}

TEST_F(RabbitMqConsumerTest, TheIdComesFromTheEventOrTheMessageId) {
  server.add_queue("ids");
  publish_raw("ids", "a", "another",
              {{"cloudEvents_specversion", "1.0"},
               {"cloudEvents_id", "event-1"},
               {"cloudEvents_type", "order.paid"}});
  publish_raw("ids", "b", "",
              {{"cloudEvents:specversion", "1.0"},
               {"cloudEvents:id", "event-2"},
               {"cloudEvents:type", "order.paid"}});
  publish_raw("ids", "c", "own-1", {{"colour", "red"}});
  publish_raw("ids", "d", "", {});
  publish_raw("ids", "\xFF\xFE", "own-2", {});
  publish_raw("ids", "f", "own-3", {{"cloudEvents_specversion", "2.0"}});
  const auto receiver = consumer("ids");
  std::vector<IncomingMessage> messages;
  while (messages.size() < 6) {
    auto some = receiver->fetch(10, patient_call());
    ASSERT_FALSE(some.empty());
    messages.insert(messages.end(), some.begin(), some.end());
  }
  EXPECT_EQ(messages[0].id, "event-1");
  EXPECT_EQ(messages[0].topic, "order.paid");
  EXPECT_EQ(messages[1].id, "event-2");
  EXPECT_EQ(messages[1].topic, "order.paid");
  EXPECT_EQ(messages[2].id, "own-1");
  EXPECT_EQ(messages[2].topic, "");
  EXPECT_EQ(messages[2].headers.at("colour"), "red");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(messages[static_cast<std::size_t>(i)].problem);
  EXPECT_THAT(messages[3].problem.value_or(""), HasSubstr("message-id"));
  EXPECT_THAT(messages[4].problem.value_or(""), HasSubstr("UTF-8"));
  EXPECT_EQ(messages[4].id, "own-2");
  EXPECT_THAT(messages[5].problem.value_or(""), HasSubstr("2.0"));
}

TEST_F(RabbitMqConsumerTest, AStopEndsAFetch) {
  server.add_queue("idle");
  publish({make_message("idle")});
  const auto receiver = consumer("idle");
  EXPECT_EQ(receiver->fetch(10, patient_call()).size(), 1U);
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_TRUE(receiver->fetch(10, call_for(std::chrono::hours{1}, stop.get_token())).empty());
}

TEST_F(RabbitMqConsumerTest, AQueueThatIsMissingOrDeletedIsAnError) {
  try {
    (void)consumer("missing")->fetch(1, patient_call());
    ADD_FAILURE();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("NOT_FOUND"));
  }
  server.add_queue("deleted");
  publish({make_message("deleted")});
  const auto receiver = consumer("deleted");
  EXPECT_EQ(receiver->fetch(1, patient_call()).size(), 1U);
  server.delete_queue("deleted");
  try {
    (void)receiver->fetch(1, patient_call());
    ADD_FAILURE();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("deleted"));
  }
}

TEST_F(RabbitMqConsumerTest, AConnectionThatIsIdleLongerThanItsHeartbeatStaysOpen) {
  server.add_queue("heartbeat");
  publish({make_message("heartbeat")});
  const auto receiver =
      RabbitMq({.urls = {server.url()}, .heartbeat = seconds{1}}).consumer({.queue = "heartbeat"});
  const auto messages = receiver->fetch(1, patient_call());
  ASSERT_EQ(messages.size(), 1U);
  // Nobody calls the consumer: its own thread answers. The broker closes after 2 s of silence.
  std::this_thread::sleep_for(seconds{4});
  receiver->ack(tags_of(messages), patient_call());
  EXPECT_TRUE(receiver->fetch(1, call_for(milliseconds{100})).empty());
}

TEST_F(RabbitMqConsumerTest, AfterAnOutageTheMessagesComeAgainAndOldTagsAreVoid) {
  server.add_queue("outage");
  const auto publisher = RabbitMq({.urls = {server.url()}}).publisher();
  const std::vector messages{make_message("outage"), make_message("outage")};
  ASSERT_TRUE(all_confirmed(publisher->publish(messages, patient_call())));
  const auto receiver = consumer("outage");
  std::vector<IncomingMessage> first;
  while (first.size() < 2) {
    for (auto& message : receiver->fetch(10, patient_call())) first.push_back(message);
  }
  server.kill();
  EXPECT_THROW((void)receiver->fetch(10, patient_call()), std::runtime_error);
  EXPECT_THROW(publisher->probe(call_for(milliseconds{500})), std::runtime_error);
  const std::vector later{make_message("outage")};
  try {
    const auto outcomes = publisher->publish(later, call_for(milliseconds{500}));
    EXPECT_EQ(outcomes.at(0).result, PublishResult::unavailable);
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1"));
  }
  server.start();
  publish_all(*publisher, later, seconds{10});
  std::vector<IncomingMessage> again;
  EXPECT_TRUE(eventually([&] {
    try {
      for (auto& message : receiver->fetch(10, call_for(seconds{5}))) again.push_back(message);
    } catch (const std::runtime_error&) {
    }
    return again.size() == 3;
  }));
  receiver->ack(tags_of(first), patient_call());  // void: the connection stays open
  receiver->ack(tags_of(again), patient_call());
  receiver->close();
  EXPECT_TRUE(eventually([&] { return server.messages_in("outage") == 0; }));
}

}  // namespace
}  // namespace dovetail::testing
