// Signed webhooks of others, which are stored in the inbox.
//
// Threads: may be shared between threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "server/databases.hpp"
#include "server/log_limit.hpp"
#include "server/request.hpp"

namespace dovetail::server {

/// Throws std::invalid_argument or std::out_of_range. The text contains no secrets.
void require_webhook(const ServerWebhook& webhook);

/// Answers `POST /webhooks/NAME`.
class WebhookReceiver {
 public:
  WebhookReceiver(Databases databases, const std::vector<ServerWebhook>& webhooks, Logger log,
                  Metrics metrics);
  ~WebhookReceiver();
  WebhookReceiver(const WebhookReceiver&) = delete;
  WebhookReceiver& operator=(const WebhookReceiver&) = delete;

  /// From now on.
  void replace(const std::vector<ServerWebhook>& webhooks);
  /// Checks the signature and stores the message. Throws Problem.
  [[nodiscard]] Response receive(const Request& request);

 private:
  struct Entry;

  [[nodiscard]] std::shared_ptr<const Entry> entry_named(const std::string& name) const;
  void require_signature(const Entry& entry, const Request& request);
  void note(const std::string& name, const char* result) const;

  Databases databases_;
  Logger log_;
  Metrics metrics_;
  LogLimit refusals_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Entry>> entries_;  ///< Under mutex_.
};

}  // namespace dovetail::server
