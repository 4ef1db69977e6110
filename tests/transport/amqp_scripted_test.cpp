// AMQP 1.0 against a broker that does what the test says, and the mapping of messages.
#include <proton/map.hpp>
#include <proton/message.hpp>
#include <proton/message_id.hpp>
#include <proton/scalar.hpp>
#include <proton/value.hpp>

#include "dovetail/amqp.hpp"
#include "transport/amqp/broker.hpp"
#include "transport/amqp/mapping.hpp"
#include "transport/support/amqp_broker.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Answer = ScriptedBroker::Answer;

TransportCall scripted_call(std::chrono::milliseconds limit = 20s, std::stop_token stop = {}) {
  return {.deadline = std::chrono::steady_clock::now() + limit, .stop = std::move(stop)};
}

std::vector<Message> messages_with(const std::vector<std::string>& payloads) {
  std::vector<Message> messages;
  for (const auto& payload : payloads) {
    auto& message = messages.emplace_back(Message{.id = MessageId::generate(), .topic = "t"});
    message.payload = payload;
  }
  return messages;
}

std::shared_ptr<Publisher> publisher_at(const ScriptedBroker& broker) {
  return Amqp({.url = broker.url()}).publisher({.address = "q"});
}

TEST(AmqpOutcomes, EachMessageHasItsOwn) {
  ScriptedBroker broker({.answer = [](const std::string& body) {
    if (body == "reject") return Answer::reject;
    if (body == "release") return Answer::release;
    return body == "modify" ? Answer::modify : Answer::accept;
  }});
  const auto outcomes = publisher_at(broker)->publish(
      messages_with({"a", "reject", "release", "modify", "b"}), scripted_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::confirmed);
  EXPECT_EQ(outcomes.at(1).result, PublishResult::rejected);
  EXPECT_THAT(outcomes.at(1).reason,
              AllOf(HasSubstr("amqp:precondition-failed"), HasSubstr("the queue is full")));
  EXPECT_EQ(outcomes.at(2).result, PublishResult::rejected);
  EXPECT_EQ(outcomes.at(3).result, PublishResult::rejected);
  EXPECT_EQ(outcomes.at(4).result, PublishResult::confirmed);
}

