// Rules of webhooks without a network: addresses, answers, headers.
#include <gmock/gmock.h>

#include "transport/webhook/address_rules.hpp"
#include "transport/webhook/answer.hpp"
#include "transport/webhook/message_headers.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
namespace webhook = transport::webhook;
using webhook::is_public;
using webhook::outcome_of;
using webhook::parse_address;
using webhook::parse_network;

bool is_public_text(const char* text) {
  return is_public(parse_address(text).value());
}

TEST(WebhookAddresses, PublicOnesAreAllowed) {
  for (const auto* each :
       {"1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "192.169.0.1", "2606:4700:4700::1111",
        "2a00:1450:4001:80b::200e", "::ffff:1.1.1.1", "64:ff9b::101:101", "223.255.255.255"}) {
    EXPECT_TRUE(is_public_text(each)) << each;
  }
}

TEST(WebhookAddresses, SpecialOnesAreNot) {
  for (const auto* each : {"0.0.0.0",
                           "0.1.2.3",
                           "10.0.0.1",
                           "100.64.0.1",
                           "127.0.0.1",
                           "127.255.255.254",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.1",
                           "192.0.2.1",
                           "192.168.1.1",
                           "198.18.0.1",
                           "198.51.100.1",
                           "203.0.113.1",
                           "224.0.0.1",
                           "240.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::7f00:1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::ffff:0:127.0.0.1",
                           "64:ff9b::7f00:1",
                           "64:ff9b::a00:1",
                           "64:ff9b:1::1",
                           "100::1",
                           "2001::1",
                           "2001:db8::1",
                           "2002:7f00:1::1",
                           "3fff::1",
                           "fc00::1",
                           "fd12:3456::1",
                           "fe80::1",
                           "fec0::1",
                           "ff02::1"}) {
    EXPECT_FALSE(is_public_text(each)) << each;
  }
}

TEST(WebhookAddresses, AllowedNetworksAreExceptions) {
  const webhook::AddressRules rules({"127.0.0.1", "10.1.0.0/16", "fd00::/8"});
  const auto allows = [&](const char* text) { return rules.allows(parse_address(text).value()); };
  EXPECT_TRUE(allows("127.0.0.1"));
  EXPECT_TRUE(allows("::ffff:127.0.0.1"));
  EXPECT_FALSE(allows("127.0.0.2"));
  EXPECT_TRUE(allows("10.1.255.255"));
  EXPECT_FALSE(allows("10.2.0.0"));
  EXPECT_TRUE(allows("fd12::1"));
  EXPECT_FALSE(allows("fc12::1"));
  EXPECT_TRUE(allows("1.1.1.1"));
}

TEST(WebhookAddresses, ABadNetworkIsRefused) {
  for (const auto* bad : {"", "x", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/-1",
                          "10.0.0.0/8x", "localhost"}) {
    EXPECT_THROW((void)parse_network(bad), std::invalid_argument) << bad;
  }
}

