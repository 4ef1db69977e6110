// Signed webhooks that the server stores in the inbox.
#include "dovetail/webhook.hpp"

#include "server/crypto.hpp"
#include "support/eventually.hpp"
#include "support/server_test.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

constexpr const char* old_secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr const char* new_secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
constexpr const char* shop_body = R"({"order": 7, "note": "ä"})";

class WebhookReceiving : public ServerTest {
 protected:
  static ServerOptions options_with(ServerWebhook webhook) {
    auto options = test_server_options();
    options.webhooks.push_back(std::move(webhook));
    // A server with tokens: the signature is enough.
    options.auth.tokens.push_back({"ci", server::sha256_hex("t"), ServerRole::viewer});
    return options;
  }
  void serve_shop() { serve(options_with({.name = "shop", .secret = old_secret})); }

  static std::vector<std::string> signed_lines(
      const std::string& id, const std::string& body, const char* secret = old_secret,
      std::chrono::system_clock::time_point now = std::chrono::system_clock::now()) {
    const std::vector secrets{WebhookSecret{secret}};
    const auto headers =
        sign_webhook(id, std::chrono::floor<std::chrono::microseconds>(now), body, secrets);
    return {"Webhook-Id: " + headers.id, "webhook-timestamp: " + headers.timestamp,
            "webhook-signature: " + headers.signature, "content-type: application/json"};
  }
  HttpAnswer post(std::vector<std::string> lines, const std::string& body = shop_body,
                  const std::string& path = "/webhooks/shop") {
    return ask("POST", path, lines, body);
  }
  HttpAnswer post_event(const std::string& id, const char* secret = old_secret) {
    auto lines = signed_lines(id, shop_body, secret);
    lines.insert(
        lines.end(),
        {"ce-specversion: 1.0", "ce-id: other", "ce-type: order.paid%20%C3%A4", "ce-source: /shop",
         "ce-partitionkey: order-7", "ce-correlationid: c-1", "x-kept: a%20b", "cookie: secret"});
    return post(std::move(lines));
  }
};
DOVETAIL_CONTRACT(WebhookReceiving);

TEST_P(WebhookReceiving, StoresTheMessageBeforeTheAnswer) {
  serve_shop();
  const auto answer = post_event("msg-1");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json_of(answer)["outcome"], "stored");
  const auto claimed = platform.inbox().queue().claim_streams({.owner = OwnerToken::generate()});
  ASSERT_EQ(claimed.size(), 1U);
  const auto message = InboxMessage::from(claimed.front().message);
  EXPECT_EQ(message.source, "shop");
  EXPECT_EQ(message.message_id, "msg-1");
  EXPECT_EQ(message.topic, "order.paid ä");
  EXPECT_EQ(message.payload, shop_body);
  EXPECT_EQ(message.stream, "order-7");
  EXPECT_EQ(message.correlation_id, "c-1");
  EXPECT_THAT(message.headers, Contains(Pair("content-type", "application/json")));
  EXPECT_THAT(message.headers, Contains(Pair("x-kept", "a b")));
  EXPECT_THAT(message.headers, Contains(Pair("ce-source", "/shop")));
  for (const auto* name : {"cookie", "host", "webhook-signature"})
    EXPECT_THAT(message.headers, Not(Contains(Key(name))));
}

TEST_P(WebhookReceiving, ADuplicateIsAcceptedAndNotStoredAgain) {
  serve_shop();
  EXPECT_EQ(post_event("msg-1").status, 200);
  const auto again = post_event("msg-1");
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(json_of(again)["outcome"], "duplicate");
  EXPECT_EQ(platform.inbox().counts().queue.ready, 1);
  EXPECT_EQ(post_event("msg-2").status, 200);
  EXPECT_EQ(platform.inbox().counts().queue.ready, 2);
}

TEST_P(WebhookReceiving, AWrongSignatureIsRefused) {
  serve_shop();
  EXPECT_EQ(post_event("msg-1", new_secret).status, 401);
  EXPECT_EQ(post(signed_lines("msg-1", "another body")).status, 401);
  const auto now = std::chrono::system_clock::now();
  EXPECT_EQ(post(signed_lines("msg-1", shop_body, old_secret, now - 6min)).status, 401);
  EXPECT_EQ(post(signed_lines("msg-1", shop_body, old_secret, now + 6min)).status, 401);
  EXPECT_EQ(platform.inbox().counts().queue.ready, 0);
  const auto metrics = get("/metrics", {"Authorization: Bearer t"}).body;
  EXPECT_THAT(metrics,
              HasSubstr("dovetail_server_webhooks_total{webhook=\"shop\",result=\"refused\"} 4"));
}

TEST_P(WebhookReceiving, MissingHeadersAndAnUnknownNameAreRefused) {
  serve_shop();
  for (std::size_t left_out = 0; left_out < 3; ++left_out) {
    auto lines = signed_lines("msg-1", shop_body);
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(left_out));
    EXPECT_EQ(post(std::move(lines)).status, 400) << left_out;
  }
  EXPECT_EQ(post({"webhook-id: a", "webhook-timestamp: x", "webhook-signature: v1,a"}).status, 400);
  EXPECT_EQ(post(signed_lines("msg-1", shop_body), shop_body, "/webhooks/other").status, 404);
  EXPECT_EQ(ask("GET", "/webhooks/shop").status, 405);
  // Signed, but without a topic.
  const auto answer = post(signed_lines("msg-1", shop_body));
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("webhooks.shop.topic"));
}

