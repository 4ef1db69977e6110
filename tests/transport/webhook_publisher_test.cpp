// The publisher of webhooks against real endpoints on loopback.
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "dovetail/webhook.hpp"
#include "support/backend.hpp"
#include "support/certificate.hpp"
#include "support/eventually.hpp"
#include "transport/support/http_endpoint.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* secret_text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

WebhookOptions options_for(std::string url) {
  return {.url = std::move(url),
          .secrets = {WebhookSecret{secret_text}},
          .allowed_networks = {"127.0.0.1"},
          .timeout = 5s};
}

Message message_of(std::string payload = R"({"n": 1})") {
  Message message{.id = MessageId::generate(), .topic = "order.paid"};
  message.payload = std::move(payload);
  return message;
}

std::vector<Message> messages_of(std::size_t count) {
  std::vector<Message> messages;
  for (std::size_t i = 0; i < count; ++i) messages.push_back(message_of());
  return messages;
}

TransportCall call_within(std::chrono::milliseconds limit, std::stop_token stop = {}) {
  return {.deadline = std::chrono::steady_clock::now() + limit,
          .stop = std::move(stop),
          .source = "shop"};
}

PublishOutcome publish_one(Publisher& publisher, const Message& message = message_of()) {
  return publisher.publish({&message, 1}, call_within(20s)).at(0);
}

/// The outcome of one message at an endpoint that always gives this answer.
PublishOutcome outcome_at(const EndpointAnswer& answer) {
  HttpEndpoint endpoint([&](const auto&) { return answer; });
  return publish_one(*webhook_publisher(options_for(endpoint.url())));
}

const auto accepts = [](const EndpointRequest&) { return EndpointAnswer{.status = 204}; };

TEST(WebhookPublisher, SendsTheSignedBytesOfTheMessage) {
  HttpEndpoint endpoint(accepts);
  const auto publisher =
      webhook_publisher(options_for(endpoint.url("127.0.0.1", "/a/b?key=private")));
  auto message = message_of("{\"text\": \"ä\\u0000\",\r\n \"n\": 1.0}");
  message.stream = "order-7";
  message.headers = {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
                     {"empty", ""}};
  EXPECT_EQ(publish_one(*publisher, message).result, PublishResult::confirmed);

  ASSERT_THAT(endpoint.received(), SizeIs(1));
  const auto request = endpoint.received().front();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/a/b?key=private");
  EXPECT_EQ(request.body, message.payload);
  EXPECT_EQ(request.headers.at("webhook-id"), message.id.to_string());
  EXPECT_EQ(request.headers.at("ce-id"), message.id.to_string());
  EXPECT_EQ(request.headers.at("ce-type"), "order.paid");
  EXPECT_EQ(request.headers.at("ce-source"), "shop");
  EXPECT_EQ(request.headers.at("ce-partitionkey"), "order-7");
  EXPECT_EQ(request.headers.at("content-type"), "application/json");
  EXPECT_EQ(request.headers.at("empty"), "");
  EXPECT_EQ(request.headers.at("traceparent"), message.headers.at("traceparent"));
  const std::vector secrets{WebhookSecret{secret_text}};
  EXPECT_EQ(
      verify_webhook(
          {.headers = {request.headers.at("webhook-id"), request.headers.at("webhook-timestamp"),
                       request.headers.at("webhook-signature")},
           .body = request.body,
           .now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now())},
          secrets),
      WebhookVerdict::valid);
}

TEST(WebhookPublisher, SendsAMegabyte) {
  HttpEndpoint endpoint(accepts);
  const auto publisher = webhook_publisher(options_for(endpoint.url()));
  const auto message = message_of(std::string(1 << 20, 'x'));
  EXPECT_EQ(publish_one(*publisher, message).result, PublishResult::confirmed);
  EXPECT_EQ(endpoint.received().at(0).body, message.payload);
}

TEST(WebhookPublisher, ShowsNeitherThePathNorTheQueryOfItsUrl) {
  HttpEndpoint endpoint([](const auto&) { return EndpointAnswer{.status = 500}; });
  const auto publisher =
      webhook_publisher(options_for(endpoint.url("127.0.0.1", "/token-1?key=private")));
  const auto reason = publish_one(*publisher).reason;
  for (const auto& text : {reason, publisher->address()})
    EXPECT_THAT(text, AllOf(Not(HasSubstr("token-1")), Not(HasSubstr("private"))));
  EXPECT_EQ(publisher->address(), endpoint.url("127.0.0.1", ""));
  EXPECT_EQ(publisher->kind(), "webhook");
}

