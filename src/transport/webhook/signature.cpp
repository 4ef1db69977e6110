// Signatures of Standard Webhooks.
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "dovetail/webhook.hpp"

namespace dovetail {
namespace {

constexpr std::string_view secret_prefix = "whsec_";
constexpr std::string_view signature_version = "v1,";
constexpr std::string_view white_space = " \t\r\n";
constexpr std::size_t least_secret_bytes = 24;
constexpr std::size_t most_secret_bytes = 64;
constexpr std::size_t most_secrets = 10;
/// More signatures of one request are not checked: a caller must not cost much time.
constexpr std::size_t most_signatures = 20;
constexpr std::streamsize most_secret_file_bytes = 64 << 10;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string base64_of(std::span<const unsigned char> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with the NUL of OpenSSL
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(),
                  static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

/// Empty if it is not base64.
std::string from_base64(std::string_view text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto padding = text.ends_with("==") ? 2U : text.ends_with("=") ? 1U : 0U;
  const auto core = text.substr(0, text.size() - padding);
  if (text.empty() || text.size() % 4 != 0 ||
      core.find_first_not_of(digits) != std::string_view::npos) {
    return {};
  }
  std::string bytes(text.size() / 4 * 3, '\0');
  const int count = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), bytes_of(text),
                                    static_cast<int>(text.size()));
  if (count < 0) return {};
  bytes.resize(bytes.size() - padding);
  return bytes;
}

/// The words of a text that are separated by white space; at most `most`.
std::vector<std::string_view> words_of(std::string_view text, std::size_t most) {
  std::vector<std::string_view> words;
  while (words.size() < most) {
    const auto begin = text.find_first_not_of(white_space);
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const auto end = std::min(text.find_first_of(white_space), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

bool is_same_text(std::string_view left, std::string_view right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

bool has_signature(std::span<const std::string_view> given, const std::string& wanted) {
  bool found = false;
  for (const auto each : given) found |= is_same_text(each, wanted);  // all of them
  return found;
}

/// Seconds since 1970, or nothing.
std::optional<std::int64_t> seconds_in(std::string_view text) {
  std::int64_t seconds = 0;
  const auto* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, seconds);
  const bool is_number = error == std::errc{} && stopped == end && seconds >= 0;
  return is_number ? std::optional{seconds} : std::nullopt;
}

std::int64_t seconds_at(WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

}  // namespace

WebhookSecret::WebhookSecret(std::string_view text) {
  if (text.starts_with(secret_prefix)) text.remove_prefix(secret_prefix.size());
  key_ = from_base64(text);
  if (key_.size() < least_secret_bytes || key_.size() > most_secret_bytes) {
    throw std::invalid_argument(
        "a secret of webhooks must be whsec_ and the base64 of 24 to 64 bytes");
  }
}

std::vector<WebhookSecret> WebhookSecret::list(std::string_view text) {
  const auto words = words_of(text, most_secrets + 1);
  if (words.empty() || words.size() > most_secrets)
    throw std::invalid_argument("there must be 1 to 10 secrets of webhooks");
  return {words.begin(), words.end()};
}

std::vector<WebhookSecret> WebhookSecret::from_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(most_secret_file_bytes + 1, '\0');
  if (!in || in.read(text.data(), most_secret_file_bytes + 1).bad())
    throw std::invalid_argument("the file of secrets " + path + " cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  try {
    return list(text);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("the file of secrets " + path + ": " + error.what());
  }
}

std::string WebhookSecret::signature(std::string_view id, std::string_view timestamp,
                                     std::string_view body) const {
  std::string content;
  content.reserve(id.size() + timestamp.size() + body.size() + 2);
  content.append(id).append(1, '.').append(timestamp).append(1, '.').append(body);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const auto* const done = HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
                                bytes_of(content), content.size(), digest.data(), &size);
  if (done == nullptr) throw std::runtime_error("OpenSSL could not sign the webhook");
  return std::string{signature_version} + base64_of(std::span{digest}.first(size));
}

WebhookHeaders sign_webhook(std::string_view id, WallTime now, std::string_view body,
                            std::span<const WebhookSecret> secrets) {
  WebhookHeaders headers{.id = std::string{id}, .timestamp = std::to_string(seconds_at(now))};
  for (const auto& secret : secrets) {
    if (!headers.signature.empty()) headers.signature += ' ';
    headers.signature += secret.signature(id, headers.timestamp, body);
  }
  return headers;
}

std::string_view to_string(WebhookVerdict verdict) {
  switch (verdict) {
    case WebhookVerdict::valid:
      return "valid";
    case WebhookVerdict::missing_header:
      return "missing_header";
    case WebhookVerdict::bad_timestamp:
      return "bad_timestamp";
    case WebhookVerdict::too_old:
      return "too_old";
    case WebhookVerdict::too_new:
      return "too_new";
    case WebhookVerdict::wrong_signature:
      return "wrong_signature";
  }
  return "unknown";
}

WebhookVerdict verify_webhook(const WebhookCheck& check, std::span<const WebhookSecret> secrets) {
  const auto& [id, timestamp, signature] = check.headers;
  if (id.empty() || timestamp.empty() || signature.empty()) return WebhookVerdict::missing_header;
  const auto sent = seconds_in(timestamp);
  if (!sent) return WebhookVerdict::bad_timestamp;
  const auto now = seconds_at(check.now);
  if (*sent < now - check.tolerance.count()) return WebhookVerdict::too_old;
  if (*sent > now + check.tolerance.count()) return WebhookVerdict::too_new;
  const auto given = words_of(signature, most_signatures);
  bool is_valid = false;
  for (const auto& secret : secrets)
    is_valid |= has_signature(given, secret.signature(id, timestamp, check.body));
  return is_valid ? WebhookVerdict::valid : WebhookVerdict::wrong_signature;
}

}  // namespace dovetail
