// Publishing to a real RabbitMQ server: what the broker answers, and what becomes of the message.
#include <set>
#include <thread>

#include "support/cutting_proxy.hpp"
#include "support/eventually.hpp"
#include "transport/support/rabbitmq_server.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class RabbitMqPublisherTest : public RabbitMqTest {
 protected:
  std::shared_ptr<Publisher> publisher(const RabbitMqPublisherOptions& options = {}) const {
    return RabbitMq({.urls = {server.url()}}).publisher(options);
  }
  /// The messages of the queue, which are acknowledged.
  std::vector<IncomingMessage> drained(const std::string& queue, std::size_t count) const {
    const auto consumer = RabbitMq({.urls = {server.url()}}).consumer({.queue = queue});
    std::vector<IncomingMessage> all;
    while (all.size() < count) {
      auto some = consumer->fetch(1'000, patient_call());
      if (some.empty()) break;
      consumer->ack(tags_of(some), patient_call());
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  /// The error of an attempt to connect.
  static std::string error_of(const RabbitMqOptions& options) {
    try {
      RabbitMq(options).publisher()->probe(call_for(seconds{20}));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(RabbitMqPublisherTest, EachMessageIsConfirmed) {
  server.add_queue("each");
  std::vector<Message> messages;
  for (int i = 0; i < 300; ++i) messages.push_back(make_message("each", std::to_string(i)));
  EXPECT_TRUE(all_confirmed(publisher()->publish(messages, patient_call())));
  const auto stored = drained("each", 300);
  ASSERT_EQ(stored.size(), 300U);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    EXPECT_EQ(stored[i].id, messages[i].id.to_string());
    EXPECT_EQ(stored[i].payload, messages[i].payload);
  }
}

TEST_F(RabbitMqPublisherTest, CallsOfSeveralThreadsDoNotMixTheirAnswers) {
  server.add_queue("threads");
  const auto connection = publisher();
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 10; ++round) {
        std::vector<Message> messages;
        for (int i = 0; i < 20; ++i) {
          messages.push_back(make_message(i == thread ? "nobody" : "threads"));
        }
        const auto outcomes = connection->publish(messages, patient_call());
        for (int i = 0; i < 20; ++i) {
          EXPECT_EQ(outcomes.at(static_cast<std::size_t>(i)).result,
                    i == thread ? PublishResult::rejected : PublishResult::confirmed);
        }
      }
    });
  }
  threads.clear();  // joins
  EXPECT_EQ(server.messages_in("threads"), 6 * 10 * 19);
}

TEST_F(RabbitMqPublisherTest, AMessageThatNoQueueReceivesIsRejectedAndTheOthersAreConfirmed) {
  server.add_queue("routed");
  const std::vector messages{make_message("routed"), make_message("nobody"),
                             make_message("routed")};
  const auto outcomes = publisher()->publish(messages, patient_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::confirmed);
  EXPECT_EQ(outcomes.at(1).result, PublishResult::rejected);
  EXPECT_THAT(outcomes.at(1).reason, HasSubstr("NO_ROUTE"));
  EXPECT_THAT(outcomes.at(1).reason, HasSubstr("nobody"));
  EXPECT_EQ(outcomes.at(2).result, PublishResult::confirmed);
}

TEST_F(RabbitMqPublisherTest, AFullQueueRejectsTheMessage) {
  server.add_queue("full", {{"x-overflow", "reject-publish"}}, {{"x-max-length", 2}});
  const auto connection = publisher();
  for (int i = 0; i < 2; ++i) {
    const std::vector one{make_message("full")};
    EXPECT_TRUE(all_confirmed(connection->publish(one, patient_call())));
  }
  const std::vector third{make_message("full")};
  const auto outcomes = connection->publish(third, patient_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::rejected);
  EXPECT_THAT(outcomes.at(0).reason, HasSubstr("basic.nack"));
}

TEST_F(RabbitMqPublisherTest, AMessageThatIsTooLargeIsRefusedAndTheOthersAreConfirmed) {
  server.add_queue("large");
  const std::vector messages{make_message("large", "a"),
                             make_message("large", std::string(5'000'000, 'x')),
                             make_message("large", "b")};
  const auto outcomes = publisher()->publish(messages, patient_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::confirmed) << outcomes.at(0).reason;
  EXPECT_EQ(outcomes.at(1).result, PublishResult::refused);
  EXPECT_THAT(outcomes.at(1).reason, HasSubstr("larger than"));
  EXPECT_EQ(outcomes.at(2).result, PublishResult::confirmed) << outcomes.at(2).reason;
}