TEST_P(WebhookReceiving, TheConfigurationCanNameTheTopic) {
  serve(options_with({.name = "shop", .secret = old_secret, .topic = "shop.hook"}));
  EXPECT_EQ(post(signed_lines("msg-1", shop_body)).status, 200);
  EXPECT_EQ(platform.inbox().find("shop", "msg-1").value().topic, "shop.hook");
}

TEST_P(WebhookReceiving, NeitherAHostNorASiteNorAContentTypeIsNeeded) {
  serve(options_with({.name = "shop", .secret = old_secret, .topic = "t"}));
  auto lines = signed_lines("msg-1", shop_body);
  lines.back() = "content-type: text/plain";
  lines.insert(lines.end(), {"Host: hooks.example.com", "Origin: https://elsewhere.example"});
  EXPECT_EQ(post(std::move(lines)).status, 200);
}

TEST_P(WebhookReceiving, TheLimitIsThatOfTheInbox) {
  serve(options_with({.name = "shop", .secret = old_secret, .topic = "t"}));
  const std::string largest(platform.inbox().options().queue.max_payload_bytes, 'x');
  EXPECT_EQ(post(signed_lines("msg-1", largest), largest).status, 200);
  EXPECT_EQ(post(signed_lines("msg-2", largest + "x"), largest + "x").status, 413);
}

TEST_P(WebhookReceiving, ABodyThatCannotBeStoredIsRefused) {
  serve(options_with({.name = "shop", .secret = old_secret, .topic = "t"}));
  const std::string binary{"\xFF\0x", 3};
  EXPECT_EQ(post(signed_lines("msg-1", binary), binary).status, 400);
  const std::string id(256, 'i');
  EXPECT_EQ(post(signed_lines(id, shop_body)).status, 400);
}

TEST_P(WebhookReceiving, AReloadReplacesTheSecret) {
  serve_shop();
  server->reload(
      options_with({.name = "shop", .secret = std::string{old_secret} + "\n" + new_secret}));
  EXPECT_EQ(post_event("msg-1", old_secret).status, 200);
  EXPECT_EQ(post_event("msg-2", new_secret).status, 200);
  server->reload(options_with({.name = "shop", .secret = new_secret}));
  EXPECT_EQ(post_event("msg-3", old_secret).status, 401);
  EXPECT_EQ(post_event("msg-4", new_secret).status, 200);
}

TEST_P(WebhookReceiving, AReadOnlyServerStoresNothing) {
  auto options = options_with({.name = "shop", .secret = old_secret});
  options.read_only = true;
  serve(std::move(options));
  EXPECT_EQ(post_event("msg-1").status, 403);
}

TEST_P(WebhookReceiving, APublisherOfDovetailReachesIt) {
  serve_shop();
  const auto publisher = webhook_publisher({.url = server->url() + "/webhooks/shop",
                                            .secrets = {WebhookSecret{old_secret}},
                                            .allowed_networks = {"127.0.0.1"}});
  Message message{.id = MessageId::generate(), .topic = "order.paid"};
  message.payload = shop_body;
  message.headers = {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}};
  for (int i = 0; i < 2; ++i) {
    const auto outcome = publisher->publish(
        {&message, 1}, {.deadline = std::chrono::steady_clock::now() + 20s, .source = "shop"});
    EXPECT_EQ(outcome.at(0).result, PublishResult::confirmed) << outcome.at(0).reason;
  }
  EXPECT_EQ(platform.inbox().counts().queue.ready, 1);
  EXPECT_EQ(platform.inbox().find("shop", message.id.to_string()).value().topic, "order.paid");
}

TEST(ServerWebhooks, BadOptionsAreRefusedWithoutTheSecret) {
  Backend backend(BackendKind::sqlite);
  auto platform = backend.open();
  const auto refused = [&](std::vector<ServerWebhook> webhooks) {
    auto options = test_server_options();
    options.webhooks = std::move(webhooks);
    try {
      const Server server(platform, options);
    } catch (const std::logic_error& error) {
      return std::string{error.what()};
    }
    return std::string{"accepted"};
  };
  EXPECT_THAT(refused({{.name = "a/b", .secret = old_secret}}), HasSubstr("name of a webhook"));
  EXPECT_THAT(refused({{.name = "a", .secret = "whsec_c2hvcnQ="}}),
              ::testing::AllOf(HasSubstr("24 to 64 bytes"), Not(HasSubstr("c2hvcnQ"))));
  EXPECT_THAT(refused({{.name = "a", .secret = ""}}), HasSubstr("1 to 10"));
  EXPECT_THAT(refused({{.name = "a", .secret = old_secret, .tolerance = 2h}}),
              HasSubstr("tolerance"));
  EXPECT_THAT(refused({{.name = "a", .secret = old_secret}, {.name = "a", .secret = old_secret}}),
              HasSubstr("twice"));
}

}  // namespace
}  // namespace dovetail::testing
