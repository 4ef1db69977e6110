// AMQP 1.0 as a transport; see transport.hpp. It is the protocol of Azure Service Bus, ActiveMQ,
// Artemis, Qpid, and of RabbitMQ with its plugin. RabbitMQ's own protocol is in rabbitmq.hpp.
//
//   dovetail::Amqp amqp({.url = "amqp1s://broker.example.com", .user = "shop",
//                        .password_file = "/etc/dovetail/broker.password"});
//   platform.publish("order.*", amqp.publisher({.address = "orders"}));
//   platform.consume(amqp.consumer({.address = "orders"}), {.source = "amqp:orders"});
//
// It is a library of its own: link dovetail::amqp (built with DOVETAIL_AMQP=ON).
//
// Guarantees
//   * A message is confirmed by its own outcome `accepted`. The outcomes `rejected`, `released` and
//     `modified` reject it, with the condition of the broker. A message that is larger than the
//     broker allows is refused for good.
//   * Messages are sent only while the broker grants credit. If it grants none, blocked() says so,
//     and no attempt is charged.
//   * `message-id` is the id of the message. Messages carry CloudEvents 1.0 in binary mode, as
//     application properties such as `cloudEvents:type`.
//   * A received message is accepted after it was stored, and released if it could not be stored.
//     The broker delivers at most as many messages as fetch() asks for.
//   * TLS checks the name of the broker. Passwords appear neither in address() nor in errors.
//
// Threads: an Amqp and a publisher may be shared between threads; a consumer serves one call at a
// time. Each publisher and consumer has a connection of its own, and a thread for it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "dovetail/transport.hpp"

namespace dovetail {

/// How to connect. Files are read at each connection, so that they may change.
struct AmqpOptions {
  /// `amqp1://HOST[:PORT]`, or `amqp1s://HOST[:PORT]` with TLS. The ports are 5672 and 5671. It may
  /// contain `USER:PASSWORD@`, percent-encoded.
  std::string url = "amqp1://127.0.0.1";
  std::string user{};           ///< For SASL PLAIN. Empty: SASL ANONYMOUS.
  std::string password{};       ///< Without TLS, others on the network can read it.
  std::string password_file{};  ///< Instead of `password`.
  std::string ca_file{};        ///< Trusted certificates in PEM format. Empty: those of the system.
  std::string certificate_file{};  ///< The certificate of this client; or empty.
  std::string key_file{};
  std::string virtual_host{};  ///< Empty: the host of the URL.
  /// The connection ends if the broker is silent for this long: 1 s to 10 min.
  std::chrono::milliseconds idle_timeout{60'000};
};

struct AmqpPublisherOptions {
  /// The address of a message: a queue or a topic. `{topic}`, `{stream}` and `{correlation_id}` are
  /// replaced. Each address has a link of its own: use few.
  std::string address = "{topic}";
};

struct AmqpConsumerOptions {
  std::string address{};  ///< The queue or subscription to receive from.
};

class Amqp {
 public:
  /// Throws std::invalid_argument or std::out_of_range if the options are wrong. Does not connect.
  explicit Amqp(AmqpOptions options = {});

  [[nodiscard]] std::shared_ptr<Publisher> publisher(AmqpPublisherOptions options = {}) const;
  [[nodiscard]] std::shared_ptr<Consumer> consumer(AmqpConsumerOptions options) const;

 private:
  std::shared_ptr<const AmqpOptions> options_;
};

}  // namespace dovetail