TEST_F(RabbitMqPublisherTest, AnExchangeThatIsMissingRejectsWithTheBrokersWords) {
  const std::vector messages{make_message("a"), make_message("b")};
  const auto outcomes = publisher({.exchange = "missing"})->publish(messages, patient_call());
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.result, PublishResult::rejected);
    EXPECT_THAT(outcome.reason, HasSubstr("NOT_FOUND"));
  }
}

TEST_F(RabbitMqPublisherTest, APayloadOfOneMegabytePasses) {
  server.add_queue("megabyte");
  const std::vector messages{make_message("megabyte", std::string(1U << 20U, 'x'))};
  EXPECT_TRUE(all_confirmed(publisher()->publish(messages, patient_call())));
  EXPECT_EQ(drained("megabyte", 1).at(0).payload.size(), 1U << 20U);
}

TEST_F(RabbitMqPublisherTest, HeadersAreACloudEventAndTheBrokerObeysNoneOfTheUsers) {
  server.add_queue("headers");
  server.add_queue("copies");
  auto message = make_message("headers", "{\"n\":1}");
  message.stream = "customer 7";
  message.correlation_id = "größe";
  message.headers = {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
                     {"CC", "copies"},
                     {"name with space", "line\r\nbreak, 100 %, ü"}};
  const std::vector messages{message};
  EXPECT_TRUE(all_confirmed(publisher()->publish(messages, patient_call())));
  EXPECT_EQ(server.messages_in("copies"), 0);
  const auto read = drained("headers", 1).at(0);
  EXPECT_EQ(read.id, message.id.to_string());
  EXPECT_EQ(read.topic, "headers");
  EXPECT_EQ(read.stream, "customer 7");
  EXPECT_EQ(read.correlation_id, "größe");
  for (const auto& [name, value] : message.headers) EXPECT_EQ(read.headers.at(name), value);
  EXPECT_FALSE(read.problem);
}

TEST_F(RabbitMqPublisherTest, ARoutingKeyOrANameOfAHeaderThatIsTooLongIsRefused) {
  server.add_queue("long");
  auto with_header = make_message("long");
  with_header.headers = {{std::string(300, 'h'), "x"}};
  const std::vector messages{make_message(std::string(300, 't')), with_header,
                             make_message("long")};
  const auto outcomes = publisher()->publish(messages, patient_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::refused);
  EXPECT_EQ(outcomes.at(1).result, PublishResult::refused);
  EXPECT_EQ(outcomes.at(2).result, PublishResult::confirmed);
}

TEST_F(RabbitMqPublisherTest, ABrokerThatBlocksPublishersSaysWhyAndLosesNoMessage) {
  server.add_queue("blocked");
  const auto connection = publisher();
  connection->probe(patient_call());
  EXPECT_FALSE(connection->blocked());
  server.control({"set_vm_memory_high_watermark", "0"});
  const std::vector messages{make_message("blocked")};
  const auto outcomes = connection->publish(messages, call_for(seconds{1}));
  EXPECT_EQ(outcomes.at(0).result, PublishResult::unavailable);
  EXPECT_THAT(outcomes.at(0).reason, HasSubstr("low on memory"));
  EXPECT_THAT(connection->blocked().value_or(""), HasSubstr("low on memory"));
  EXPECT_THROW(connection->probe(call_for(seconds{1})), std::runtime_error);
  server.control({"set_vm_memory_high_watermark", "0.4"});
  EXPECT_TRUE(eventually([&] { return !connection->blocked(); }));
  publish_all(*connection, messages, seconds{10});
}

