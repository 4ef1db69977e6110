// RabbitMQ (AMQP 0-9-1) as a transport; see transport.hpp.
//
//   dovetail::RabbitMq rabbit({.urls = {"amqp://shop:secret@broker/orders"}});
//   platform.publish("order.*", rabbit.publisher({.exchange = "shop"}));
//   platform.consume(rabbit.consumer({.queue = "billing"}), {.source = "rabbitmq:billing"});
//
// Guarantees
//   * A message is confirmed by its own publisher confirm. It is published with `mandatory`: a
//     message that no queue receives is rejected with the broker's words, and so is one that a full
//     queue does not take (`overflow` = `reject-publish`). A message that is too large is refused.
//   * The property `message-id` is the message's id. Messages are persistent.
//   * A received message is acknowledged after it was stored.
//   * While the broker blocks publishers (`connection.blocked`), blocked() has its reason.
//   * No call takes longer than its deadline: then the connection is ended.
//   * TLS checks the name of the broker. Passwords appear neither in address() nor in errors.
// Not guaranteed
//   * That the broker recognises a repeated message. The inbox does.
//
// Messages carry CloudEvents 1.0 in binary mode: headers such as `cloudEvents_id`.
//
// Threads: a RabbitMq, its publishers and its consumers may be shared between threads. A publisher
// has up to four connections, one for each call at the same time. A consumer has one. Each
// connection has a thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dovetail/transport.hpp"

namespace dovetail {

struct RabbitMqTls {
  /// PEM file of trusted certificates. Empty: those of the system.
  std::string ca_file{};
  /// PEM files of the client's certificate and its key. Empty: none.
  std::string certificate_file{};
  std::string key_file{};
};

/// How to connect. Files are read at each connection, so that they may change.
struct RabbitMqOptions {
  /// `amqp://HOST:PORT/VHOST`, or `amqps://HOST:PORT/VHOST` with TLS. Tried in a random order. A
  /// URL may contain `USER:PASSWORD@`. Without a path, the virtual host is `/`.
  std::vector<std::string> urls{"amqp://127.0.0.1:5672"};
  std::string name = "dovetail";  ///< The name of the connection, for the broker's operators.
  std::string user = "guest";
  std::string password = "guest";
  std::string password_file{};  ///< Instead of `password`.
  RabbitMqTls tls{};
  std::chrono::milliseconds connect_timeout{5'000};  ///< For one URL: 10 ms to 10 min.
  /// After twice this time without a sign of life, the connection is lost: 1 s to 10 min.
  std::chrono::seconds heartbeat{10};
};

struct RabbitMqPublisherOptions {
  std::string exchange{};  ///< Empty: the default exchange, whose routing keys are queues.
  /// `{topic}` and `{stream}` are replaced. A key of more than 255 bytes is refused.
  std::string routing_key = "{topic}";
};

struct RabbitMqConsumerOptions {
  std::string queue{};  ///< It must exist.
  /// The largest number of messages that are delivered and not acknowledged: 1 to 65,535.
  int prefetch = 256;
};

class RabbitMq {
 public:
  /// Throws std::invalid_argument if the options are wrong. Does not connect.
  explicit RabbitMq(RabbitMqOptions options = {});
  ~RabbitMq();
  RabbitMq(RabbitMq&&) noexcept;
  RabbitMq& operator=(RabbitMq&&) noexcept;

  [[nodiscard]] std::shared_ptr<Publisher> publisher(RabbitMqPublisherOptions options = {}) const;
  [[nodiscard]] std::shared_ptr<Consumer> consumer(RabbitMqConsumerOptions options) const;

 private:
  std::shared_ptr<const RabbitMqOptions> options_;
};

}  // namespace dovetail
