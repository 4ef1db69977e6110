#include "transport/kind.hpp"

#include "dovetail/nats.hpp"

namespace dovetail::transport::nats {
namespace {

using std::chrono::milliseconds;
using Place = Key::Place;
using Type = Key::Type;

std::vector<Key> keys() {
  return {
      {"urls", Place::connection, Type::list, "further servers of the cluster"},
      {"name", Place::connection, Type::text, "the name of the connection"},
      {"user", Place::connection, Type::text, "the user"},
      {.name = "password", .description = "the password of the user", .secret = true},
      {.name = "token", .description = "the token, instead of a user", .secret = true},
      {.name = "credentials", .description = "the file of a user JWT and its key", .is_path = true},
      {.name = "tls_ca", .description = "PEM file of trusted certificates", .is_path = true},
      {.name = "tls_certificate", .description = "PEM file of the client", .is_path = true},
      {.name = "tls_key", .description = "PEM file of the client's key", .is_path = true},
      {"tls_host_name", Place::connection, Type::text, "the name in the broker's certificate"},
      {"connect_timeout", Place::connection, Type::duration, "of one server; 5s"},
      {"subject", Place::publish, Type::text, "such as shop.{topic}; {topic}"},
      {"stream", Place::consume, Type::text, "the name of the JetStream stream"},
      {"durable", Place::consume, Type::text, "the name of the durable consumer"},
      {"filter_subject", Place::consume, Type::text, "only messages of these subjects"},
      {"ack_wait", Place::consume, Type::duration, "time until a message comes again; 30s"},
      {"max_ack_pending", Place::consume, Type::number, "unacknowledged messages; 10000"},
  };
}

Nats connection_of(const Settings& settings) {
  NatsOptions options{.urls = settings.list("urls"),
                      .user = settings.text("user"),
                      .password = settings.text("password"),
                      .token = settings.text("token"),
                      .credentials_file = settings.text("credentials")};
  options.urls.insert(options.urls.begin(), settings.url);
  options.name = settings.text("name", options.name);
  options.tls = {.ca_file = settings.text("tls_ca"),
                 .certificate_file = settings.text("tls_certificate"),
                 .key_file = settings.text("tls_key"),
                 .host_name = settings.text("tls_host_name")};
  options.connect_timeout = settings.duration("connect_timeout", milliseconds{10},
                                              std::chrono::minutes{10}, options.connect_timeout);
  return Nats(std::move(options));
}

std::shared_ptr<Publisher> make_publisher(const Settings& settings) {
  NatsPublisherOptions options;
  options.subject = settings.text("subject", options.subject);
  return connection_of(settings).publisher(std::move(options));
}

std::shared_ptr<Consumer> make_consumer(const Settings& settings) {
  NatsConsumerOptions options{.stream = settings.text("stream"),
                              .durable = settings.text("durable"),
                              .filter_subject = settings.text("filter_subject")};
  options.ack_wait =
      settings.duration("ack_wait", milliseconds{100}, std::chrono::hours{24}, options.ack_wait);
  options.max_ack_pending =
      static_cast<int>(settings.number("max_ack_pending", 1, 100'000, options.max_ack_pending));
  return connection_of(settings).consumer(std::move(options));
}

}  // namespace

Kind kind() {
  return {.name = "nats",
          .schemes = {"nats", "nats+tls"},
          .description = "NATS JetStream",
          .keys = keys(),
          .make_publisher = make_publisher,
          .make_consumer = make_consumer};
}

}  // namespace dovetail::transport::nats