TEST_F(RabbitMqPublisherTest, CutConnectionsLoseNoMessageAndRepeatsHaveTheSameId) {
  server.add_queue("cut");
  CuttingProxy proxy(server.url());
  const auto connection = RabbitMq({.urls = {proxy.url()}}).publisher();
  std::set<std::string> expected;
  for (int round = 0; round < 6; ++round) {
    std::vector<Message> messages;
    for (int i = 0; i < 200; ++i) messages.push_back(make_message("cut", std::string(200, 'x')));
    for (const auto& message : messages) expected.insert(message.id.to_string());
    proxy.cut_answer_to(messages[static_cast<std::size_t>(round) * 20].id.to_string());
    publish_all(*connection, messages, seconds{5});
  }
  EXPECT_GE(proxy.cuts(), 3);
  std::set<std::string> arrived;
  const auto consumer = RabbitMq({.urls = {server.url()}}).consumer({.queue = "cut"});
  while (arrived.size() < expected.size()) {
    const auto messages = consumer->fetch(1'000, patient_call());
    ASSERT_FALSE(messages.empty()) << "messages are lost";
    for (const auto& message : messages) arrived.insert(message.id);
    consumer->ack(tags_of(messages), patient_call());
  }
  EXPECT_EQ(arrived, expected);
}

TEST_F(RabbitMqPublisherTest, ABrokerThatIsSilentMakesMessagesUnavailableAtTheDeadline) {
  server.add_queue("silent");
  CuttingProxy proxy(server.url());
  const auto connection = RabbitMq({.urls = {proxy.url()}}).publisher();
  connection->probe(patient_call());
  proxy.freeze();
  std::vector<Message> many;
  for (int i = 0; i < 20; ++i) many.push_back(make_message("silent", std::string(1U << 20U, 'x')));
  for (const auto& outcome : connection->publish(many, call_for(milliseconds{300}))) {
    EXPECT_EQ(outcome.result, PublishResult::unavailable);
    EXPECT_FALSE(outcome.reason.empty());
  }
  EXPECT_THROW(connection->probe(call_for(milliseconds{300})), std::runtime_error);
  proxy.thaw();
  publish_all(*connection, many, seconds{20});
}

TEST_F(RabbitMqPublisherTest, AStopEndsTheWaitForAConfirmation) {
  server.add_queue("stop");
  CuttingProxy proxy(server.url());
  const auto connection = RabbitMq({.urls = {proxy.url()}}).publisher();
  connection->probe(patient_call());
  proxy.freeze();
  std::stop_source stop;
  std::jthread stopper([&] {
    while (!proxy.holds_something_back()) std::this_thread::yield();
    stop.request_stop();
  });
  const std::vector messages{make_message("stop")};
  const auto outcomes =
      connection->publish(messages, call_for(std::chrono::minutes{10}, stop.get_token()));
  EXPECT_EQ(outcomes.at(0).result, PublishResult::unavailable);
  proxy.thaw();
}

TEST_F(RabbitMqPublisherTest, TlsRefusesABrokerWithAnotherName) {
  const auto port = std::to_string(server.tls_port());
  RabbitMqOptions options{.urls = {"amqps://localhost:" + port},
                          .tls = {.ca_file = server.certificate()}};
  EXPECT_EQ(error_of(options), "");
  options.urls = {"amqps://127.0.0.1:" + port};  // the certificate is for localhost
  EXPECT_THAT(error_of(options), HasSubstr("hostname"));
  options.urls = {"amqps://localhost:" + port};
  options.tls = {};  // nobody trusts the certificate
  EXPECT_THAT(error_of(options), HasSubstr("TLS"));
}

TEST_F(RabbitMqPublisherTest, LoginsComeFromFilesAndErrorsContainNoSecret) {
  const TemporaryDirectory folder;
  const auto file = (folder.path() / "password").string();
  std::ofstream{file} << "guest\n";
  EXPECT_EQ(error_of({.urls = {server.url()}, .password_file = file}), "");
  std::ofstream{file} << "wr0ng\n";
  const auto error = error_of({.urls = {server.url()}, .password_file = file});
  EXPECT_THAT(error, HasSubstr("ACCESS_REFUSED"));
  EXPECT_THAT(error, Not(HasSubstr("wr0ng")));
  EXPECT_THAT(error_of({.urls = {server.url()}, .password_file = "/missing"}),
              HasSubstr("/missing"));
  const auto port = std::to_string(server.port());
  const RabbitMqOptions in_url{.urls = {"amqp://guest:guest@127.0.0.1:" + port}};
  EXPECT_EQ(error_of(in_url), "");
  EXPECT_EQ(RabbitMq(in_url).publisher()->address(), "amqp://127.0.0.1:" + port);
  EXPECT_THAT(error_of({.urls = {"amqp://127.0.0.1:" + port + "/missing"}}),
              HasSubstr("vhost missing not found"));
}

TEST_F(RabbitMqPublisherTest, OptionsThatCannotWorkAreRefusedWithoutAConnection) {
  EXPECT_THROW(RabbitMq({.urls = {}}), std::invalid_argument);
  EXPECT_THROW(RabbitMq({.urls = {"http://127.0.0.1"}}), std::invalid_argument);
  EXPECT_THROW(RabbitMq({.heartbeat = seconds{0}}), std::out_of_range);
  EXPECT_THROW((void)RabbitMq().publisher({.routing_key = "{nothing}"}), std::invalid_argument);
  EXPECT_THROW((void)RabbitMq().consumer({}), std::invalid_argument);
}

}  // namespace
}  // namespace dovetail::testing
