#include "transport/webhook/endpoint.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>

namespace dovetail::transport::webhook {
namespace {

constexpr int most_parallel = 256;
constexpr std::chrono::milliseconds least_timeout{100};
constexpr std::chrono::milliseconds most_timeout = std::chrono::minutes{1};

/// The text does not contain the URL: it may have a secret.
[[noreturn]] void refuse_url(const std::string& why) {
  throw std::invalid_argument("url must be https://host[:port]/path or http://…: " + why);
}

using ParsedUrl = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

std::string part_of(const ParsedUrl& url, CURLUPart part) {
  char* found = nullptr;
  if (curl_url_get(url.get(), part, &found, 0) != CURLUE_OK) return {};
  const std::unique_ptr<char, decltype(&curl_free)> owner(found, &curl_free);
  return found;
}

ParsedUrl parsed_url(const std::string& text) {
  if (!text.starts_with("https://") && !text.starts_with("http://"))
    refuse_url("it does not begin with https:// or http://");
  const bool is_plain = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F; });
  if (!is_plain) refuse_url("it contains a space or another character that a URL has not");
  ParsedUrl url(curl_url(), &curl_url_cleanup);
  const auto code = curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0);
  if (code != CURLUE_OK) refuse_url(curl_url_strerror(code));
  for (const auto part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_FRAGMENT}) {
    if (!part_of(url, part).empty())
      refuse_url("it must not contain a user, a password or a fragment");
  }
  return url;
}

std::string origin_of(const std::string& text) {
  const auto url = parsed_url(text);
  const auto port = part_of(url, CURLUPART_PORT);
  return part_of(url, CURLUPART_SCHEME) + "://" + part_of(url, CURLUPART_HOST) +
         (port.empty() ? "" : ":" + port);
}

std::vector<WebhookSecret> all_secrets(const WebhookOptions& options) {
  auto secrets = options.secrets;
  for (const auto& file : options.secret_files) {
    const auto more = WebhookSecret::from_file(file);
    secrets.insert(secrets.end(), more.begin(), more.end());
  }
  if (secrets.empty()) {
    throw std::invalid_argument(
        "a webhook needs a secret that signs its requests: secret_files, or the setting "
        "secret_file");
  }
  return secrets;
}

std::size_t checked_parallel(int parallel) {
  if (parallel < 1 || parallel > most_parallel)
    throw std::out_of_range("parallel must be 1 to 256, got " + std::to_string(parallel));
  return static_cast<std::size_t>(parallel);
}

std::chrono::milliseconds checked_timeout(std::chrono::milliseconds timeout) {
  if (timeout < least_timeout || timeout > most_timeout)
    throw std::out_of_range("timeout must be 100 ms to 1 min");
  return timeout;
}

}  // namespace

Endpoint::Endpoint(WebhookOptions options)
    : url(options.url),
      shown(origin_of(options.url)),
      secrets(all_secrets(options)),
      rules(options.allowed_networks),
      ca_file(std::move(options.ca_file)),
      parallel(checked_parallel(options.parallel)),
      timeout(checked_timeout(options.timeout)) {}

}  // namespace dovetail::transport::webhook
