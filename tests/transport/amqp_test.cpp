// AMQP 1.0 against a real broker: RabbitMQ with its plugin.
#include "dovetail/amqp.hpp"

#include <fstream>
#include <set>

#include "support/eventually.hpp"
#include "transport/support/amqp_broker.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr const char* orders = "/amq/queue/orders";

TransportCall amqp_call(std::chrono::milliseconds limit = 20s) {
  return {.deadline = std::chrono::steady_clock::now() + limit, .source = "shop"};
}

Message amqp_message(std::string payload = "{}", std::string topic = "order.paid") {
  Message message{.id = MessageId::generate(), .topic = std::move(topic)};
  message.payload = std::move(payload);
  message.created_at =
      std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  return message;
}

const auto is_confirmed = Field(&PublishOutcome::result, PublishResult::confirmed);

class AmqpRabbit : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { broker_ = new AmqpBroker; }
  static void TearDownTestSuite() {
    delete broker_;
    broker_ = nullptr;
  }
  static AmqpBroker& broker() { return *broker_; }

  static AmqpOptions options() {
    return {.url = broker().url(), .user = "guest", .password = "guest"};
  }
  static std::shared_ptr<Publisher> publisher_to(std::string address) {
    return Amqp(options()).publisher({.address = std::move(address)});
  }
  static std::shared_ptr<Consumer> consumer_of(std::string address) {
    return Amqp(options()).consumer({.address = std::move(address)});
  }
  /// Fetches until there are `count` messages.
  static std::vector<IncomingMessage> fetched(Consumer& consumer, std::size_t count) {
    std::vector<IncomingMessage> all;
    const auto call = amqp_call();
    while (all.size() < count && std::chrono::steady_clock::now() < call.deadline) {
      for (auto& each : consumer.fetch(count - all.size(), call)) all.push_back(std::move(each));
    }
    return all;
  }
  static void ack_all(Consumer& consumer, const std::vector<IncomingMessage>& messages) {
    std::vector<std::uint64_t> tags;
    for (const auto& each : messages) tags.push_back(each.tag);
    consumer.ack(tags, amqp_call());
  }
  static bool accepts(Publisher& publisher) {
    try {
      publisher.probe(amqp_call(5s));
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  }
  /// Takes all messages out of the queue.
  static void drain(const std::string& address) {
    const auto consumer = consumer_of(address);
    while (true) {
      const auto left = consumer->fetch(100, amqp_call(300ms));
      if (left.empty()) return;
      ack_all(*consumer, left);
    }
  }

 private:
  static inline AmqpBroker* broker_ = nullptr;
};

TEST_F(AmqpRabbit, AMessageArrivesAsItWasSent) {
  auto message = amqp_message("{\"text\": \"ä\"}");
  message.stream = "order-7";
  message.correlation_id = "c-1";
  message.headers = {
      {"traceparent", "00-a-b-01"}, {"note", "\"100 %\" ä"}, {"content-type", "application/json"}};
  const auto publisher = publisher_to(orders);
  EXPECT_THAT(publisher->publish({&message, 1}, amqp_call()), Each(is_confirmed));
  EXPECT_EQ(publisher->kind(), "amqp");
  EXPECT_EQ(publisher->address(), broker().url());

  const auto consumer = consumer_of(orders);
  const auto received = fetched(*consumer, 1);
  ASSERT_THAT(received, SizeIs(1));
  const auto& incoming = received.front();
  EXPECT_EQ(incoming.id, message.id.to_string());
  EXPECT_EQ(incoming.topic, "order.paid");
  EXPECT_EQ(incoming.payload, message.payload);
  EXPECT_EQ(incoming.stream, "order-7");
  EXPECT_EQ(incoming.correlation_id, "c-1");
  EXPECT_EQ(incoming.problem, std::nullopt);
  EXPECT_THAT(incoming.headers, Contains(Pair("traceparent", "00-a-b-01")));
  EXPECT_THAT(incoming.headers, Contains(Pair("note", "\"100 %\" ä")));
  EXPECT_THAT(incoming.headers, Contains(Pair("content-type", "application/json")));
  EXPECT_THAT(incoming.headers, Contains(Pair("cloudEvents:source", "shop")));
  ack_all(*consumer, received);
  consumer->close();
  EXPECT_THAT(consumer->fetch(10, amqp_call(300ms)), IsEmpty());
}

TEST_F(AmqpRabbit, ManyMessagesAndAMegabyte) {
  std::vector<Message> messages;
  std::set<std::string> ids;
  for (int i = 0; i < 500; ++i) ids.insert(messages.emplace_back(amqp_message()).id.to_string());
  messages.push_back(amqp_message(std::string(1 << 20, 'x')));
  ids.insert(messages.back().id.to_string());
  EXPECT_THAT(publisher_to("/amq/queue/many")->publish(messages, amqp_call()), Each(is_confirmed));
  const auto consumer = consumer_of("/amq/queue/many");
  const auto received = fetched(*consumer, messages.size());
  std::set<std::string> received_ids;
  for (const auto& each : received) received_ids.insert(each.id);
  EXPECT_EQ(received_ids, ids);
  EXPECT_EQ(received.back().payload.size(), std::size_t{1} << 20);
  ack_all(*consumer, received);
}

TEST_F(AmqpRabbit, NoMoreMessagesAreDeliveredThanAskedFor) {
  std::vector<Message> messages(20);
  for (auto& each : messages) each = amqp_message();
  EXPECT_THAT(publisher_to("/amq/queue/fair")->publish(messages, amqp_call()), Each(is_confirmed));
  const auto greedy = consumer_of("/amq/queue/fair");
  const auto first = fetched(*greedy, 5);
  ASSERT_THAT(first, SizeIs(5));
  // The others are free for another consumer.
  const auto second = consumer_of("/amq/queue/fair");
  const auto rest = fetched(*second, 15);
  EXPECT_THAT(rest, SizeIs(15));
  ack_all(*greedy, first);
  ack_all(*second, rest);
}

