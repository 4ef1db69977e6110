// Where a publisher of webhooks sends, and how: its checked options.
#pragma once

#include <string>
#include <vector>

#include "dovetail/webhook.hpp"
#include "transport/webhook/address_rules.hpp"

namespace dovetail::transport::webhook {

struct Endpoint {
  /// Throws std::invalid_argument or std::out_of_range that names the option.
  explicit Endpoint(WebhookOptions options);

  std::string url;
  std::string shown;  ///< Scheme, host and port: a path can be a secret.
  std::vector<WebhookSecret> secrets;
  AddressRules rules;
  std::string ca_file;
  std::size_t parallel;
  std::chrono::milliseconds timeout;
};

}  // namespace dovetail::transport::webhook