TEST(WebhookPublisher, RejectionsHaveTheAnswerAsTheirReason) {
  const auto outcome = outcome_at({.status = 422, .body = "no such\norder"});
  EXPECT_EQ(outcome.result, PublishResult::rejected);
  EXPECT_EQ(outcome.reason, "the endpoint answered 422: no such order");
  EXPECT_EQ(outcome.retry_after, std::nullopt);
}

TEST(WebhookPublisher, DoesNotFollowRedirects) {
  HttpEndpoint target(accepts);
  const auto outcome = outcome_at({.status = 307, .headers = {{"Location", target.url()}}});
  EXPECT_EQ(outcome.result, PublishResult::rejected);
  EXPECT_THAT(outcome.reason, HasSubstr("307: redirects are not followed"));
  EXPECT_THAT(target.received(), IsEmpty());
}

TEST(WebhookPublisher, WaitsAsLongAsTheEndpointAsks) {
  EXPECT_EQ(outcome_at({.status = 429, .headers = {{"Retry-After", "7"}}}).retry_after, 7s);
  const auto later =
      outcome_at({.status = 503, .headers = {{"Retry-After", "Fri, 31 Dec 2100 23:59:59 GMT"}}});
  EXPECT_EQ(later.result, PublishResult::rejected);
  EXPECT_EQ(later.retry_after, 24h);
}

TEST(WebhookPublisher, AnEndpointThatIsGoneGetsNothingMore) {
  HttpEndpoint endpoint([](const auto&) { return EndpointAnswer{.status = 410}; });
  auto options = options_for(endpoint.url());
  options.parallel = 1;
  const auto publisher = webhook_publisher(options);
  EXPECT_EQ(publisher->blocked(), std::nullopt);
  const auto outcomes = publisher->publish(messages_of(3), call_within(20s));
  EXPECT_EQ(outcomes.at(0).result, PublishResult::refused);
  EXPECT_EQ(outcomes.at(1).result, PublishResult::unavailable);
  EXPECT_EQ(outcomes.at(2).result, PublishResult::unavailable);
  EXPECT_THAT(outcomes.at(2).reason, HasSubstr("answered 410: the endpoint is disabled"));
  EXPECT_THAT(publisher->blocked().value_or(""), HasSubstr("disabled"));
  EXPECT_THROW(publisher->probe(call_within(5s)), std::runtime_error);
  EXPECT_EQ(publish_one(*publisher).result, PublishResult::unavailable);
  EXPECT_THAT(endpoint.received(), SizeIs(1));
}

TEST(WebhookPublisher, AConnectionThatIsRefusedChargesNoAttempt) {
  std::string url;
  {
    const HttpEndpoint endpoint(accepts);
    url = endpoint.url();
  }
  const auto publisher = webhook_publisher(options_for(url));
  EXPECT_THAT(publisher->publish(messages_of(3), call_within(20s)),
              Each(AllOf(Field(&PublishOutcome::result, PublishResult::unavailable),
                         Field(&PublishOutcome::reason, HasSubstr("no connection to")))));
  EXPECT_THROW(publisher->probe(call_within(5s)), std::runtime_error);
}

TEST(WebhookPublisher, WorksAgainAfterARestartOfTheEndpoint) {
  auto endpoint = std::make_unique<HttpEndpoint>(accepts);
  const auto port = endpoint->port();
  const auto publisher = webhook_publisher(options_for(endpoint->url()));
  EXPECT_EQ(publish_one(*publisher).result, PublishResult::confirmed);
  endpoint.reset();
  EXPECT_EQ(publish_one(*publisher).result, PublishResult::unavailable);
  endpoint = std::make_unique<HttpEndpoint>(accepts, HttpEndpoint::Options{.port = port});
  publisher->probe(call_within(5s));
  EXPECT_EQ(publish_one(*publisher).result, PublishResult::confirmed);
  publisher->close();
  EXPECT_EQ(publish_one(*publisher).result, PublishResult::confirmed);
}

TEST(WebhookPublisher, AnUnknownNameChargesNoAttempt) {
  const auto outcome =
      publish_one(*webhook_publisher(options_for("http://no-such-host.invalid/hook")));
  EXPECT_EQ(outcome.result, PublishResult::unavailable);
  EXPECT_THAT(outcome.reason, HasSubstr("no-such-host.invalid"));
}

TEST(WebhookPublisher, AnEndpointWithoutAnAnswerChargesAnAttempt) {
  EXPECT_EQ(outcome_at({.raw = ""}).result, PublishResult::rejected);
  EXPECT_EQ(outcome_at({.raw = "HTTP/1.1 200 OK\r\nA: b\r\n"}).result, PublishResult::rejected);
  EXPECT_EQ(outcome_at({.raw = "SSH-2.0-x\r\n"}).result, PublishResult::rejected);
}

