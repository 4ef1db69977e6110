// Kafka against the mock cluster of librdkafka, which is a part of this process.
#include "dovetail/kafka.hpp"

#include <librdkafka/rdkafka.h>
// After rdkafka.h.
#include <librdkafka/rdkafka_mock.h>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "transport/kafka/group_member.hpp"
#include "transport/kafka/mapping.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr std::int16_t produce_api = 0;

TransportCall kafka_call(std::chrono::milliseconds limit = 20s) {
  return {.deadline = std::chrono::steady_clock::now() + limit, .source = "shop"};
}

Message kafka_message(std::string payload = "{}", std::string topic = "orders") {
  Message message{.id = MessageId::generate(), .topic = std::move(topic)};
  message.payload = std::move(payload);
  return message;
}

const auto is_confirmed_by_kafka = Field(&PublishOutcome::result, PublishResult::confirmed);

class KafkaMock : public ::testing::Test {
 protected:
  KafkaMock() {
    auto* conf = rd_kafka_conf_new();
    std::array<char, 200> error{};
    rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", error.data(), error.size());
    rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t*, int, const char*, const char*) {});
    owner_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, conf, error.data(), error.size()));
    cluster = rd_kafka_handle_mock_cluster(owner_.get());
    rd_kafka_mock_topic_create(cluster, "orders", 3, 1);
  }

  [[nodiscard]] KafkaOptions options() const {
    // The mock cluster lets a new member wait as long as the session of one that has left.
    return {.url = std::string{"kafka://"} + rd_kafka_mock_cluster_bootstraps(cluster),
            .properties = {{"session.timeout.ms", "6000"}, {"heartbeat.interval.ms", "500"}}};
  }
  [[nodiscard]] std::shared_ptr<Publisher> publisher() const {
    return Kafka(options()).publisher();
  }
  [[nodiscard]] std::shared_ptr<Consumer> consumer() const {
    return Kafka(options()).consumer({.topics = {"orders"}, .group = "billing"});
  }
  static std::vector<IncomingMessage> fetched(Consumer& consumer, std::size_t count) {
    std::vector<IncomingMessage> all;
    const auto call = kafka_call(30s);
    while (all.size() < count && std::chrono::steady_clock::now() < call.deadline) {
      for (auto& each : consumer.fetch(count - all.size(), call)) all.push_back(std::move(each));
    }
    return all;
  }
  static std::vector<std::uint64_t> tags_of(const std::vector<IncomingMessage>& messages) {
    std::vector<std::uint64_t> tags;
    for (const auto& each : messages) tags.push_back(each.tag);
    return tags;
  }

 private:
  struct Destroy {
    void operator()(rd_kafka_t* handle) const { rd_kafka_destroy(handle); }
  };
  std::unique_ptr<rd_kafka_t, Destroy> owner_;

 protected:
  rd_kafka_mock_cluster_t* cluster = nullptr;
};

TEST_F(KafkaMock, AMessageArrivesAsItWasSent) {
  auto message = kafka_message("{\"text\": \"ä\"}");
  message.stream = "order-7";
  message.correlation_id = "c-1";
  message.headers = {{"traceparent", "00-a-b-01"}};
  EXPECT_THAT(publisher()->publish({&message, 1}, kafka_call()), Each(is_confirmed_by_kafka));
  const auto source = consumer();
  const auto received = fetched(*source, 1);
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(received[0].id, message.id.to_string());
  EXPECT_EQ(received[0].topic, "orders");
  EXPECT_EQ(received[0].payload, message.payload);
  EXPECT_EQ(received[0].stream, "order-7");
  EXPECT_EQ(received[0].correlation_id, "c-1");
  EXPECT_THAT(received[0].headers, Contains(Pair("traceparent", "00-a-b-01")));
  EXPECT_THAT(received[0].headers, Contains(Pair("ce_source", "shop")));
  source->ack(tags_of(received), kafka_call());
}

TEST_F(KafkaMock, WhatWasAckedIsNotDeliveredToTheNextMember) {
  std::vector<Message> messages(10);
  for (auto& each : messages) {
    each = kafka_message();
    each.stream = "one partition";
  }
  EXPECT_THAT(publisher()->publish(messages, kafka_call()), Each(is_confirmed_by_kafka));
  auto source = consumer();
  const auto received = fetched(*source, 10);
  ASSERT_THAT(received, SizeIs(10));
  const auto tags = tags_of(received);
  // The fifth is missing: the offset stays before it.
  source->ack(std::span{tags}.first(4), kafka_call());
  source->ack(std::span{tags}.subspan(5), kafka_call());
  source->close();
  source->ack(tags, kafka_call());  // void
  const auto again = fetched(*source, 6);
  ASSERT_THAT(again, SizeIs(6));
  EXPECT_EQ(again.front().id, received[4].id);
}

