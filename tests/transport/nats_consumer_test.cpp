// Receiving from a real nats-server.
#include <set>
#include <thread>

#include "support/eventually.hpp"
#include "transport/nats/library.hpp"
#include "transport/support/nats_server.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class NatsConsumerTest : public ::testing::Test {
 protected:
  NatsConsumerTest() { server.add_stream("SHOP", "shop.>"); }

  std::shared_ptr<Consumer> consumer(milliseconds ack_wait = seconds{30}) const {
    return Nats({.urls = {server.url()}})
        .consumer({.stream = "SHOP",
                   .durable = "billing",
                   .ack_wait = ack_wait,
                   .give_back_delay = milliseconds{1}});
  }
  void publish(const std::vector<Message>& messages) const {
    const auto outcomes =
        Nats({.urls = {server.url()}}).publisher()->publish(messages, patient_call());
    for (const auto& outcome : outcomes) ASSERT_EQ(outcome.result, PublishResult::confirmed);
  }
  /// Publishes as another program would.
  void publish_raw(const std::string& payload, const Headers& headers) const {
    transport::nats::Connection connection({.urls = {server.url()}}, server.url());
    natsMsg* message = nullptr;
    natsMsg_Create(&message, "shop.raw", nullptr, payload.data(), static_cast<int>(payload.size()));
    const transport::nats::MessagePtr owned{message};
    for (const auto& [name, value] : headers) {
      natsMsgHeader_Set(message, name.c_str(), value.c_str());
    }
    natsConnection_PublishMsg(connection.get(), message);
    connection.flush(MonoTime::clock::now() + seconds{10});
  }
  /// The messages that the broker has delivered and that wait for an answer.
  int unanswered() {
    return server.ask("CONSUMER.INFO.SHOP.billing")["num_ack_pending"].get<int>();
  }

  NatsServer server;
};

TEST_F(NatsConsumerTest, MessagesArriveAndAreAcknowledgedByTheirTags) {
  std::vector<Message> messages;
  for (int i = 0; i < 500; ++i) messages.push_back(make_message("shop.a", std::to_string(i)));
  publish(messages);
  const auto receiver = consumer();
  std::vector<IncomingMessage> received;
  while (received.size() < messages.size()) {
    auto some = receiver->fetch(200, patient_call());
    ASSERT_FALSE(some.empty());
    ASSERT_LE(some.size(), 200U);
    receiver->ack(tags_of(some), patient_call());
    received.insert(received.end(), some.begin(), some.end());
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(received[i].id, messages[i].id.to_string());
    EXPECT_EQ(received[i].topic, "shop.a");
    EXPECT_EQ(received[i].payload, messages[i].payload);
  }
  EXPECT_TRUE(eventually([&] { return unanswered() == 0; }));
  EXPECT_TRUE(receiver->fetch(10, call_for(milliseconds{200})).empty());
}

TEST_F(NatsConsumerTest, AMessageThatIsNotAcknowledgedComesAgainAfterTheProcessEnded) {
  publish({make_message("shop.a")});
  std::string first;
  {
    const auto receiver = consumer(milliseconds{500});
    first = receiver->fetch(10, patient_call()).at(0).id;
  }
  EXPECT_EQ(consumer()->fetch(10, patient_call()).at(0).id, first);
}

TEST_F(NatsConsumerTest, AMessageThatIsBeingStoredDoesNotComeAgain) {
  publish({make_message("shop.a")});
  const auto receiver = consumer(milliseconds{400});
  const auto first = receiver->fetch(10, patient_call());
  ASSERT_EQ(first.size(), 1U);
  // Longer than ack_wait: without the signal that it is in progress, it would come again.
  EXPECT_TRUE(receiver->fetch(10, call_for(milliseconds{1'500})).empty());
  receiver->ack(tags_of(first), patient_call());
  EXPECT_TRUE(eventually([&] { return unanswered() == 0; }));
}

TEST_F(NatsConsumerTest, AMessageThatIsGivenBackComesAgain) {
  publish({make_message("shop.a")});
  const auto receiver = consumer();
  const auto first = receiver->fetch(10, patient_call());
  receiver->give_back(tags_of(first), patient_call());
  const auto again = receiver->fetch(10, patient_call());
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].id, first.at(0).id);
  EXPECT_NE(again[0].tag, first[0].tag);
}

TEST_F(NatsConsumerTest, AFetchThatWaitsReceivesAMessageThatComesLater) {
  const auto receiver = consumer();
  publish({make_message("shop.a")});
  EXPECT_EQ(receiver->fetch(10, patient_call()).size(), 1U);
  std::jthread later([&] { publish({make_message("shop.a")}); });
  EXPECT_EQ(receiver->fetch(10, patient_call()).size(), 1U);
}

TEST_F(NatsConsumerTest, AStopEndsAFetch) {
  const auto receiver = consumer();
  publish({make_message("shop.a")});
  EXPECT_EQ(receiver->fetch(10, patient_call()).size(), 1U);
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_TRUE(receiver->fetch(10, call_for(std::chrono::hours{1}, stop.get_token())).empty());
}

TEST_F(NatsConsumerTest, TheIdComesFromTheEventOrTheBrokersHeaderOrThePlaceInTheStream) {
  publish_raw("a", {{"ce-specversion", "1.0"},
                    {"ce-id", "event-1"},
                    {"ce-type", "order.paid"},
                    {"ce-source", "/shop"},
                    {"Nats-Msg-Id", "another"}});
  publish_raw("b", {{"Nats-Msg-Id", "own-1"}, {"colour", "red"}});
  publish_raw("c", {});
  const auto messages = consumer()->fetch(10, patient_call());
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0].id, "event-1");
  EXPECT_EQ(messages[0].topic, "order.paid");
  EXPECT_EQ(messages[1].id, "own-1");
  EXPECT_EQ(messages[1].topic, "");
  EXPECT_EQ(messages[1].headers.at("colour"), "red");
  EXPECT_FALSE(messages[1].headers.contains("Nats-Msg-Id"));
  EXPECT_EQ(messages[2].id, "SHOP:3");
  for (const auto& message : messages) EXPECT_FALSE(message.problem) << *message.problem;
}

