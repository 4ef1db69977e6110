#include "transport/nats/connection_options.hpp"

#include <stdexcept>

#include "transport/broker_url.hpp"
#include "transport/nats/connection.hpp"
#include "transport/secret_file.hpp"

namespace dovetail::transport::nats {
namespace {

using transport::BrokerUrl;

constexpr int default_port = 4222;
constexpr std::int64_t ping_interval_ms = 5'000;
constexpr int max_pings_out = 2;

bool requires_tls(const BrokerUrl& url) {
  return url.scheme == "nats+tls" || url.scheme == "tls";
}

BrokerUrl checked_url(const std::string& text) {
  auto url = BrokerUrl::parse(text);
  if (url.scheme != "nats" && !requires_tls(url)) {
    throw std::invalid_argument("urls must begin with nats:// or nats+tls://, got " + url.scheme +
                                "://");
  }
  return url;
}

void set_login(natsOptions* native, const NatsOptions& options, const BrokerUrl& url) {
  if (!options.credentials_file.empty()) {
    require(
        natsOptions_SetUserCredentialsFromFiles(native, options.credentials_file.c_str(), nullptr),
        "credentials_file " + options.credentials_file);
    return;
  }
  auto token = transport::secret_of(options.token, options.token_file, "token_file");
  auto user = url.user.value_or(options.user);
  if (url.user && !url.password) token = std::exchange(user, "");  // nats://TOKEN@HOST
  if (!token.empty()) {
    require(natsOptions_SetToken(native, token.c_str()), "token");
  } else if (!user.empty()) {
    const auto password =
        url.password
            ? *url.password
            : transport::secret_of(options.password, options.password_file, "password_file");
    require(natsOptions_SetUserInfo(native, user.c_str(), password.c_str()), "user");
  }
}

void set_tls(natsOptions* native, const NatsTls& tls, const BrokerUrl& url) {
  if (requires_tls(url)) require(natsOptions_SetSecure(native, true), "TLS");
  // A broker may require TLS also if the URL does not.
  const auto& name = tls.host_name.empty() ? url.host : tls.host_name;
  require(natsOptions_SetExpectedHostname(native, name.c_str()), "tls.host_name");
  if (!tls.ca_file.empty()) {
    require(natsOptions_LoadCATrustedCertificates(native, tls.ca_file.c_str()), "tls.ca_file");
  }
  if (!tls.certificate_file.empty()) {
    require(natsOptions_LoadCertificatesChain(native, tls.certificate_file.c_str(),
                                              tls.key_file.c_str()),
            "tls.certificate_file");
  }
}

void set_limits(natsOptions* native, const NatsOptions& options) {
  require(natsOptions_SetAllowReconnect(native, false), "reconnect");
  require(natsOptions_SetTimeout(native, options.connect_timeout.count()), "connect_timeout");
  require(natsOptions_SetWriteDeadline(native, options.write_timeout.count()), "write_timeout");
  require(natsOptions_SetPingInterval(native, ping_interval_ms), "ping");
  require(natsOptions_SetMaxPingsOut(native, max_pings_out), "ping");
}

void require_time(const char* what, std::chrono::milliseconds time) {
  if (time < std::chrono::milliseconds{10} || time > std::chrono::minutes{10}) {
    throw std::out_of_range(std::string{what} + " must be 10 ms to 10 min");
  }
}

}  // namespace

OptionsPtr connection_options(const NatsOptions& options, const std::string& url,
                              Mailbox& mailbox) {
  natsOptions* created = nullptr;
  require(natsOptions_Create(&created), "the options of a connection");
  OptionsPtr native{created};
  const auto parsed = checked_url(url);
  const auto server = address_of(url);
  const auto plain = "nats" + server.substr(server.find("://"));
  require(natsOptions_SetURL(created, plain.c_str()), "urls");
  require(natsOptions_SetName(created, options.name.c_str()), "name");
  set_login(created, options, parsed);
  set_tls(created, options.tls, parsed);
  set_limits(created, options);
  require(natsOptions_SetErrorHandler(created, &Mailbox::on_error, mailbox.closure()), "errors");
  require(natsOptions_SetClosedCB(created, &Mailbox::on_closed, mailbox.closure()), "errors");
  return native;
}

void require_valid(const NatsOptions& options) {
  if (options.urls.empty()) throw std::invalid_argument("urls must not be empty");
  for (const auto& url : options.urls) checked_url(url);
  require_time("connect_timeout", options.connect_timeout);
  require_time("write_timeout", options.write_timeout);
  if (options.tls.certificate_file.empty() != options.tls.key_file.empty()) {
    throw std::invalid_argument("tls.certificate_file and tls.key_file belong together");
  }
}

std::string address_of(const std::string& url) {
  return checked_url(url).address(default_port);
}

std::string address_of(const NatsOptions& options) {
  std::string all;
  for (const auto& url : options.urls) all += (all.empty() ? "" : ",") + address_of(url);
  return all;
}

}  // namespace dovetail::transport::nats
