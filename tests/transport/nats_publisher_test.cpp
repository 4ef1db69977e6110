// Publishing to a real nats-server: what the broker answers, and what becomes of the message.
#include <algorithm>
#include <set>
#include <thread>

#include "transport/nats/message.hpp"
#include "transport/support/nats_server.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::shared_ptr<Publisher> publisher_of(const NatsServer& server,
                                        const std::string& subject = "{topic}") {
  return Nats({.urls = {server.url()}}).publisher({.subject = subject});
}

/// The stored message with this number.
IncomingMessage stored(NatsServer& server, const std::string& stream, int sequence) {
  auto consumer = Nats({.urls = {server.url()}})
                      .consumer({.stream = stream, .durable = "reader" + std::to_string(sequence)});
  auto messages = consumer->fetch(100, patient_call());
  return messages.at(static_cast<std::size_t>(sequence - 1));
}

TEST(NatsPublisher, EachMessageIsConfirmedByItsOwnPubAck) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  const auto publisher = publisher_of(server, "shop.{topic}");
  std::vector<Message> messages;
  for (int i = 0; i < 300; ++i) messages.push_back(make_message("order.created"));
  const auto outcomes = publisher->publish(messages, patient_call());
  ASSERT_EQ(outcomes.size(), messages.size());
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.result, PublishResult::confirmed) << outcome.reason;
  }
  EXPECT_EQ(server.messages_in("SHOP"), 300U);
}

TEST(NatsPublisher, CallsOfSeveralThreadsDoNotMixTheirAnswers) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  const auto publisher = publisher_of(server);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 10; ++round) {
        std::vector<Message> messages;
        for (int i = 0; i < 20; ++i) {
          messages.push_back(make_message(i == thread ? "nobody.a" : "shop.a"));
        }
        const auto outcomes = publisher->publish(messages, patient_call());
        for (int i = 0; i < 20; ++i) {
          EXPECT_EQ(outcomes.at(static_cast<std::size_t>(i)).result,
                    i == thread ? PublishResult::rejected : PublishResult::confirmed);
        }
      }
    });
  }
  threads.clear();  // joins
  EXPECT_EQ(server.messages_in("SHOP"), 6U * 10U * 19U);
}

TEST(NatsPublisher, AMessageThatTheStreamHasIsConfirmedAndNotStoredAgain) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  const auto publisher = publisher_of(server);
  const std::vector messages{make_message("shop.a")};
  EXPECT_EQ(publisher->publish(messages, patient_call()).at(0).result, PublishResult::confirmed);
  EXPECT_EQ(publisher->publish(messages, patient_call()).at(0).result, PublishResult::confirmed);
  EXPECT_EQ(server.messages_in("SHOP"), 1U);
}

TEST(NatsPublisher, ASubjectWithoutAStreamIsRejectedAndTheOthersAreConfirmed) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  const std::vector messages{make_message("shop.a"), make_message("nobody.b"),
                             make_message("shop.c")};
  const auto outcomes = publisher_of(server)->publish(messages, patient_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::confirmed);
  EXPECT_EQ(outcomes.at(1).result, PublishResult::rejected);
  EXPECT_EQ(outcomes.at(1).reason, "no stream stores the subject nobody.b");
  EXPECT_EQ(outcomes.at(2).result, PublishResult::confirmed);
}

TEST(NatsPublisher, AFullStreamRejectsWithTheBrokersWords) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>", {{"max_msgs", 2}, {"discard", "new"}});
  const std::vector messages{make_message("shop.a"), make_message("shop.a"),
                             make_message("shop.a")};
  const auto outcomes = publisher_of(server)->publish(messages, patient_call());
  EXPECT_EQ(outcomes.at(1).result, PublishResult::confirmed);
  EXPECT_EQ(outcomes.at(2).result, PublishResult::rejected);
  EXPECT_THAT(outcomes.at(2).reason, HasSubstr("maximum messages exceeded"));
}

TEST(NatsPublisher, AMessageThatIsTooLargeIsRefusedForGood) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>", {{"max_msg_size", 1000}});
  const std::vector messages{make_message("shop.stream", std::string(2'000, 'x')),
                             make_message("shop.server", std::string(9U << 20U, 'x')),
                             make_message("shop.small")};
  const auto outcomes = publisher_of(server)->publish(messages, patient_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::refused);
  EXPECT_THAT(outcomes.at(0).reason, HasSubstr("message size exceeds maximum allowed"));
  EXPECT_EQ(outcomes.at(1).result, PublishResult::refused);
  EXPECT_THAT(outcomes.at(1).reason, HasSubstr("greater than maximum allowed"));
  EXPECT_EQ(outcomes.at(2).result, PublishResult::confirmed);
}

TEST(NatsPublisher, APayloadOfOneMegabytePasses) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  const std::vector messages{make_message("shop.a", std::string(1U << 20U, 'x'))};
  const auto outcomes = publisher_of(server)->publish(messages, patient_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::confirmed) << outcomes.at(0).reason;
  EXPECT_EQ(stored(server, "SHOP", 1).payload.size(), 1U << 20U);
}

