// From the outbox of one Dovetail to the inbox of another: webhooks and AMQP 1.0.
#include <map>
#include <mutex>

#include "dovetail/amqp.hpp"
#include "dovetail/dovetail.hpp"
#include "dovetail/server.hpp"
#include "dovetail/webhook.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "transport/support/amqp_broker.hpp"
#include "transport/support/http_endpoint.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;

constexpr const char* route_secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr int stream_count = 5;

PublishOptions patient_route() {
  return {.timeout = 10s, .max_attempts = 100, .first_probe = 20ms, .longest_probe = 200ms};
}

/// Two databases with the clock of the system.
class WebRoutes : public ::testing::Test {
 protected:
  [[nodiscard]] Platform open(const std::string& name) const {
    PlatformOptions options;
    options.deploy_schema = true;
    options.log_sink = null_log_sink();
    return Platform::open("sqlite:" + (folder.path() / (name + ".db")).string(), options);
  }

  /// Some of the messages are in streams.
  void fill(int count) {
    for (int i = 0; i < count; ++i) {
      std::optional<std::string> stream;
      if (i % 3 == 0) stream = "stream-" + std::to_string(i / 3 % stream_count);
      sender.outbox().enqueue(
          {.topic = "order.paid", .payload = std::to_string(i), .stream = stream});
    }
  }

  /// Notes each message that the handlers of the receiver get.
  void note_arrivals() {
    receiver.on_inbox("order.paid", [this](const InboxMessage& message, HandlerContext&) {
      const std::lock_guard lock(mutex);
      ++effects[std::stoi(message.payload)];
      if (message.stream) order[*message.stream].push_back(std::stoi(message.payload));
    });
  }

  bool all_arrived(int count) {
    return eventually(
        [&] {
          const std::lock_guard lock(mutex);
          return effects.size() == static_cast<std::size_t>(count);
        },
        90s);
  }
  void expect_each_once_and_in_order() {
    const std::lock_guard lock(mutex);
    for (const auto& [number, times] : effects) EXPECT_EQ(times, 1) << number;
    for (const auto& [stream, numbers] : order)
      EXPECT_TRUE(std::ranges::is_sorted(numbers)) << stream;
  }
  void expect_no_attempt_charged() {
    EXPECT_TRUE(eventually([&] { return sender.outbox().counts().in_progress == 0; }));
    EXPECT_EQ(sender.outbox().counts().failed, 0);
    for (const auto& each : sender.outbox().messages({}, {.size = 1'000}).messages)
      EXPECT_EQ(each.stored.message.attempts, 0);
  }

  TemporaryDirectory folder;
  Platform sender = open("sender");
  Platform receiver = open("receiver");
  std::mutex mutex;
  std::map<int, int> effects;
  std::map<std::string, std::vector<int>> order;
};

TEST_F(WebRoutes, WebhooksTakeEffectOnceAlsoAcrossAnOutage) {
  note_arrivals();
  receiver.start();
  ServerOptions options;
  options.port = 0;
  options.log_sink = null_log_sink();
  options.webhooks.push_back({.name = "shop", .secret = route_secret});
  auto server = std::make_unique<Server>(receiver, options);
  server->start();
  options.port = server->port();
  const auto url = server->url() + "/webhooks/shop";
  server.reset();  // down at first

  fill(100);
  sender.publish("order.*",
                 webhook_publisher({.url = url,
                                    .secrets = {WebhookSecret{route_secret}},
                                    .allowed_networks = {"127.0.0.1"}}),
                 patient_route());
  sender.start();
  EXPECT_TRUE(
      eventually([&] { return sender.transports().at(0).state == TransportState::unavailable; }));
  server = std::make_unique<Server>(receiver, options);
  server->start();
  EXPECT_TRUE(all_arrived(100));
  expect_each_once_and_in_order();
  expect_no_attempt_charged();
  EXPECT_TRUE(sender.stop());
  EXPECT_TRUE(receiver.stop());
}

TEST_F(WebRoutes, AGoneEndpointStopsItsRouteAndKeepsTheOtherMessages) {
  HttpEndpoint endpoint([](const auto&) { return EndpointAnswer{.status = 410}; });
  sender.publish("order.paid",
                 webhook_publisher({.url = endpoint.url(),
                                    .secrets = {WebhookSecret{route_secret}},
                                    .allowed_networks = {"127.0.0.1"},
                                    .parallel = 1}),
                 patient_route());
  fill(10);
  sender.start();
  EXPECT_TRUE(eventually([&] {
    const auto route = sender.transports().at(0);
    return route.state != TransportState::running &&
           route.reason.find("answered 410") != std::string::npos;
  }));
  EXPECT_TRUE(eventually([&] { return sender.outbox().counts().in_progress == 0; }));
  EXPECT_EQ(sender.outbox().counts().failed, 1);
  EXPECT_EQ(endpoint.received().size(), 1U);
  EXPECT_TRUE(sender.stop());
}

TEST_F(WebRoutes, AmqpTakesEffectOnceAlsoIfTheBrokerIsKilled) {
  AmqpBroker broker;
  const Amqp amqp({.url = broker.url(), .user = "guest", .password = "guest"});
  note_arrivals();
  receiver.consume(amqp.consumer({.address = "/amq/queue/orders"}), {.source = "amqp:orders"});
  receiver.start();
  sender.publish("order.*", amqp.publisher({.address = "/amq/queue/orders"}), patient_route());
  sender.start();
  fill(300);
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return effects.size() >= 30;
  }));
  broker.kill();
  broker.start();
  EXPECT_TRUE(all_arrived(300));
  expect_each_once_and_in_order();
  expect_no_attempt_charged();
  EXPECT_TRUE(sender.stop());
  EXPECT_TRUE(receiver.stop());
}

}  // namespace
}  // namespace dovetail::testing