TEST(WebhookPublisher, TheStatusCountsAlsoIfTheBodyIsCutOrTooLong) {
  EXPECT_EQ(outcome_at({.raw = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"}).result,
            PublishResult::confirmed);
  const auto outcome = outcome_at({.status = 500, .body = std::string(1 << 20, 'x')});
  EXPECT_EQ(outcome.result, PublishResult::rejected);
  EXPECT_LT(outcome.reason.size(), 300U);
}

/// An endpoint whose answers wait for the test.
class SlowEndpoint {
 public:
  HttpEndpoint::Handler handler() {
    return [this](const EndpointRequest&) {
      std::unique_lock lock(mutex_);
      most_ = std::max(most_, ++waiting_);
      changed_.notify_all();
      changed_.wait(lock, [this] { return free_ > 0 || is_open_; });
      --waiting_;
      --free_;
      return EndpointAnswer{};
    };
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void let_one_go() {
    const std::lock_guard lock(mutex_);
    free_ = 1;
    changed_.notify_all();
  }
  bool wait_for(int waiting) {
    return eventually([&] {
      const std::lock_guard lock(mutex_);
      return waiting_ >= waiting;
    });
  }
  int most() {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int most_ = 0;
  int free_ = 0;
  bool is_open_ = false;
};

TEST(WebhookPublisher, AnAnswerThatComesTooLateChargesAnAttempt) {
  SlowEndpoint slow;
  HttpEndpoint endpoint(slow.handler());
  auto options = options_for(endpoint.url());
  options.timeout = 150ms;
  const auto outcome = publish_one(*webhook_publisher(options));
  slow.open();
  EXPECT_EQ(outcome.result, PublishResult::rejected);
  EXPECT_THAT(outcome.reason, HasSubstr("no answer"));
}

TEST(WebhookPublisher, RequestsRunInParallelWithALimit) {
  SlowEndpoint slow;
  HttpEndpoint endpoint(slow.handler());
  auto options = options_for(endpoint.url());
  options.parallel = 3;
  const auto publisher = webhook_publisher(options);
  std::vector<PublishOutcome> outcomes;
  std::jthread sender([&] { outcomes = publisher->publish(messages_of(10), call_within(20s)); });
  EXPECT_TRUE(slow.wait_for(3));
  slow.open();
  sender.join();
  EXPECT_THAT(outcomes,
              AllOf(SizeIs(10), Each(Field(&PublishOutcome::result, PublishResult::confirmed))));
  EXPECT_EQ(slow.most(), 3);
  EXPECT_LE(endpoint.connections(), 3);
}

TEST(WebhookPublisher, AStopEndsTheCall) {
  SlowEndpoint slow;
  HttpEndpoint endpoint(slow.handler());
  auto options = options_for(endpoint.url());
  options.parallel = 2;
  options.timeout = 60s;
  const auto publisher = webhook_publisher(options);
  std::stop_source stop;
  std::vector<PublishOutcome> outcomes;
  std::jthread sender(
      [&] { outcomes = publisher->publish(messages_of(4), call_within(600s, stop.get_token())); });
  EXPECT_TRUE(slow.wait_for(2));
  stop.request_stop();
  sender.join();
  slow.open();
  EXPECT_THAT(outcomes,
              AllOf(SizeIs(4), Each(Field(&PublishOutcome::result, PublishResult::unavailable))));
}

TEST(WebhookPublisher, MessagesThatAreNotSentBeforeTheDeadlineChargeNoAttempt) {
  SlowEndpoint slow;
  HttpEndpoint endpoint(slow.handler());
  auto options = options_for(endpoint.url());
  options.parallel = 1;
  const auto outcomes = webhook_publisher(options)->publish(messages_of(3), call_within(300ms));
  slow.open();
  EXPECT_EQ(outcomes.at(0).result, PublishResult::rejected);  // it was sent
  EXPECT_EQ(outcomes.at(2).result, PublishResult::unavailable);
}

TEST(WebhookPublisher, SpecialAddressesAreRefusedInEverySpelling) {
  HttpEndpoint endpoint(accepts);
  const auto port = ":" + std::to_string(endpoint.port());
  for (const auto* host : {"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "2130706433",
                           "0x7f.1", "0177.0.0.1", "0.0.0.0", "127.1"}) {
    auto options = options_for(std::string{"http://"} + host + port + "/hook");
    options.allowed_networks.clear();
    const auto publisher = webhook_publisher(options);
    const auto outcome = publish_one(*publisher);
    EXPECT_EQ(outcome.result, PublishResult::unavailable) << host;
    EXPECT_THAT(outcome.reason, HasSubstr("which is not public")) << host;
    EXPECT_THROW(publisher->probe(call_within(5s)), std::runtime_error) << host;
  }
  EXPECT_EQ(endpoint.connections(), 0);
}

TEST(WebhookPublisher, ANameThatResolvesToAnAllowedAddressWorks) {
  HttpEndpoint endpoint(accepts);
  EXPECT_EQ(publish_one(*webhook_publisher(options_for(endpoint.url("localhost")))).result,
            PublishResult::confirmed);
}

TEST(WebhookPublisher, IgnoresProxiesOfTheEnvironment) {
  HttpEndpoint endpoint(accepts);
  HttpEndpoint proxy(accepts);
  for (const auto* name : {"http_proxy", "all_proxy"}) ::setenv(name, proxy.url().c_str(), 1);
  EXPECT_EQ(publish_one(*webhook_publisher(options_for(endpoint.url()))).result,
            PublishResult::confirmed);
  for (const auto* name : {"http_proxy", "all_proxy"}) ::unsetenv(name);
  EXPECT_EQ(proxy.connections(), 0);
  EXPECT_EQ(endpoint.connections(), 1);
}

class WebhookTls : public ::testing::Test {
 protected:
  TemporaryDirectory folder;
  ServerTls certificate = make_certificate(folder.path(), "endpoint");  // of localhost
  HttpEndpoint endpoint{accepts, {.tls = certificate}};

  PublishOutcome outcome_with(const std::string& host, const std::string& ca_file) {
    auto options = options_for(endpoint.url(host));
    options.ca_file = ca_file;
    return publish_one(*webhook_publisher(options));
  }
};

TEST_F(WebhookTls, ATrustedCertificateIsAccepted) {
  EXPECT_EQ(outcome_with("localhost", certificate.certificate_file).result,
            PublishResult::confirmed);
}

TEST_F(WebhookTls, AnUnknownAuthorityIsRefused) {
  const auto outcome = outcome_with("localhost", "");
  EXPECT_EQ(outcome.result, PublishResult::unavailable);
  EXPECT_THAT(outcome.reason, HasSubstr("certificate"));
  EXPECT_THAT(endpoint.received(), IsEmpty());
}

TEST_F(WebhookTls, AnotherHostNameIsRefused) {
  const auto outcome = outcome_with("127.0.0.1", certificate.certificate_file);
  EXPECT_EQ(outcome.result, PublishResult::unavailable);
  EXPECT_THAT(outcome.reason, HasSubstr("127.0.0.1"));
  EXPECT_THAT(endpoint.received(), IsEmpty());
}

TEST_F(WebhookTls, AProbeChecksTheCertificateAndSendsNothing) {
  auto options = options_for(endpoint.url("localhost"));
  EXPECT_THROW(webhook_publisher(options)->probe(call_within(5s)), std::runtime_error);
  options.ca_file = certificate.certificate_file;
  webhook_publisher(options)->probe(call_within(5s));
  EXPECT_THAT(endpoint.received(), IsEmpty());
}

TEST(WebhookOptions, BadOnesAreRefusedWithoutSecrets) {
  const auto refused = [](const std::function<void(WebhookOptions&)>& change) {
    auto options = options_for("https://example.com/hook");
    change(options);
    try {
      static_cast<void>(webhook_publisher(options));
    } catch (const std::logic_error& error) {
      return std::string{error.what()};
    }
    return std::string{"accepted"};
  };
  EXPECT_EQ(refused([](auto&) {}), "accepted");
  for (const auto* url : {"", "example.com", "ftp://example.com/", "file:///etc/passwd",
                          "https://user:pri%76ate@example.com/", "https://example.com/#a",
                          "https://exa mple.com/", "https://"}) {
    EXPECT_THAT(refused([&](auto& options) { options.url = url; }),
                AllOf(HasSubstr("url must be"), Not(HasSubstr("pri%76ate"))))
        << url;
  }
  EXPECT_THAT(refused([](auto& options) { options.secrets.clear(); }), HasSubstr("secret"));
  EXPECT_THAT(refused([](auto& options) { options.parallel = 0; }), HasSubstr("parallel"));
  EXPECT_THAT(refused([](auto& options) { options.parallel = 257; }), HasSubstr("parallel"));
  EXPECT_THAT(refused([](auto& options) { options.timeout = 61s; }), HasSubstr("timeout"));
  EXPECT_THAT(refused([](auto& options) { options.allowed_networks = {"x"}; }),
              HasSubstr("network"));
  EXPECT_THAT(refused([](auto& options) { options.secret_files = {"/absent"}; }),
              HasSubstr("/absent"));
}

}  // namespace
}  // namespace dovetail::testing
