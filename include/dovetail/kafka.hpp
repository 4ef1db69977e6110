// Kafka as a transport; see transport.hpp. It is experimental: it is tested with the mock cluster
// of its library only, and its options may change.
//
//   dovetail::Kafka kafka({.url = "kafka://broker-1:9092,broker-2:9092"});
//   platform.publish("order.*", kafka.publisher({.topic = "shop.{topic}"}));
//   platform.consume(kafka.consumer({.topics = {"shop.orders"}, .group = "billing"}),
//                    {.source = "kafka:billing"});
//
// It is a library of its own: link dovetail::kafka (built with DOVETAIL_KAFKA=ON).
//
// Guarantees
//   * A message is confirmed by its own delivery report, after all replicas in sync have it. The
//     producer is idempotent: retries of the library within a call do not repeat a message.
//   * The stream of a message is its key, so that messages of a stream are in one partition.
//   * Messages carry CloudEvents 1.0 in binary mode: headers such as `ce_id` and `ce_type`.
//   * An offset is committed after all messages before it were stored.
//   * Passwords appear neither in address() nor in errors.
// Not guaranteed
//   * That a topic has a message once: a message without a report is published again.
//
// Threads: a Kafka may be shared between threads. Each publisher and consumer has connections of
// its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dovetail/transport.hpp"

namespace dovetail {

struct KafkaOptions {
  /// `kafka://HOST[:PORT][,HOST[:PORT]…]`, or `kafka+tls://…`. The port is 9092.
  std::string url = "kafka://127.0.0.1";
  std::string user{};  ///< For SASL. Empty: no SASL.
  std::string password{};
  std::string password_file{};  ///< Instead of `password`. Read when a connection is made.
  std::string sasl_mechanism = "SCRAM-SHA-512";  ///< Or PLAIN, SCRAM-SHA-256.
  std::string ca_file{};  ///< Trusted certificates in PEM format. Empty: those of the system.
  /// Further properties of librdkafka. They must not change what the guarantees need.
  std::map<std::string, std::string> properties{};
};

struct KafkaPublisherOptions {
  /// The topic at Kafka. `{topic}`, `{stream}` and `{correlation_id}` are replaced. A message whose
  /// topic is not a valid name is refused.
  std::string topic = "{topic}";
};

struct KafkaConsumerOptions {
  std::vector<std::string> topics{};  ///< At least one.
  std::string group{};                ///< The consumer group.
};

class Kafka {
 public:
  /// Throws std::invalid_argument if the options are wrong. Does not connect.
  explicit Kafka(KafkaOptions options = {});

  [[nodiscard]] std::shared_ptr<Publisher> publisher(KafkaPublisherOptions options = {}) const;
  [[nodiscard]] std::shared_ptr<Consumer> consumer(KafkaConsumerOptions options) const;

 private:
  std::shared_ptr<const KafkaOptions> options_;
};

}  // namespace dovetail
