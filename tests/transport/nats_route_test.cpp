// From one database to another through NATS JetStream.
#include "transport/kind.hpp"
#include "transport/support/nats_server.hpp"
#include "transport/support/two_platforms.hpp"

namespace dovetail::transport::nats {
Kind kind();
}

namespace dovetail::testing {
namespace {

TEST(NatsKind, MakesPublishersAndConsumersOfSettings) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  const auto kind = transport::nats::kind();
  const auto publisher =
      kind.make_publisher({.url = server.url(), .values = {{"subject", {"shop.{topic}"}}}});
  const auto consumer = kind.make_consumer(
      {.url = server.url(), .values = {{"stream", {"SHOP"}}, {"durable", {"billing"}}}});
  const std::vector messages{make_message("a")};
  ASSERT_TRUE(all_confirmed(publisher->publish(messages, patient_call())));
  EXPECT_EQ(consumer->fetch(10, patient_call()).at(0).id, messages[0].id.to_string());
  EXPECT_THROW((void)kind.make_consumer({.url = server.url()}), std::invalid_argument);
}

TEST(NatsRoute, EveryMessageTakesEffectOnceAlthoughTheBrokerIsKilled) {
  NatsServer server;
  server.add_stream("SHOP", "shop.>");
  const Nats nats({.urls = {server.url()}});
  TwoPlatforms platforms(
      nats.publisher({.subject = "shop.{topic}"}),
      nats.consumer(
          {.stream = "SHOP", .durable = "billing", .ack_wait = std::chrono::milliseconds{500}}));
  platforms.enqueue(0, 600);
  EXPECT_TRUE(eventually([&] { return platforms.handled() > 0; }));
  server.kill();
  platforms.enqueue(600, 1'200);
  EXPECT_TRUE(eventually(
      [&] { return platforms.shop().transports().at(0).state == TransportState::unavailable; }));
  server.start();
  platforms.expect_all(1'200);
}

}  // namespace
}  // namespace dovetail::testing
