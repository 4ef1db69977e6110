#include "server/webhooks.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/require.hpp"
#include "server/problem.hpp"
#include "server/routes.hpp"
#ifdef DOVETAIL_WITH_WEBHOOK
#include "dovetail/webhook.hpp"
#include "transport/webhook/message_headers.hpp"
#endif

namespace dovetail::server {
namespace {

constexpr std::size_t max_webhook_name = 64;  // of a source of the inbox
constexpr std::chrono::seconds most_tolerance = std::chrono::hours{1};

void require_webhook_name(const std::string& name) {
  const auto bad =
      name.find_first_not_of("-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  if (name.empty() || name.size() > max_webhook_name || bad != std::string::npos) {
    throw std::invalid_argument(
        "the name of a webhook must have 1 to 64 letters, digits, dots, "
        "hyphens or underscores, got \"" +
        name + "\"");
  }
}

}  // namespace

#ifdef DOVETAIL_WITH_WEBHOOK

namespace {

constexpr std::size_t webhook_refusals_per_minute = 20;

/// The first of headers with the same name counts.
dovetail::Headers headers_of(const Request& request) {
  return {request.headers.begin(), request.headers.end()};
}

WebhookHeaders signature_in(const Request& request) {
  const auto value = [&](const char* name) {
    return std::string{find_header(request.headers, name).value_or("")};
  };
  return {.id = value("webhook-id"),
          .timestamp = value("webhook-timestamp"),
          .signature = value("webhook-signature")};
}

InboxRequest inbox_request(IncomingMessage message, const ServerWebhook& webhook) {
  if (message.problem) throw Problem(400, *message.problem);
  if (!webhook.topic.empty()) message.topic = webhook.topic;
  if (message.topic.empty()) {
    throw Problem(400, "the message has no topic: it has no header ce-type, and webhooks." +
                           webhook.name + ".topic is not set");
  }
  return {.topic = std::move(message.topic),
          .source = webhook.name,
          .message_id = std::move(message.id),
          .payload = std::move(message.payload),
          .correlation_id = std::move(message.correlation_id),
          .headers = std::move(message.headers),
          .stream = std::move(message.stream)};
}

void require_payload_size(const Request& request, Platform& platform) {
  const auto most = platform.inbox().options().queue.max_payload_bytes;
  if (request.body.size() > most)
    throw Problem(413, "the body is larger than " + std::to_string(most) + " bytes");
}

}  // namespace

struct WebhookReceiver::Entry {
  explicit Entry(const ServerWebhook& webhook)
      : options(webhook), secrets(WebhookSecret::list(webhook.secret)) {}

  ServerWebhook options;
  std::vector<WebhookSecret> secrets;
};

void require_webhook(const ServerWebhook& webhook) {
  require_webhook_name(webhook.name);
  if (webhook.tolerance < std::chrono::seconds{1} || webhook.tolerance > most_tolerance)
    throw std::out_of_range("tolerance of the webhook " + webhook.name + " must be 1 s to 1 h");
  core::require_length("topic", webhook.topic, 255);
  try {
    static_cast<void>(WebhookSecret::list(webhook.secret));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("the webhook " + webhook.name + ": " + error.what());
  }
}

void WebhookReceiver::replace(const std::vector<ServerWebhook>& webhooks) {
  std::vector<std::shared_ptr<const Entry>> entries;
  entries.reserve(webhooks.size());
  for (const auto& each : webhooks) entries.push_back(std::make_shared<Entry>(each));
  const std::lock_guard lock(mutex_);
  entries_ = std::move(entries);
}

std::shared_ptr<const WebhookReceiver::Entry> WebhookReceiver::entry_named(
    const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(
      entries_, name, [](const auto& each) -> const auto& { return each->options.name; });
  if (found == entries_.end()) throw Problem(404, "there is no such webhook");
  return *found;
}

void WebhookReceiver::require_signature(const Entry& entry, const Request& request) {
  const auto now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  const auto verdict = verify_webhook({.headers = signature_in(request),
                                       .body = request.body,
                                       .now = now,
                                       .tolerance = entry.options.tolerance},
                                      entry.secrets);
  if (verdict == WebhookVerdict::valid) return;
  note(entry.options.name, "refused");
  if (const auto suppressed = refusals_.admit()) {
    log_.write(LogLevel::warn, "server.webhook_refused",
               {{"webhook", entry.options.name},
                {"reason", to_string(verdict)},
                {"peer", request.peer},
                {"suppressed", *suppressed}});
  }
  if (verdict == WebhookVerdict::missing_header)
    throw Problem(400, "webhook-id, webhook-timestamp and webhook-signature must be present");
  if (verdict == WebhookVerdict::bad_timestamp)
    throw Problem(400, "webhook-timestamp must be a number of seconds");
  throw Problem(401, verdict == WebhookVerdict::wrong_signature
                         ? "the signature does not fit the body"
                         : "the webhook-timestamp is too far from the time of the server");
}

Response WebhookReceiver::receive(const Request& request) {
  const auto entry = entry_named(request.parameter("webhook"));
  require_signature(*entry, request);
  const auto platform = databases_.find(entry->options.database);
  if (!platform) {
    throw Problem(500, "webhooks." + entry->options.name + ".database does not name a database");
  }
  require_payload_size(request, *platform);
  const auto stored = platform->inbox().enqueue(inbox_request(
      transport::webhook::received_message(headers_of(request), request.body), entry->options));
  const std::string outcome{to_string(stored.outcome)};
  note(entry->options.name, outcome.c_str());
  return {.body = nlohmann::json{{"outcome", outcome}}.dump()};
}

void WebhookReceiver::note(const std::string& name, const char* result) const {
  metrics_.count("dovetail_server_webhooks_total", 1, {{"webhook", name}, {"result", result}});
}

WebhookReceiver::WebhookReceiver(Databases databases, const std::vector<ServerWebhook>& webhooks,
                                 Logger log, Metrics metrics)
    : databases_(databases),
      log_(std::move(log)),
      metrics_(std::move(metrics)),
      refusals_(webhook_refusals_per_minute) {
  replace(webhooks);
}

void add_webhook_routes(RouteTable& routes, WebhookReceiver& receiver) {
  routes.add({.method = "POST",
              .pattern = "/webhooks/{webhook}",
              .handler = [&receiver](const Request& request) { return receiver.receive(request); },
              .is_signed = true});
}

#else

struct WebhookReceiver::Entry {};

void require_webhook(const ServerWebhook& webhook) {
  require_webhook_name(webhook.name);
  throw std::invalid_argument("webhooks." + webhook.name +
                              " needs a build with -DDOVETAIL_WEBHOOK=ON");
}

WebhookReceiver::WebhookReceiver(Databases databases,
                                 const std::vector<ServerWebhook>& /*webhooks*/, Logger log,
                                 Metrics metrics)
    : databases_(databases), log_(std::move(log)), metrics_(std::move(metrics)), refusals_(1) {}

void WebhookReceiver::replace(const std::vector<ServerWebhook>& /*webhooks*/) {}

void add_webhook_routes(RouteTable& /*routes*/, WebhookReceiver& /*receiver*/) {}

#endif

WebhookReceiver::~WebhookReceiver() = default;

}  // namespace dovetail::server
