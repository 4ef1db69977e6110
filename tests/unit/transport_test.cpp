// Rules of transports that need no database: patterns, CloudEvents, the breaker, settings.
#include <gmock/gmock.h>

#include <stdexcept>

#include "core/topic_pattern.hpp"
#include "dovetail/error.hpp"
#include "transport/breaker.hpp"
#include "transport/cloud_events.hpp"
#include "transport/kind.hpp"
#include "transport/route_topics.hpp"

namespace dovetail {
namespace {

using namespace std::chrono_literals;
using core::matches;
using transport::Breaker;

// --- patterns

TEST(TopicPattern, AStarMatchesAnyText) {
  EXPECT_TRUE(matches("order.*", "order.paid.eu"));
  EXPECT_TRUE(matches("order.*", "order."));
  EXPECT_FALSE(matches("order.*", "order"));
  EXPECT_FALSE(matches("order.*", "Order.paid"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*.paid", "order.eu.paid"));
  EXPECT_TRUE(matches("a*b*c", "aXbXbYc"));
  EXPECT_FALSE(matches("a*b*c", "aXbXbY"));
  EXPECT_TRUE(matches("exact", "exact"));
  EXPECT_FALSE(matches("exact", "exactly"));
}

TEST(TopicPattern, ATopicHasOneRoute) {
  const std::vector<std::string> routes{"*", "order.*", "*.paid", "order.exact"};
  const auto route_of = [&](std::string_view topic) {
    std::vector<std::string> found;
    for (const auto& route : routes) {
      if (transport::is_route_of(topic, route, routes)) found.push_back(route);
    }
    return found;
  };
  EXPECT_EQ(route_of("invoice"), std::vector<std::string>{"*"});
  EXPECT_EQ(route_of("order.paid"), std::vector<std::string>{"order.*"});
  EXPECT_EQ(route_of("order.exact"), std::vector<std::string>{"order.exact"});
  EXPECT_EQ(route_of("invoice.paid"), std::vector<std::string>{"*.paid"});
  EXPECT_TRUE(route_of("fanout:reports").empty());
}

// --- CloudEvents

Message message() {
  return {.id = MessageId::generate(),
          .topic = "order.paid",
          .payload = "{}",
          .correlation_id = "c 1",
          .headers = {{"traceparent", "00-1-2-01"}, {"größe", "50 %"}},
          .stream = "order-7"};
}

TEST(CloudEvents, AMessageSurvivesTheWayThroughHeaders) {
  for (const bool encode : {true, false}) {
    const transport::HeaderRules rules{.prefix = encode ? "ce-" : "cloudEvents_",
                                       .percent_encode = encode};
    const auto sent = message();
    IncomingMessage received;
    EXPECT_TRUE(transport::read_cloud_event(
        transport::cloud_event_headers(sent, "sqlite:orders.db", rules), received, rules));
    EXPECT_EQ(received.id, sent.id.to_string());
    EXPECT_EQ(received.topic, sent.topic);
    EXPECT_EQ(received.stream, sent.stream);
    EXPECT_EQ(received.correlation_id, sent.correlation_id);
    EXPECT_EQ(received.headers.at("größe"), "50 %");
    EXPECT_EQ(received.headers.at("traceparent"), "00-1-2-01");
    EXPECT_FALSE(received.problem);
  }
}

TEST(CloudEvents, HeadersOfHttpAreAscii) {
  const auto headers = transport::cloud_event_headers(message(), "a b");
  EXPECT_EQ(headers.at("ce-specversion"), "1.0");
  EXPECT_EQ(headers.at("ce-source"), "a%20b");
  EXPECT_EQ(headers.at("gr%C3%B6%C3%9Fe"), "50%20%25");
  EXPECT_EQ(transport::decoded("100%"), "100%");
  EXPECT_EQ(transport::decoded("%41%zz"), "A%zz");
}

TEST(CloudEvents, NamesOfAttributesHaveNoCase) {
  IncomingMessage received;
  EXPECT_TRUE(transport::read_cloud_event(
      {{"Ce-Specversion", "1.0"}, {"CE-ID", "7"}, {"Ce-Type", "t"}}, received));
  EXPECT_EQ(received.id, "7");
  EXPECT_EQ(received.topic, "t");
}

TEST(CloudEvents, OtherHeadersAndVersionsAreNoEvents) {
  IncomingMessage plain;
  EXPECT_FALSE(transport::read_cloud_event({{"ce-id", "7"}}, plain));
  EXPECT_EQ(plain.id, "");
  EXPECT_EQ(plain.headers.at("ce-id"), "7");
  IncomingMessage newer;
  EXPECT_TRUE(transport::read_cloud_event({{"ce-specversion", "2.0"}}, newer));
  EXPECT_TRUE(newer.problem);
}

TEST(CloudEvents, ATemplateNamesPartsOfTheMessage) {
  EXPECT_EQ(transport::filled("shop.{topic}.{stream}", message()), "shop.order.paid.order-7");
  EXPECT_THROW(static_cast<void>(transport::filled("{nobody}", message())), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(transport::filled("a}b", message())), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(transport::filled("{topic", message())), std::invalid_argument);
}

// --- the breaker

TEST(TransportBreaker, PausesGrowUntilAMessageIsConfirmed) {
  Breaker breaker(100ms, 1'000ms);
  MonoTime now{};
  EXPECT_TRUE(breaker.open("down", 1.0, now));
  EXPECT_FALSE(breaker.open("still down", 1.0, now));
  std::vector<MonoDuration> pauses;
  for (int i = 0; i < 5; ++i) {
    pauses.push_back(breaker.next_probe() - now);
    EXPECT_FALSE(breaker.begin_probe(now));
    now = breaker.next_probe();
    EXPECT_TRUE(breaker.begin_probe(now));
    EXPECT_FALSE(breaker.begin_probe(now)) << "one probe at a time";
    breaker.end_probe("refused", 1.0, now);
  }
  EXPECT_EQ(pauses, (std::vector<MonoDuration>{100ms, 200ms, 400ms, 800ms, 1'000ms}));
  EXPECT_EQ(breaker.reason(), "refused");
  now = breaker.next_probe();
  EXPECT_TRUE(breaker.begin_probe(now));
  breaker.end_probe({}, 1.0, now);
  EXPECT_FALSE(breaker.is_open());
  breaker.open("down again", 1.0, now);
  EXPECT_EQ(breaker.next_probe() - now, 1'000ms) << "no message was confirmed in between";
}

TEST(TransportBreaker, AConfirmationMakesThePausesShortAgain) {
  Breaker breaker(100ms, 1'000ms);
  breaker.open("down", 1.0, {});
  EXPECT_TRUE(breaker.begin_probe(breaker.next_probe()));
  breaker.end_probe({}, 1.0, {});
  breaker.note_success();
  breaker.open("down", 0.5, {});
  EXPECT_EQ(breaker.next_probe() - MonoTime{}, 50ms) << "a random part is left out";
}

// --- settings

TEST(TransportSettings, ValuesOutOfRangeAreRefused) {
  const transport::Settings settings{
      .values = {{"number", {"7"}}, {"time", {"250ms"}}, {"flag", {"yes"}}}};
  EXPECT_EQ(settings.number("number", 1, 10, 3), 7);
  EXPECT_EQ(settings.number("absent", 1, 10, 3), 3);
  EXPECT_THROW(static_cast<void>(settings.number("number", 8, 10, 9)), std::invalid_argument);
  EXPECT_EQ(settings.duration("time", 1ms, 1s, 5ms), 250ms);
  EXPECT_THROW(static_cast<void>(settings.duration("number", 1ms, 1s, 5ms)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(settings.flag("flag")), std::invalid_argument);
}

TEST(TransportSettings, AUrlIsShownWithoutItsPassword) {
  EXPECT_EQ(transport::without_secrets("nats://me:secret@host:4222/x"),
            "nats://me:***@host:4222/x");
  EXPECT_EQ(transport::without_secrets("nats://host/a@b"), "nats://host/a@b");
  EXPECT_EQ(transport::without_secrets("amqp://u:p%40@h"), "amqp://u:***@h");
}

}  // namespace
}  // namespace dovetail
