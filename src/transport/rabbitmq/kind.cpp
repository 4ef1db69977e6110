#include "transport/kind.hpp"

#include "dovetail/rabbitmq.hpp"

namespace dovetail::transport::rabbitmq {
namespace {

using std::chrono::milliseconds;
using Place = Key::Place;
using Type = Key::Type;

std::vector<Key> keys() {
  return {
      {"urls", Place::connection, Type::list, "further servers of the cluster"},
      {"name", Place::connection, Type::text, "the name of the connection"},
      {"user", Place::connection, Type::text, "the user; guest"},
      {.name = "password", .description = "the password of the user; guest", .secret = true},
      {.name = "tls_ca", .description = "PEM file of trusted certificates", .is_path = true},
      {.name = "tls_certificate", .description = "PEM file of the client", .is_path = true},
      {.name = "tls_key", .description = "PEM file of the client's key", .is_path = true},
      {"connect_timeout", Place::connection, Type::duration, "of one server; 5s"},
      {"heartbeat", Place::connection, Type::duration, "between signs of life; 10s"},
      {"exchange", Place::publish, Type::text, "the exchange; the default one"},
      {"routing_key", Place::publish, Type::text, "such as shop.{topic}; {topic}"},
      {"queue", Place::consume, Type::text, "the queue, which must exist"},
      {"queue_prefetch", Place::consume, Type::number, "messages sent ahead; 256"},
  };
}

RabbitMq connection_of(const Settings& settings) {
  RabbitMqOptions options{.urls = settings.list("urls")};
  options.urls.insert(options.urls.begin(), settings.url);
  options.name = settings.text("name", options.name);
  options.user = settings.text("user", options.user);
  options.password = settings.text("password", options.password);
  options.tls = {.ca_file = settings.text("tls_ca"),
                 .certificate_file = settings.text("tls_certificate"),
                 .key_file = settings.text("tls_key")};
  options.connect_timeout = settings.duration("connect_timeout", milliseconds{10},
                                              std::chrono::minutes{10}, options.connect_timeout);
  options.heartbeat = std::chrono::duration_cast<std::chrono::seconds>(settings.duration(
      "heartbeat", std::chrono::seconds{1}, std::chrono::minutes{10}, options.heartbeat));
  return RabbitMq(std::move(options));
}

std::shared_ptr<Publisher> make_publisher(const Settings& settings) {
  RabbitMqPublisherOptions options{.exchange = settings.text("exchange")};
  options.routing_key = settings.text("routing_key", options.routing_key);
  return connection_of(settings).publisher(std::move(options));
}

std::shared_ptr<Consumer> make_consumer(const Settings& settings) {
  RabbitMqConsumerOptions options{.queue = settings.text("queue")};
  options.prefetch =
      static_cast<int>(settings.number("queue_prefetch", 1, 65'535, options.prefetch));
  return connection_of(settings).consumer(std::move(options));
}

}  // namespace

Kind kind() {
  return {.name = "rabbitmq",
          .schemes = {"amqp", "amqps"},
          .description = "RabbitMQ (AMQP 0-9-1)",
          .keys = keys(),
          .make_publisher = make_publisher,
          .make_consumer = make_consumer};
}

}  // namespace dovetail::transport::rabbitmq
