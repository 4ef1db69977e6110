#include "transport/webhook/kind.hpp"

#include "dovetail/webhook.hpp"

namespace dovetail::transport::webhook {
namespace {

using transport::Key;

std::vector<Key> keys_of_webhooks() {
  return {{.name = "secret",
           .description = "One or more secrets (whsec_…) that sign requests, one per line",
           .secret = true},
          {.name = "allowed_networks",
           .type = Key::Type::list,
           .description = "Special addresses that are allowed, such as 10.1.0.0/16"},
          {.name = "ca_file",
           .description = "Trusted certificates in PEM format; default: those of the system",
           .is_path = true},
          {.name = "parallel",
           .type = Key::Type::number,
           .description = "Requests at the same time: 1 to 256"},
          {.name = "timeout",
           .type = Key::Type::duration,
           .description = "Limit of one request: 100 ms to 1 min"}};
}

std::shared_ptr<Publisher> make_publisher(const transport::Settings& settings) {
  WebhookOptions options{.url = settings.url};
  if (const auto secrets = settings.find("secret")) options.secrets = WebhookSecret::list(*secrets);
  options.allowed_networks = settings.list("allowed_networks");
  options.ca_file = settings.text("ca_file");
  options.parallel = static_cast<int>(settings.number("parallel", 1, 256, options.parallel));
  options.timeout = settings.duration("timeout", std::chrono::milliseconds{100},
                                      std::chrono::minutes{1}, options.timeout);
  return webhook_publisher(std::move(options));
}

}  // namespace

transport::Kind kind() {
  return {.name = "webhook",
          .schemes = {"https", "http"},
          .description = "Signed HTTP requests (Standard Webhooks); publishes only",
          .keys = keys_of_webhooks(),
          .make_publisher = &make_publisher};
}

}  // namespace dovetail::transport::webhook
