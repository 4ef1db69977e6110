// Webhooks: messages of the outbox as signed HTTP requests, and the check of such requests.
//
//   platform.publish("order.*", dovetail::webhook_publisher(
//                                   {.url = "https://example.com/hooks",
//                                    .secret_files = {"/etc/dovetail/hooks.secret"}}));
//
// Requests follow Standard Webhooks (headers `webhook-id`, `webhook-timestamp` and
// `webhook-signature`) and the HTTP binding of CloudEvents 1.0 in binary mode (`ce-id`, `ce-type`,
// …). The body is the payload, byte for byte. It is a library of its own: link dovetail::webhook
// (built with DOVETAIL_WEBHOOK=ON).
//
// Guarantees
//   * A message is confirmed only by a 2xx answer to its own request.
//   * The signature covers the bytes that are sent. With several secrets a request has several
//     signatures, so that a secret can be replaced without an interruption.
//   * Redirects are not followed. Proxies, cookies and passwords of the environment are not used.
//   * The address of each connection is checked when it is opened, after the name was resolved. A
//     connection to a private, loopback, link-local or other special address is not opened, unless
//     WebhookOptions::allowed_networks contains it. A name that changes its address (DNS rebinding)
//     does not help.
//   * Errors and logs contain no secrets.
// Not guaranteed
//   * That the endpoint receives a message once. An answer can be lost. The repeated request has
//     the same `webhook-id` and a new timestamp.
//
// The results of a request
//   * 2xx: confirmed.
//   * 410: refused. The endpoint is disabled: the publisher sends nothing more until it is made
//     anew, see Publisher::blocked(). Other messages wait, and no attempt is charged.
//   * Other 4xx, 5xx, 3xx: rejected, with the time of `Retry-After` if there is one.
//   * No connection (the name is unknown, the address is not allowed, refused, TLS failed):
//     unavailable. All messages have this problem, so no attempt is charged.
//   * A connection but no answer in time, or a connection that ends: rejected. The message may be
//     the cause, and without a charge it would be sent forever.
//
// Threads: a WebhookSecret is a plain value. A publisher may be shared between threads and routes;
// `parallel` limits the requests of all its calls together.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/transport.hpp"

namespace dovetail {

/// A secret that signs requests and checks them.
class WebhookSecret {
 public:
  /// `whsec_` and the base64 of 24 to 64 bytes. The prefix may be absent. Throws
  /// std::invalid_argument, whose text does not contain the secret.
  explicit WebhookSecret(std::string_view text);

  /// The secrets of a text, separated by white space: 1 to 10. Throws std::invalid_argument.
  [[nodiscard]] static std::vector<WebhookSecret> list(std::string_view text);
  /// The secrets of a file. Throws std::invalid_argument that names the file.
  [[nodiscard]] static std::vector<WebhookSecret> from_file(const std::string& path);

  /// `v1,` and the base64 of the HMAC-SHA256 of `id.timestamp.body`.
  [[nodiscard]] std::string signature(std::string_view id, std::string_view timestamp,
                                      std::string_view body) const;

 private:
  std::string key_;
};

/// The headers of Standard Webhooks.
struct WebhookHeaders {
  std::string id{};         ///< `webhook-id`
  std::string timestamp{};  ///< `webhook-timestamp`: seconds since 1970.
  std::string signature{};  ///< `webhook-signature`: one or more, separated by spaces.
};

/// The headers of a request with this body. It is signed with each of the secrets.
[[nodiscard]] WebhookHeaders sign_webhook(std::string_view id, WallTime now, std::string_view body,
                                          std::span<const WebhookSecret> secrets);

enum class WebhookVerdict : std::uint8_t {
  valid,
  missing_header,   ///< One of the three headers is absent or empty.
  bad_timestamp,    ///< Not a number of seconds.
  too_old,          ///< The timestamp is out of the tolerance.
  too_new,          ///< The same, in the future.
  wrong_signature,  ///< No signature fits a secret.
};

[[nodiscard]] std::string_view to_string(WebhookVerdict verdict);

struct WebhookCheck {
  WebhookHeaders headers{};
  std::string_view body{};  ///< As it was received, byte for byte.
  WallTime now{};
  std::chrono::seconds tolerance = std::chrono::minutes{5};
};

/// Whether the request comes from an owner of one of the secrets, and is recent. The comparison
/// takes the same time wherever signatures differ. Use the id to deduplicate: within the tolerance,
/// a copy of a valid request is valid.
[[nodiscard]] WebhookVerdict verify_webhook(const WebhookCheck& check,
                                            std::span<const WebhookSecret> secrets);

struct WebhookOptions {
  /// `https://host[:port]/path[?query]`, or http. It must not contain a user, a password or a
  /// fragment. Only scheme, host and port appear in errors, logs and address().
  std::string url{};
  /// At least one secret, in one of these. Each file contains one or more, separated by line
  /// breaks. The files are read once, when the publisher is made.
  std::vector<WebhookSecret> secrets{};
  std::vector<std::string> secret_files{};
  /// Special addresses that are allowed, such as `10.1.0.0/16`, `127.0.0.1` or `fd00::/8`.
  std::vector<std::string> allowed_networks{};
  /// The certificates of the authorities that are trusted, in PEM format. Empty: those of the
  /// system.
  std::string ca_file{};
  int parallel = 32;                          ///< Requests at the same time: 1 to 256.
  std::chrono::milliseconds timeout{15'000};  ///< For one request: 100 ms to 1 min.
};

/// Throws std::invalid_argument or std::out_of_range that names the option. It connects to nothing.
[[nodiscard]] std::shared_ptr<Publisher> webhook_publisher(WebhookOptions options);

}  // namespace dovetail