TEST(NatsPublisher, ATopicThatNoSubjectCanHoldIsRefused) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  std::vector<Message> messages;
  for (const auto* topic : {"with space", "a.*", "a.>", "a..b", ".a", "a.", "a\r\nPUB x 0"}) {
    messages.push_back(make_message(topic));
  }
  messages.push_back(make_message("fine"));
  const auto outcomes = publisher_of(server, "shop.{topic}")->publish(messages, patient_call());
  for (std::size_t i = 0; i + 1 < messages.size(); ++i) {
    EXPECT_EQ(outcomes.at(i).result, PublishResult::refused) << messages[i].topic;
    EXPECT_THAT(outcomes.at(i).reason, HasSubstr("is not valid"));
  }
  EXPECT_EQ(outcomes.back().result, PublishResult::confirmed);
  EXPECT_EQ(server.messages_in("SHOP"), 1U);
}

TEST(NatsPublisher, TheSubjectMayContainTheStream) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  auto message = make_message("paid");
  message.stream = "customer-7";
  const std::vector messages{message, make_message("no-stream")};
  const auto outcomes =
      publisher_of(server, "shop.{stream}.{topic}")->publish(messages, patient_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::confirmed);
  EXPECT_EQ(outcomes.at(1).result, PublishResult::refused);
  const auto subjects =
      server.ask("STREAM.INFO.SHOP", {{"subjects_filter", ">"}})["state"]["subjects"];
  EXPECT_TRUE(subjects.contains("shop.customer-7.paid")) << subjects.dump();
}

TEST(NatsPublisher, HeadersAreACloudEventAndTheBrokerObeysNoneOfTheUsers) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>", {{"allow_rollup_hdrs", true}});
  const auto publisher = publisher_of(server);
  const std::vector first{make_message("shop.a")};
  EXPECT_EQ(publisher->publish(first, patient_call()).at(0).result, PublishResult::confirmed);
  auto message = make_message("shop.b", "{\"n\":1}");
  message.stream = "customer 7";
  message.correlation_id = "größe";
  message.headers = {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
                     {"Nats-Rollup", "all"},
                     {"name with space", "line\r\nbreak, 100 %, ü"}};
  const std::vector second{message};
  EXPECT_EQ(publisher->publish(second, patient_call()).at(0).result, PublishResult::confirmed);
  // The header Nats-Rollup would have deleted the first message.
  EXPECT_EQ(server.messages_in("SHOP"), 2U);
  const auto read = stored(server, "SHOP", 2);
  EXPECT_EQ(read.id, message.id.to_string());
  EXPECT_EQ(read.topic, "shop.b");
  EXPECT_EQ(read.payload, "{\"n\":1}");
  EXPECT_EQ(read.stream, "customer 7");
  EXPECT_EQ(read.correlation_id, "größe");
  for (const auto& [name, value] : message.headers) EXPECT_EQ(read.headers.at(name), value);
  EXPECT_FALSE(read.problem);
}

TEST(NatsPublisher, ASubjectThatTheUserMayNotPublishToIsRejected) {
  NatsServer server(
      "authorization { users: [ { user: admin, password: s3cret },\n"
      "  { user: shop, password: s3cret,\n"
      "    permissions: { publish: \"shop.allowed\", subscribe: \"_INBOX.>\" } } ] }");
  server.use_admin({.urls = {server.url()}, .user = "admin", .password = "s3cret"});
  server.add_stream("SHOP", "shop.>");
  const auto publisher =
      Nats({.urls = {server.url()}, .user = "shop", .password = "s3cret"}).publisher();
  const std::vector messages{make_message("shop.forbidden"), make_message("shop.allowed"),
                             make_message("shop.secret")};
  const auto outcomes = publisher->publish(messages, patient_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::rejected);
  EXPECT_THAT(outcomes.at(0).reason, HasSubstr("shop.forbidden"));
  EXPECT_EQ(outcomes.at(1).result, PublishResult::confirmed);
  EXPECT_EQ(outcomes.at(2).result, PublishResult::rejected);
  EXPECT_NO_THROW(publisher->probe(patient_call()));
}

TEST(NatsPublisher, WithoutJetStreamTheBrokerIsUnavailable) {
  NatsServer server({}, false);
  const auto publisher = publisher_of(server);
  const std::vector messages{make_message("shop.a")};
  const auto outcomes = publisher->publish(messages, patient_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::unavailable);
  EXPECT_EQ(outcomes.at(0).reason, "JetStream does not answer");
  EXPECT_THROW(publisher->probe(patient_call()), std::runtime_error);
}

TEST(NatsPublisher, OptionsThatCannotWorkAreRefusedWithoutAConnection) {
  EXPECT_THROW(Nats({.urls = {}}), std::invalid_argument);
  EXPECT_THROW(Nats({.urls = {"http://127.0.0.1"}}), std::invalid_argument);
  EXPECT_THROW(Nats({.urls = {"nats://127.0.0.1:99999"}}), std::invalid_argument);
  EXPECT_THROW(Nats({.connect_timeout = milliseconds{1}}), std::out_of_range);
  EXPECT_THROW(Nats({.tls = {.certificate_file = "a.pem"}}), std::invalid_argument);
  EXPECT_THROW((void)Nats().publisher({.subject = "shop.{nothing}"}), std::invalid_argument);
  EXPECT_THROW((void)Nats().consumer({.stream = "a.b", .durable = "c"}), std::invalid_argument);
  EXPECT_THROW((void)Nats().consumer({.stream = "A"}), std::invalid_argument);
}

}  // namespace
}  // namespace dovetail::testing