const WallTime now{std::chrono::sys_seconds{std::chrono::seconds{1'445'412'480}}};

TEST(WebhookAnswer, TheStatusDecides) {
  const auto result = [](int status) { return outcome_of({.status = status}, now).result; };
  for (const int status : {200, 201, 202, 204, 299})
    EXPECT_EQ(result(status), PublishResult::confirmed) << status;
  for (const int status : {300, 301, 302, 307, 308, 400, 401, 404, 413, 422, 429, 500, 503, 599})
    EXPECT_EQ(result(status), PublishResult::rejected) << status;
  EXPECT_EQ(result(410), PublishResult::refused);
}

TEST(WebhookAnswer, RetryAfterIsSecondsOrADate) {
  EXPECT_EQ(webhook::parse_retry_after(" 120 ", now), 120s);
  EXPECT_EQ(webhook::parse_retry_after("Wed, 21 Oct 2015 07:28:30 GMT", now), 30s);
  EXPECT_EQ(webhook::parse_retry_after("Wed, 21 Oct 2015 07:27:00 GMT", now), 0s);
  EXPECT_EQ(webhook::parse_retry_after("999999999999999999999", now), 24h);
  EXPECT_EQ(webhook::parse_retry_after("86401", now), 24h);
  EXPECT_EQ(webhook::parse_retry_after("soon", now), std::nullopt);
  EXPECT_EQ(webhook::parse_retry_after("", now), std::nullopt);
}

TEST(WebhookAnswer, TheReasonIsShortAndOnOneLine) {
  const auto outcome =
      outcome_of({.status = 422, .body = "no\r\n\x1b[31msuch\xFF " + std::string(999, 'x')}, now);
  EXPECT_THAT(outcome.reason, HasSubstr("answered 422: no   [31msuch? xxx"));
  EXPECT_LT(outcome.reason.size(), 260U);
  EXPECT_THAT(outcome_of({.status = 302}, now).reason, HasSubstr("redirects are not followed"));
}

Message message_with(Headers headers, std::string payload = "{}") {
  Message message{.id = MessageId::generate(), .topic = "order.zahlung ä"};
  message.payload = std::move(payload);
  message.headers = std::move(headers);
  return message;
}

TEST(WebhookHeaders, AreCloudEventsInBinaryMode) {
  auto message = message_with({{"traceparent", "00-a-b-01"}, {"note", "\"100 %\" \r\nx: y"}});
  message.stream = "order 7";
  message.correlation_id = "c";
  const auto headers = webhook::message_headers(message, "shop");
  EXPECT_THAT(headers, Contains(Pair("ce-specversion", "1.0")));
  EXPECT_THAT(headers, Contains(Pair("ce-id", message.id.to_string())));
  EXPECT_THAT(headers, Contains(Pair("ce-type", "order.zahlung%20%C3%A4")));
  EXPECT_THAT(headers, Contains(Pair("ce-source", "shop")));
  EXPECT_THAT(headers, Contains(Pair("ce-partitionkey", "order%207")));
  EXPECT_THAT(headers, Contains(Pair("ce-correlationid", "c")));
  EXPECT_THAT(headers, Contains(Pair("content-type", "application/json")));
  EXPECT_THAT(headers, Contains(Pair("traceparent", "00-a-b-01")));
  EXPECT_THAT(headers, Contains(Pair("note", "%22100%20%25%22%20%0D%0Ax:%20y")));
}

TEST(WebhookHeaders, TheContentTypeIsThatOfTheMessage) {
  const auto type = [](Headers headers, const char* payload) {
    return webhook::message_headers(message_with(std::move(headers), payload), "s")
        .at("content-type");
  };
  EXPECT_EQ(type({}, "hello"), "text/plain; charset=utf-8");
  EXPECT_EQ(type({{"Content-Type", "text/xml; charset=utf-8"}}, "<a/>"), "text/xml; charset=utf-8");
  EXPECT_EQ(type({{"content-type", "a/b\r\nhost: x"}}, ""), "a/bhost: x");
}

TEST(WebhookHeaders, ThoseOfHttpAndOfTheSignatureAreLeftOut) {
  const auto headers = webhook::message_headers(
      message_with({{"Host", "a"}, {"content-length", "1"}, {"Webhook-Id", "x"}, {"CE-ID", "y"}}),
      "s");
  for (const auto* name : {"Host", "content-length", "Webhook-Id", "CE-ID"})
    EXPECT_THAT(headers, Not(Contains(Key(name))));
}

TEST(WebhookHeaders, AReceivedMessageIsTheOneThatWasSent) {
  auto message = message_with({{"traceparent", "00-a-b-01"}, {"note", "\"100 %\" ä"}});
  message.stream = "order 7";
  message.correlation_id = "c";
  auto headers = webhook::message_headers(message, "shop");
  headers.insert({{"webhook-id", "id-1"},
                  {"host", "h"},
                  {"cookie", "secret"},
                  {"authorization", "Bearer secret"},
                  {"x-forwarded-for", "1.1.1.1"},
                  {"dovetail-source", "x"}});
  const auto received = webhook::received_message(headers, "{}");
  EXPECT_EQ(received.id, "id-1");
  EXPECT_EQ(received.topic, message.topic);
  EXPECT_EQ(received.stream, message.stream);
  EXPECT_EQ(received.correlation_id, "c");
  EXPECT_THAT(received.headers, Contains(Pair("note", "\"100 %\" ä")));
  EXPECT_THAT(received.headers, Contains(Pair("traceparent", "00-a-b-01")));
  for (const auto* name :
       {"webhook-id", "host", "cookie", "authorization", "x-forwarded-for", "dovetail-source"})
    EXPECT_THAT(received.headers, Not(Contains(Key(name))));
}

}  // namespace
}  // namespace dovetail::testing
