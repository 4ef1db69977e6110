#include "server/request_rules.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "server/http/http_server.hpp"

namespace dovetail::server {
namespace {

std::string in_lower_case(std::string_view text) {
  std::string lower{text};
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool is_port(std::string_view text) {
  return text.size() <= 5 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// `[::1]:80` and `Name.:80` become `::1` and `name`. Nothing if it is not a host with or without a
/// port.
std::optional<std::string> name_in(std::string_view host) {
  const bool is_v6 = host.starts_with("[");
  const auto end = is_v6 ? host.find(']') : std::min(host.find(':'), host.size());
  if (end == std::string_view::npos) return std::nullopt;
  const auto rest = host.substr(is_v6 ? end + 1 : end);
  if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return std::nullopt;
  auto name = in_lower_case(is_v6 ? host.substr(1, end - 1) : host.substr(0, end));
  if (is_v6) {
    const bool is_address = name.find(':') != std::string::npos && http::is_ip_address(name);
    return is_address ? std::optional{name} : std::nullopt;
  }
  if (name.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-._") != std::string::npos)
    return std::nullopt;
  if (name.ends_with(".")) name.pop_back();
  return name;
}

}  // namespace

bool is_allowed_host(std::string_view host, const std::vector<std::string>& allowed) {
  const auto name = name_in(host);
  if (!name) return false;
  if (*name == "localhost" || http::is_ip_address(*name)) return true;
  return std::ranges::any_of(allowed, [&](const std::string& each) {
    return each == "*" || in_lower_case(each) == *name;
  });
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