TEST(AmqpOutcomes, AMessageThatIsTooLargeIsRefusedAndNotSent) {
  ScriptedBroker broker({.max_message_bytes = 10'000});
  const auto outcomes = publisher_at(broker)->publish(
      messages_with({std::string(9'990, 'x'), "small"}), scripted_call());
  EXPECT_EQ(outcomes.at(0).result, PublishResult::refused);
  EXPECT_THAT(outcomes.at(0).reason, HasSubstr("10000 bytes"));
  EXPECT_EQ(outcomes.at(1).result, PublishResult::confirmed);
  EXPECT_THAT(broker.received(), ElementsAre("small"));
}

TEST(AmqpOutcomes, WithoutCreditNothingIsSentAndThePublisherIsBlocked) {
  ScriptedBroker broker({.credit = 1});
  const auto publisher = publisher_at(broker);
  const auto outcomes = publisher->publish(messages_with({"a", "b"}), scripted_call(500ms));
  EXPECT_EQ(outcomes.at(0).result, PublishResult::confirmed);
  EXPECT_EQ(outcomes.at(1).result, PublishResult::unavailable);
  EXPECT_THAT(broker.received(), ElementsAre("a"));
  EXPECT_EQ(publisher->blocked(), "the broker grants no credit");
  broker.grant(10);
  EXPECT_THAT(publisher->publish(messages_with({"c"}), scripted_call()).at(0).result,
              PublishResult::confirmed);
  EXPECT_EQ(publisher->blocked(), std::nullopt);
  EXPECT_THAT(broker.received(), ElementsAre("a", "c"));  // not "b": its call was over
}

TEST(AmqpOutcomes, AMissingOutcomeChargesNoAttempt) {
  ScriptedBroker broker({.answer = [](const std::string&) { return Answer::nothing; }});
  const auto publisher = publisher_at(broker);
  const auto outcome = publisher->publish(messages_with({"a"}), scripted_call(300ms)).at(0);
  EXPECT_EQ(outcome.result, PublishResult::unavailable);
  EXPECT_THAT(outcome.reason, Not(IsEmpty()));
  EXPECT_EQ(publisher->blocked(), std::nullopt);
}

TEST(AmqpOutcomes, AStopEndsTheCall) {
  ScriptedBroker broker({.credit = 0});
  const auto publisher = publisher_at(broker);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(static_cast<void>(
                   publisher->publish(messages_with({"a"}), scripted_call(600s, stop.get_token()))),
               std::runtime_error);
}

TEST(AmqpOutcomes, ALinkThatTheBrokerClosesRejectsItsMessages) {
  ScriptedBroker broker({.answer = [](const std::string& body) {
    return body == "bad" ? Answer::close_link : Answer::accept;
  }});
  const auto publisher = publisher_at(broker);
  const auto outcome = publisher->publish(messages_with({"bad"}), scripted_call()).at(0);
  EXPECT_EQ(outcome.result, PublishResult::rejected);
  EXPECT_THAT(outcome.reason, HasSubstr("go away"));
  EXPECT_EQ(publisher->publish(messages_with({"good"}), scripted_call()).at(0).result,
            PublishResult::confirmed);
}

TEST(AmqpOutcomes, ABrokerThatEndsIsUnavailable) {
  auto broker = std::make_unique<ScriptedBroker>(
      ScriptedBroker::Script{.answer = [](const std::string&) { return Answer::nothing; }});
  const auto publisher = publisher_at(*broker);
  std::vector<PublishOutcome> outcomes;
  std::thread sender(
      [&] { outcomes = publisher->publish(messages_with({"a"}), scripted_call(60s)); });
  while (broker->received().empty()) std::this_thread::yield();
  broker.reset();
  sender.join();
  EXPECT_EQ(outcomes.at(0).result, PublishResult::unavailable);
  EXPECT_THROW(publisher->probe(scripted_call(2s)), std::runtime_error);
}

TEST(AmqpMapping, MessagesOfOthersHaveTheirOwnProperties) {
  proton::message foreign;
  foreign.id(std::uint64_t{42});
  foreign.subject("order.paid");
  foreign.group_id("s");
  foreign.correlation_id("c");
  foreign.properties().put("count", 7);
  foreign.properties().put("flag", true);
  foreign.body("text");
  const auto message = transport::amqp::from_amqp(foreign);
  EXPECT_EQ(message.id, "42");
  EXPECT_EQ(message.topic, "order.paid");
  EXPECT_EQ(message.stream, "s");
  EXPECT_EQ(message.correlation_id, "c");
  EXPECT_EQ(message.payload, "text");
  EXPECT_EQ(message.headers.at("count"), "7");
  EXPECT_EQ(message.headers.at("flag"), "true");
  EXPECT_EQ(message.problem, std::nullopt);
}

TEST(AmqpMapping, BothPrefixesOfCloudEventsAreRead) {
  for (const std::string prefix : {"cloudEvents:", "cloudEvents_"}) {
    proton::message foreign;
    foreign.properties().put(prefix + "specversion", "1.0");
    foreign.properties().put(prefix + "id", "e-1");
    foreign.properties().put(prefix + "type", "order.paid");
    const auto message = transport::amqp::from_amqp(foreign);
    EXPECT_EQ(message.id, "e-1") << prefix;
    EXPECT_EQ(message.topic, "order.paid") << prefix;
  }
}

TEST(AmqpMapping, ABodyThatIsNoTextIsAProblem) {
  proton::message foreign;
  foreign.body(7);
  EXPECT_EQ(transport::amqp::from_amqp(foreign).problem, "the body is neither data nor text");
}

TEST(AmqpOptionsCheck, TheUrlIsChecked) {
  using transport::amqp::parse_broker_url;
  EXPECT_EQ(parse_broker_url("amqp1://h").shown(), "amqp1://h:5672");
  EXPECT_EQ(parse_broker_url("amqp1s://u:p%40@h/").shown(), "amqp1s://h:5671");
  EXPECT_EQ(parse_broker_url("amqp1s://u:p%40@h/").password, "p@");
  EXPECT_EQ(parse_broker_url("amqp1://[::1]:7").address(), "amqp://[::1]:7");
  for (const auto* bad : {"", "amqp://h", "amqp1://", "amqp1://h:x", "amqp1://h:", "amqp1://h/q",
                          "amqp1://[::1", "amqp1://u:secret@h:1:2", "amqp1://h:123456"}) {
    try {
      static_cast<void>(parse_broker_url(bad));
      ADD_FAILURE() << bad;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
    }
  }
}

TEST(AmqpOptionsCheck, OptionsThatCannotWorkAreRefused) {
  EXPECT_THROW(Amqp({.url = "amqp1://h", .ca_file = "x"}), std::invalid_argument);
  EXPECT_THROW(Amqp({.url = "amqp1s://h", .certificate_file = "x"}), std::invalid_argument);
  EXPECT_THROW(Amqp({.password = "a", .password_file = "b"}), std::invalid_argument);
  EXPECT_THROW(Amqp({.idle_timeout = 10ms}), std::out_of_range);
  EXPECT_THROW((void)Amqp{}.consumer({}), std::invalid_argument);
  EXPECT_THROW((void)Amqp{}.publisher({.address = "{nothing}"}), std::invalid_argument);
}

}  // namespace
}  // namespace dovetail::testing
