// From one database to another through RabbitMQ.
#include "transport/kind.hpp"
#include "transport/support/rabbitmq_server.hpp"
#include "transport/support/two_platforms.hpp"

namespace dovetail::transport::rabbitmq {
Kind kind();
}

namespace dovetail::testing {
namespace {

using RabbitMqRouteTest = RabbitMqTest;

TEST_F(RabbitMqRouteTest, TheKindMakesPublishersAndConsumersOfSettings) {
  server.add_queue("kind.a");
  const auto kind = transport::rabbitmq::kind();
  const auto publisher =
      kind.make_publisher({.url = server.url(), .values = {{"routing_key", {"kind.{topic}"}}}});
  const auto consumer =
      kind.make_consumer({.url = server.url(), .values = {{"queue", {"kind.a"}}}});
  const std::vector messages{make_message("a")};
  ASSERT_TRUE(all_confirmed(publisher->publish(messages, patient_call())));
  EXPECT_EQ(consumer->fetch(10, patient_call()).at(0).id, messages[0].id.to_string());
  EXPECT_THROW((void)kind.make_consumer({.url = server.url()}), std::invalid_argument);
}

TEST_F(RabbitMqRouteTest, EveryMessageTakesEffectOnceAlthoughTheBrokerIsKilled) {
  server.add_queue("orders");
  const RabbitMq rabbit({.urls = {server.url()}});
  TwoPlatforms platforms(rabbit.publisher({.routing_key = "orders"}),
                         rabbit.consumer({.queue = "orders"}));
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
