#include "transport/kind.hpp"

#include "dovetail/amqp.hpp"

namespace dovetail::transport::amqp {
namespace {

std::vector<Key> keys_of_amqp() {
  return {{.name = "user", .description = "The user, for SASL PLAIN"},
          {.name = "password", .description = "Of the user", .secret = true},
          {.name = "ca_file",
           .description = "Trusted certificates in PEM format; default: those of the system",
           .is_path = true},
          {.name = "certificate_file",
           .description = "The certificate of this client, in PEM format",
           .is_path = true},
          {.name = "key_file", .description = "The key of the certificate", .is_path = true},
          {.name = "virtual_host", .description = "Default: the host of the URL"},
          {.name = "address",
           .place = Key::Place::publish,
           .description = "The queue or topic, such as orders or shop.{topic}"},
          {.name = "address",
           .place = Key::Place::consume,
           .description = "The queue or subscription to receive from"}};
}

Amqp broker_of(const Settings& settings) {
  return Amqp({.url = settings.url,
               .user = settings.text("user"),
               .password = settings.text("password"),
               .ca_file = settings.text("ca_file"),
               .certificate_file = settings.text("certificate_file"),
               .key_file = settings.text("key_file"),
               .virtual_host = settings.text("virtual_host")});
}

}  // namespace

// NOLINTNEXTLINE(misc-use-internal-linkage): the generated list of transports declares it
Kind kind() {
  return {
      .name = "amqp",
      .schemes = {"amqp1", "amqp1s"},
      .description = "AMQP 1.0: Azure Service Bus, ActiveMQ, Artemis, Qpid",
      .keys = keys_of_amqp(),
      .make_publisher =
          [](const Settings& settings) {
            return broker_of(settings).publisher({.address = settings.text("address", "{topic}")});
          },
      .make_consumer =
          [](const Settings& settings) {
            return broker_of(settings).consumer({.address = settings.text("address")});
          }};
}

}  // namespace dovetail::transport::amqp