TEST_F(KafkaMock, WhatWasGivenBackIsDeliveredAgain) {
  std::vector<Message> messages(3);
  for (auto& each : messages) {
    each = kafka_message();
    each.stream = "one partition";
  }
  EXPECT_THAT(publisher()->publish(messages, kafka_call()), Each(is_confirmed_by_kafka));
  const auto source = consumer();
  const auto received = fetched(*source, 3);
  ASSERT_THAT(received, SizeIs(3));
  source->give_back(std::vector{received[1].tag}, kafka_call());
  const auto again = fetched(*source, 2);
  ASSERT_THAT(again, SizeIs(2));
  EXPECT_EQ(again[0].id, received[1].id);
  EXPECT_EQ(again[1].id, received[2].id);
}

TEST_F(KafkaMock, EachMessageHasItsOwnOutcome) {
  const std::vector messages{kafka_message("a"), kafka_message("b", "not a topic"),
                             kafka_message(std::string(2 << 20, 'x')), kafka_message("c")};
  const auto outcomes = publisher()->publish(messages, kafka_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::confirmed);
  EXPECT_EQ(outcomes.at(1).result, PublishResult::refused);
  EXPECT_THAT(outcomes.at(1).reason, HasSubstr("not a topic"));
  EXPECT_EQ(outcomes.at(2).result, PublishResult::refused);
  EXPECT_EQ(outcomes.at(3).result, PublishResult::confirmed);
}

TEST_F(KafkaMock, AMegabyteArrives) {
  const auto message = kafka_message(std::string((1 << 20) - 64'000, 'x'));
  EXPECT_THAT(publisher()->publish({&message, 1}, kafka_call()), Each(is_confirmed_by_kafka));
}

TEST_F(KafkaMock, APermanentErrorOfTheBrokerRejects) {
  rd_kafka_mock_push_request_errors(cluster, produce_api, 1,
                                    RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  const auto message = kafka_message();
  const auto outcome = publisher()->publish({&message, 1}, kafka_call()).at(0);
  EXPECT_EQ(outcome.result, PublishResult::rejected);
  EXPECT_THAT(outcome.reason, HasSubstr("authorization"));
}

TEST_F(KafkaMock, APassingErrorIsRetriedByTheLibrary) {
  rd_kafka_mock_push_request_errors(cluster, produce_api, 2,
                                    RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                    RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS);
  const auto message = kafka_message();
  EXPECT_THAT(publisher()->publish({&message, 1}, kafka_call()), Each(is_confirmed_by_kafka));
}

TEST_F(KafkaMock, AClusterThatIsDownChargesNoAttempt) {
  const auto target = publisher();
  const auto first = kafka_message("first");
  EXPECT_THAT(target->publish({&first, 1}, kafka_call()), Each(is_confirmed_by_kafka));
  rd_kafka_mock_broker_set_down(cluster, 1);
  const auto outcome = target->publish({&first, 1}, kafka_call(1s)).at(0);
  EXPECT_EQ(outcome.result, PublishResult::unavailable);
  EXPECT_THAT(outcome.reason, Not(::testing::IsEmpty()));
  EXPECT_THROW(target->probe(kafka_call(1s)), std::runtime_error);
  const auto source = consumer();
  EXPECT_THROW(static_cast<void>(source->fetch(1, kafka_call(20s))), std::runtime_error);
  rd_kafka_mock_broker_set_up(cluster, 1);
  target->probe(kafka_call());
  const auto second = kafka_message("second");
  EXPECT_THAT(target->publish({&second, 1}, kafka_call()), Each(is_confirmed_by_kafka));
  const auto received = fetched(*source, 2);
  ASSERT_THAT(received, SizeIs(2));
}

TEST(KafkaOffsets, OnlyTheFirstAcknowledgedOnesAreCommitted) {
  transport::kafka::OpenOffsets open;
  for (const std::int64_t offset : {3, 4, 7}) open.add(offset);
  open.ack(4);
  EXPECT_EQ(open.take_commit(), std::nullopt);
  open.ack(3);
  EXPECT_EQ(open.take_commit(), 5);
  EXPECT_EQ(open.take_commit(), std::nullopt);
  open.ack(7);
  open.ack(99);
  EXPECT_EQ(open.take_commit(), 8);
}

TEST(KafkaOptionsCheck, OptionsThatCannotWorkAreRefused) {
  EXPECT_EQ(Kafka({.url = "kafka+tls://a:1,b:2/"}).publisher()->address(), "kafka+tls://a:1,b:2");
  for (const auto* bad : {"", "kafka://", "http://a", "kafka://user:secret@a", "kafka://a/b"}) {
    try {
      Kafka({.url = bad});
      ADD_FAILURE() << bad;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
    }
  }
  EXPECT_THROW(Kafka({.properties = {{"no.such.property", "1"}}}), std::invalid_argument);
  EXPECT_THROW(Kafka({.password = "a", .password_file = "b"}), std::invalid_argument);
  EXPECT_THROW((void)Kafka{}.consumer({.topics = {"t"}}), std::invalid_argument);
  EXPECT_THROW((void)Kafka{}.consumer({.group = "g"}), std::invalid_argument);
  EXPECT_THROW((void)Kafka{}.publisher({.topic = "{nothing}"}), std::invalid_argument);
}

}  // namespace
}  // namespace dovetail::testing