TEST_F(AmqpRabbit, WhatWasGivenBackOrNotAckedIsDeliveredAgain) {
  const auto message = amqp_message();
  EXPECT_THAT(publisher_to("/amq/queue/again")->publish({&message, 1}, amqp_call()),
              Each(is_confirmed));
  const auto consumer = consumer_of("/amq/queue/again");
  auto received = fetched(*consumer, 1);
  ASSERT_THAT(received, SizeIs(1));
  consumer->give_back(std::vector{received.front().tag}, amqp_call());
  received = fetched(*consumer, 1);
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received.front().id, message.id.to_string());
  const auto void_tag = received.front().tag;
  consumer->close();
  consumer->ack(std::vector{void_tag}, amqp_call());  // ignored
  received = fetched(*consumer, 1);
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_NE(received.front().tag, void_tag);
  consumer->ack(std::vector{void_tag}, amqp_call());  // of the old connection
  ack_all(*consumer, received);
}

TEST_F(AmqpRabbit, AnAddressThatIsUnknownRejectsOnlyItsMessages) {
  const std::vector messages{amqp_message("{}", "amq.fanout"), amqp_message("{}", "absent"),
                             amqp_message("{}", "amq.topic")};
  const auto publisher = publisher_to("/exchange/{topic}/key");
  const auto outcomes = publisher->publish(messages, amqp_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::confirmed);
  EXPECT_EQ(outcomes.at(1).result, PublishResult::rejected);
  EXPECT_THAT(outcomes.at(1).reason, AllOf(HasSubstr("absent"), HasSubstr("not-found")));
  EXPECT_EQ(outcomes.at(2).result, PublishResult::confirmed);
  // The connection goes on.
  EXPECT_EQ(publisher->publish({&messages[0], 1}, amqp_call()).at(0).result,
            PublishResult::confirmed);
}

// RabbitMQ's plugin ends the connection instead of rejecting the message.
TEST_F(AmqpRabbit, AFullQueueConfirmsNothing) {
  const auto publisher = publisher_to("/amq/queue/small");
  const auto first = amqp_message();
  EXPECT_THAT(publisher->publish({&first, 1}, amqp_call()), Each(is_confirmed));
  const auto second = amqp_message();
  const auto outcome = publisher->publish({&second, 1}, amqp_call(3s)).at(0);
  EXPECT_NE(outcome.result, PublishResult::confirmed);
  EXPECT_THAT(outcome.reason, Not(IsEmpty()));
  drain("/amq/queue/small");
}

TEST_F(AmqpRabbit, AWrongPasswordIsAnErrorWithoutThePassword) {
  auto wrong = options();
  wrong.password = "not-the-password";
  const auto message = amqp_message();
  try {
    static_cast<void>(
        Amqp(wrong).publisher({.address = orders})->publish({&message, 1}, amqp_call()));
    ADD_FAILURE() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("unauthorized"), Not(HasSubstr("not-the-pass"))));
  }
}

TEST_F(AmqpRabbit, ThePasswordCanBeInAFileOrInTheUrl) {
  const TemporaryDirectory folder;
  const auto path = (folder.path() / "password").string();
  std::ofstream{path} << "guest\n";
  Amqp({.url = broker().url(), .user = "guest", .password_file = path})
      .publisher()
      ->probe(amqp_call());
  auto url = broker().url();
  url.insert(url.find("//") + 2, "guest:g%75est@");
  const auto publisher = Amqp({.url = url}).publisher();
  publisher->probe(amqp_call());
  EXPECT_EQ(publisher->address(), broker().url());
}

TEST_F(AmqpRabbit, TlsChecksTheCertificateAndTheName) {
  const auto probe = [](const std::string& host, const std::string& ca_file) {
    Amqp({.url = broker().tls_url(host), .user = "guest", .password = "guest", .ca_file = ca_file})
        .publisher()
        ->probe(amqp_call());
  };
  const auto& trusted = broker().tls().certificate_file;
  EXPECT_NO_THROW(probe("localhost", trusted));
  EXPECT_THROW(probe("127.0.0.1", trusted), std::runtime_error);
  EXPECT_THROW(probe("localhost", ""), std::runtime_error);
}

TEST_F(AmqpRabbit, TheBrokerIsKilledAndStartedAgain) {
  const auto publisher = publisher_to("/amq/queue/survivors");
  const auto consumer = consumer_of("/amq/queue/survivors");
  const auto first = amqp_message("first");
  EXPECT_THAT(publisher->publish({&first, 1}, amqp_call()), Each(is_confirmed));
  ASSERT_THAT(fetched(*consumer, 1), SizeIs(1));  // not acknowledged
  broker().kill();
  EXPECT_THROW(static_cast<void>(consumer->fetch(1, amqp_call())), std::runtime_error);
  EXPECT_TRUE(eventually([&] { return !accepts(*publisher); }));
  EXPECT_THROW(static_cast<void>(publisher->publish({&first, 1}, amqp_call(2s))),
               std::runtime_error);
  broker().start();
  EXPECT_TRUE(eventually([&] { return accepts(*publisher); }));
  const auto second = amqp_message("second");
  EXPECT_THAT(publisher->publish({&second, 1}, amqp_call()), Each(is_confirmed));
  const auto received = fetched(*consumer, 2);
  ASSERT_THAT(received, SizeIs(2));
  EXPECT_EQ(received[0].payload, "first");
  EXPECT_EQ(received[1].payload, "second");
  ack_all(*consumer, received);
}

}  // namespace
}  // namespace dovetail::testing
