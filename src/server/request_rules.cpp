#include "server/request_rules.hpp"

#include <algorithm>
#include <cctype>

#include "server/http/http_server.hpp"

namespace dovetail::server {
namespace {

std::string in_lower_case(std::string_view text) {
  std::string lower{text};
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

/// `[::1]:80` and `name.:80` become `::1` and `name`.
std::string without_port(std::string_view host) {
  if (host.starts_with("[")) return std::string{host.substr(1, host.find(']') - 1)};
  auto name = host.substr(0, host.find(':'));
  if (name.ends_with(".")) name.remove_suffix(1);
  return in_lower_case(name);
}

}  // namespace

bool is_allowed_host(std::string_view host, const std::vector<std::string>& allowed) {
  const auto name = without_port(host);
  if (name == "localhost" || http::is_ip_address(name)) return true;
  return std::ranges::any_of(
      allowed, [&](const std::string& each) { return each == "*" || in_lower_case(each) == name; });
}

bool is_same_site(const Headers& headers, Proof proof) {
  if (proof == Proof::token) return true;
  if (const auto site = find_header(headers, "sec-fetch-site")) return *site == "same-origin";
  // Browsers leave it out where they do not trust the network: plain HTTP to another machine.
  if (const auto origin = find_header(headers, "origin")) {
    const auto host = origin->find("://");
    return host != std::string_view::npos &&
           origin->substr(host + 3) == find_header(headers, "host");
  }
  return proof != Proof::session;
}

bool is_json(const Headers& headers) {
  const auto type = find_header(headers, "content-type").value_or("");
  auto essence = in_lower_case(type.substr(0, type.find(';')));
  while (essence.ends_with(" ")) essence.pop_back();
  return essence == "application/json";
}

}  // namespace dovetail::server
