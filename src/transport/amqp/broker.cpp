#include "transport/amqp/broker.hpp"

#include <fstream>
#include <iterator>
#include <proton/duration.hpp>
#include <proton/ssl.hpp>
#include <stdexcept>

#include "transport/cloud_events.hpp"

namespace dovetail::transport::amqp {
namespace {

constexpr std::string_view plain_scheme = "amqp1://";
constexpr std::string_view tls_scheme = "amqp1s://";

[[noreturn]] void refuse_broker_url(const char* why) {
  throw std::invalid_argument(
      std::string{"url must be amqp1://HOST[:PORT] or amqp1s://HOST[:PORT]: "} + why);
}

/// Takes `USER:PASSWORD@` from the beginning.
void take_user(std::string_view& rest, BrokerUrl& url) {
  const auto at = rest.rfind('@');
  if (at == std::string_view::npos) return;
  const auto user = rest.substr(0, at);
  const auto colon = user.find(':');
  url.user = decoded(user.substr(0, colon));
  if (colon != std::string_view::npos) url.password = decoded(user.substr(colon + 1));
  rest.remove_prefix(at + 1);
}

std::string host_in_brackets(const BrokerUrl& url) {
  return url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]";
}

std::string password_in(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  if (!in) throw std::runtime_error("password_file: cannot read " + path);
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

proton::ssl_client_options tls_options(const AmqpOptions& options) {
  constexpr auto mode = proton::ssl::VERIFY_PEER_NAME;
  const bool has_certificate = !options.certificate_file.empty();
  if (!has_certificate && options.ca_file.empty()) return proton::ssl_client_options(mode);
  if (!has_certificate) return {options.ca_file, mode};
  return {proton::ssl_certificate{options.certificate_file, options.key_file}, options.ca_file,
          mode};
}

}  // namespace

std::string BrokerUrl::address() const {
  return (has_tls ? "amqps://" : "amqp://") + host_in_brackets(*this) + ":" + port;
}

std::string BrokerUrl::shown() const {
  return std::string{has_tls ? tls_scheme : plain_scheme} + host_in_brackets(*this) + ":" + port;
}

BrokerUrl parse_broker_url(const std::string& text) {
  BrokerUrl url{.has_tls = text.starts_with(tls_scheme)};
  if (!url.has_tls && !text.starts_with(plain_scheme)) refuse_broker_url("the scheme is another");
  auto rest = std::string_view{text}.substr((url.has_tls ? tls_scheme : plain_scheme).size());
  take_user(rest, url);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?# \t\r\n") != std::string_view::npos)
    refuse_broker_url("nothing may follow the port");
  const bool has_brackets = rest.starts_with('[');
  const auto end = has_brackets ? rest.find(']') : std::min(rest.find(':'), rest.size());
  if (end == std::string_view::npos) refuse_broker_url("a bracket is missing");
  url.host = rest.substr(has_brackets ? 1 : 0, has_brackets ? end - 1 : end);
  rest.remove_prefix(has_brackets ? end + 1 : end);
  if (url.host.empty()) refuse_broker_url("the host is missing");
  url.port = url.has_tls ? "5671" : "5672";
  if (rest.empty()) return url;
  url.port = rest.substr(1);
  const bool is_port = rest.front() == ':' && !url.port.empty() && url.port.size() <= 5 &&
                       url.port.find_first_not_of("0123456789") == std::string::npos;
  if (!is_port) refuse_broker_url("the port is not a number");
  return url;
}

void require_valid(const AmqpOptions& options) {
  const auto url = parse_broker_url(options.url);
  if (options.idle_timeout < std::chrono::seconds{1} ||
      options.idle_timeout > std::chrono::minutes{10}) {
    throw std::out_of_range("idle_timeout must be 1 s to 10 min");
  }
  if (!options.password.empty() && !options.password_file.empty())
    throw std::invalid_argument("password and password_file are both given: give one of them");
  if (options.certificate_file.empty() != options.key_file.empty())
    throw std::invalid_argument("certificate_file and key_file must be given together");
  const bool has_files = !options.ca_file.empty() || !options.certificate_file.empty();
  if (has_files && !url.has_tls)
    throw std::invalid_argument("ca_file and certificate_file need a URL with amqp1s://");
}

proton::connection_options connection_options(const AmqpOptions& options) {
  const auto url = parse_broker_url(options.url);
  proton::connection_options result;
  const auto user = options.user.empty() ? url.user : options.user;
  auto password = options.password.empty() ? url.password : options.password;
  if (!options.password_file.empty()) password = password_in(options.password_file);
  result.sasl_enabled(true).sasl_allowed_mechs(user.empty() ? "ANONYMOUS" : "PLAIN");
  result.sasl_allow_insecure_mechs(true);  // PLAIN without TLS, if the URL says so
  if (!user.empty()) result.user(user).password(password);
  if (url.has_tls) result.ssl_client_options(tls_options(options));
  result.virtual_host(options.virtual_host.empty() ? url.host : options.virtual_host);
  result.idle_timeout(proton::duration(options.idle_timeout.count()));
  return result;
}

}  // namespace dovetail::transport::amqp
