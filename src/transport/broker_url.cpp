#include "transport/broker_url.hpp"

#include <charconv>
#include <stdexcept>

#include "transport/cloud_events.hpp"

namespace dovetail::transport {
namespace {

[[noreturn]] void refuse(const char* problem) {
  throw std::invalid_argument(std::string{"the URL of a broker is SCHEME://HOST:PORT: "} + problem);
}

void read_login(std::string_view login, BrokerUrl& url) {
  const auto colon = login.find(':');
  url.user = decoded(login.substr(0, colon));
  if (colon != std::string_view::npos) url.password = decoded(login.substr(colon + 1));
}

void read_port(std::string_view text, BrokerUrl& url) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port < 1 || port > 65535) {
    refuse("the port must be 1 to 65535");
  }
  url.port = port;
}

void read_host(std::string_view text, BrokerUrl& url) {
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) refuse("the bracket of the host is not closed");
    url.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (text.starts_with(':')) read_port(text.substr(1), url);
  } else {
    const auto colon = text.find(':');
    url.host = text.substr(0, colon);
    if (colon != std::string_view::npos) read_port(text.substr(colon + 1), url);
  }
  if (url.host.empty()) refuse("the host is missing");
}

}  // namespace

BrokerUrl BrokerUrl::parse(std::string_view text) {
  const auto scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos || scheme_end == 0) refuse("the scheme is missing");
  BrokerUrl url{.scheme = std::string{text.substr(0, scheme_end)}};
  auto rest = text.substr(scheme_end + 3);
  const auto slash = rest.find('/');
  if (slash != std::string_view::npos) {
    url.path = decoded(rest.substr(slash + 1));
    rest = rest.substr(0, slash);
  }
  const auto at = rest.rfind('@');
  if (at != std::string_view::npos) {
    read_login(rest.substr(0, at), url);
    rest.remove_prefix(at + 1);
  }
  read_host(rest, url);
  return url;
}

std::string BrokerUrl::address(int default_port) const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return scheme + "://" + (is_v6 ? "[" + host + "]" : host) + ":" +
         std::to_string(port.value_or(default_port));
}

}  // namespace dovetail::transport
