#include "transport/webhook/message_headers.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "transport/cloud_events.hpp"

namespace dovetail::transport::webhook {
namespace {

constexpr std::string_view content_type_name = "content-type";
constexpr std::string_view attribute_prefix = "ce-";

std::string lower_case_of(std::string_view text) {
  std::string lower{text};
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  });
  return lower;
}

template <class Prefixes>
bool starts_with_any(std::string_view name, const Prefixes& prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view each) { return name.starts_with(each); });
}

/// Headers that describe one connection or one request.
bool belongs_to_http(std::string_view name) {
  static const std::set<std::string, std::less<>> names{
      "accept",     "connection", "content-encoding", "content-length", "expect",
      "host",       "te",         "keep-alive",       "trailer",        "upgrade",
      "user-agent", "date",       "transfer-encoding"};
  constexpr std::array<std::string_view, 3> prefixes{"webhook-", "proxy-", "accept-"};
  return names.contains(name) || starts_with_any(name, prefixes);
}

/// Headers that proxies, browsers and callers add, and that no message needs. `dovetail-` is
/// reserved in the inbox.
bool belongs_to_the_way(std::string_view name) {
  static const std::set<std::string, std::less<>> names{
      "authorization", "cookie",    "forwarded",     "origin", "referer",
      "via",           "x-real-ip", "cache-control", "pragma"};
  constexpr std::array<std::string_view, 6> prefixes{"x-forwarded-", "cf-",     "sec-",
                                                     "x-amz",        "x-envoy", "dovetail-"};
  return names.contains(name) || starts_with_any(name, prefixes);
}

/// Two attributes whose names differ in case would be the same header.
bool is_misspelt_attribute(const std::string& name, const std::string& lower) {
  return lower.starts_with(attribute_prefix) && name != lower;
}

std::string content_type_of(const Message& message) {
  for (const auto& [name, value] : message.headers)
    if (lower_case_of(name) == content_type_name) return value;
  return nlohmann::json::accept(message.payload) ? "application/json" : "text/plain; charset=utf-8";
}

/// A content type has spaces and quotes of its own. Control characters would end the line.
std::string without_controls(std::string text) {
  std::erase_if(text, [](unsigned char c) { return c < 0x20 || c >= 0x7F; });
  return text;
}

}  // namespace

Headers message_headers(const Message& message, std::string_view source) {
  auto headers = transport::cloud_event_headers(message, source);
  std::erase_if(headers, [](const auto& header) {
    const auto name = lower_case_of(header.first);
    return belongs_to_http(name) || name == content_type_name ||
           is_misspelt_attribute(header.first, name);
  });
  headers.emplace(content_type_name, without_controls(content_type_of(message)));
  return headers;
}

IncomingMessage received_message(const Headers& headers, std::string body) {
  Headers kept;
  for (const auto& [name, value] : headers) {
    if (!belongs_to_http(name) && !belongs_to_the_way(name) && name != content_type_name)
      kept.emplace(name, value);
  }
  IncomingMessage message{.payload = std::move(body)};
  transport::read_cloud_event(kept, message);
  if (const auto type = headers.find(content_type_name); type != headers.end())
    message.headers.insert_or_assign(std::string{content_type_name}, type->second);
  const auto id = headers.find(std::string_view{"webhook-id"});
  message.id = id == headers.end() ? std::string{} : id->second;
  return message;
}

}  // namespace dovetail::transport::webhook