TEST_F(NatsConsumerTest, AMessageThatCannotBeReadSaysWhy) {
  publish_raw("a", {{"ce-specversion", "2.0"}, {"ce-id", "event-1"}, {"ce-type", "t"}});
  publish_raw("\xFF\xFE", {});
  publish_raw("c", {{"ce-specversion", "1.0"}, {"ce-id", "event-2"}});
  publish_raw("d", {{"Nats-Msg-Id", std::string(300, 'x')}});
  const auto messages = consumer()->fetch(10, patient_call());
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_THAT(messages[0].problem.value_or(""), HasSubstr("2.0"));
  EXPECT_THAT(messages[1].problem.value_or(""), HasSubstr("UTF-8"));
  EXPECT_EQ(messages[1].id, "SHOP:2");
  EXPECT_THAT(messages[2].problem.value_or(""), HasSubstr("type"));
  EXPECT_THAT(messages[3].problem.value_or(""), HasSubstr("255"));
  EXPECT_EQ(messages[3].id, "SHOP:4");
}

TEST_F(NatsConsumerTest, AfterAnOutageTheMessagesComeAgainAndOldTagsAreVoid) {
  publish({make_message("shop.a"), make_message("shop.a")});
  const auto receiver = consumer(milliseconds{200});
  const auto first = receiver->fetch(10, patient_call());
  ASSERT_EQ(first.size(), 2U);
  server.kill();
  EXPECT_THROW((void)receiver->fetch(10, patient_call()), std::runtime_error);
  server.start();
  std::vector<IncomingMessage> again;
  EXPECT_TRUE(eventually([&] {
    try {
      for (auto& message : receiver->fetch(10, call_for(seconds{5}))) again.push_back(message);
    } catch (const std::runtime_error&) {
    }
    return again.size() == 2;
  }));
  receiver->ack(tags_of(first), patient_call());
  EXPECT_EQ(unanswered(), 2);
  receiver->ack(tags_of(again), patient_call());
  EXPECT_TRUE(eventually([&] { return unanswered() == 0; }));
}

TEST_F(NatsConsumerTest, AConsumerThatWasDeletedIsCreatedAgain) {
  const auto receiver = consumer();
  publish({make_message("shop.a")});
  EXPECT_EQ(receiver->fetch(10, patient_call()).size(), 1U);
  server.ask("CONSUMER.DELETE.SHOP.billing");
  EXPECT_TRUE(eventually([&] {
    try {
      return receiver->fetch(10, call_for(seconds{5})).size() == 1;
    } catch (const std::runtime_error&) {
      return false;
    }
  }));
}

TEST_F(NatsConsumerTest, AStreamThatIsMissingAndAConsumerOfAnotherKindAreErrors) {
  const Nats nats({.urls = {server.url()}});
  try {
    (void)nats.consumer({.stream = "MISSING", .durable = "a"})->fetch(1, patient_call());
    ADD_FAILURE();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("stream not found"));
  }
  server.ask("CONSUMER.DURABLE.CREATE.SHOP.push",
             {{"stream_name", "SHOP"},
              {"config",
               {{"durable_name", "push"}, {"deliver_subject", "x"}, {"ack_policy", "explicit"}}}});
  try {
    (void)nats.consumer({.stream = "SHOP", .durable = "push"})->fetch(1, patient_call());
    ADD_FAILURE();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("not a pull consumer"));
  }
}

TEST_F(NatsConsumerTest, OnlyMessagesOfTheFilterArrive) {
  publish({make_message("shop.a"), make_message("shop.b"), make_message("shop.a")});
  const auto receiver =
      Nats({.urls = {server.url()}})
          .consumer({.stream = "SHOP", .durable = "filtered", .filter_subject = "shop.b"});
  const auto messages = receiver->fetch(10, patient_call());
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].topic, "shop.b");
}

}  // namespace
}  // namespace dovetail::testing
