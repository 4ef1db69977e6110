#include "transport/kind.hpp"

#include "dovetail/kafka.hpp"

namespace dovetail::transport::kafka {
namespace {

std::vector<Key> keys_of_kafka() {
  return {
      {.name = "user", .description = "The user, for SASL"},
      {.name = "password", .description = "Of the user", .secret = true},
      {.name = "sasl_mechanism", .description = "SCRAM-SHA-512 (default), SCRAM-SHA-256 or PLAIN"},
      {.name = "ca_file",
       .description = "Trusted certificates in PEM format; default: those of the system",
       .is_path = true},
      {.name = "kafka_topic",
       .place = Key::Place::publish,
       .description = "The topic at Kafka, such as shop.{topic}"},
      {.name = "topics",
       .place = Key::Place::consume,
       .type = Key::Type::list,
       .description = "The topics at Kafka"},
      {.name = "group", .place = Key::Place::consume, .description = "The consumer group"}};
}

Kafka cluster_of(const Settings& settings) {
  return Kafka({.url = settings.url,
                .user = settings.text("user"),
                .password = settings.text("password"),
                .sasl_mechanism = settings.text("sasl_mechanism", "SCRAM-SHA-512"),
                .ca_file = settings.text("ca_file")});
}

}  // namespace

// NOLINTNEXTLINE(misc-use-internal-linkage): the generated list of transports declares it
Kind kind() {
  return {.name = "kafka",
          .schemes = {"kafka", "kafka+tls"},
          .description = "Kafka; experimental",
          .keys = keys_of_kafka(),
          .make_publisher =
              [](const Settings& settings) {
                return cluster_of(settings).publisher(
                    {.topic = settings.text("kafka_topic", "{topic}")});
              },
          .make_consumer =
              [](const Settings& settings) {
                return cluster_of(settings).consumer(
                    {.topics = settings.list("topics"), .group = settings.text("group")});
              }};
}

}  // namespace dovetail::transport::kafka
