#include "transport/rabbitmq/login.hpp"

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <openssl/ssl.h>

#include <array>

#include "transport/broker_url.hpp"
#include "transport/secret_file.hpp"

namespace dovetail::transport::rabbitmq {
namespace {

constexpr int plain_port = 5672;
constexpr int tls_port = 5671;
constexpr int most_channels = 8;

BrokerUrl checked_url(const std::string& text) {
  auto url = BrokerUrl::parse(text);
  if (url.scheme != "amqp" && url.scheme != "amqps") {
    throw std::invalid_argument("urls must begin with amqp:// or amqps://, got " + url.scheme +
                                "://");
  }
  return url;
}

int port_of(const BrokerUrl& url) {
  return url.port.value_or(url.scheme == "amqps" ? tls_port : plain_port);
}

std::string address_of(const BrokerUrl& url) {
  return url.address(port_of(url));
}

amqp_socket_t* tls_socket(amqp_connection_state_t state, const RabbitMqTls& tls) {
  auto* socket = amqp_ssl_socket_new(state);
  if (socket == nullptr) throw std::runtime_error("TLS is not available");
  amqp_ssl_socket_set_verify_peer(socket, 1);
  amqp_ssl_socket_set_verify_hostname(socket, 1);
  require(amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST), "TLS 1.2");
  if (!tls.ca_file.empty()) {
    require(amqp_ssl_socket_set_cacert(socket, tls.ca_file.c_str()), "tls.ca_file");
  } else {
    SSL_CTX_set_default_verify_paths(static_cast<SSL_CTX*>(amqp_ssl_socket_get_context(socket)));
  }
  if (!tls.certificate_file.empty()) {
    require(amqp_ssl_socket_set_key(socket, tls.certificate_file.c_str(), tls.key_file.c_str()),
            "tls.certificate_file");
  }
  return socket;
}

void open_socket(amqp_connection_state_t state, const RabbitMqOptions& options,
                 const BrokerUrl& url) {
  auto* socket =
      url.scheme == "amqps" ? tls_socket(state, options.tls) : amqp_tcp_socket_new(state);
  if (socket == nullptr) throw std::runtime_error("no memory for a socket");
  const auto timeout = timeval_of(options.connect_timeout);
  require(amqp_socket_open_noblock(socket, url.host.c_str(), port_of(url), &timeout),
          url.scheme == "amqps" ? "TLS" : "TCP");
}

/// What the broker tells only those who ask for it.
std::array<amqp_table_entry_t, 2> capability_entries() {
  std::array<amqp_table_entry_t, 2> entries{};
  entries[0].key = bytes_of("connection.blocked");
  entries[1].key = bytes_of("consumer_cancel_notify");
  for (auto& entry : entries) {
    entry.value.kind = AMQP_FIELD_KIND_BOOLEAN;
    entry.value.value.boolean = 1;
  }
  return entries;
}

void authenticate(amqp_connection_state_t state, const RabbitMqOptions& options,
                  const BrokerUrl& url) {
  const auto user = url.user.value_or(options.user);
  const auto password = url.password
                            ? *url.password
                            : secret_of(options.password, options.password_file, "password_file");
  auto capabilities = capability_entries();
  std::array<amqp_table_entry_t, 2> entries{};
  entries[0].key = bytes_of("connection_name");
  entries[0].value.kind = AMQP_FIELD_KIND_UTF8;
  entries[0].value.value.bytes = bytes_of(options.name);
  entries[1].key = bytes_of("capabilities");
  entries[1].value.kind = AMQP_FIELD_KIND_TABLE;
  entries[1].value.value.table = {.num_entries = static_cast<int>(capabilities.size()),
                                  .entries = capabilities.data()};
  const amqp_table_t properties{.num_entries = static_cast<int>(entries.size()),
                                .entries = entries.data()};
  const auto vhost = url.path.empty() ? std::string{"/"} : url.path;
  require_reply(
      amqp_login_with_properties(state, vhost.c_str(), most_channels, AMQP_DEFAULT_FRAME_SIZE,
                                 static_cast<int>(options.heartbeat.count()), &properties,
                                 AMQP_SASL_METHOD_PLAIN, user.c_str(), password.c_str()),
      "login");
}

void require_time(const char* what, std::chrono::milliseconds time,
                  std::chrono::milliseconds least) {
  if (time < least || time > std::chrono::minutes{10}) {
    throw std::out_of_range(std::string{what} + " must be " + std::to_string(least.count()) +
                            " ms to 10 min");
  }
}

}  // namespace

StatePtr log_in(const RabbitMqOptions& options, const std::string& url) {
  const auto parsed = checked_url(url);
  StatePtr state{amqp_new_connection()};
  if (!state) throw std::runtime_error("no memory for a connection");
  const auto timeout = timeval_of(options.connect_timeout);
  try {
    require(amqp_set_handshake_timeout(state.get(), &timeout), "connect_timeout");
    require(amqp_set_rpc_timeout(state.get(), &timeout), "connect_timeout");
    open_socket(state.get(), options, parsed);
    authenticate(state.get(), options, parsed);
    amqp_channel_open(state.get(), channel);
    require_reply(amqp_get_rpc_reply(state.get()), "channel");
  } catch (const std::runtime_error& failure) {
    throw std::runtime_error("no connection to " + address_of(parsed) + ": " + failure.what());
  }
  return state;
}

void require_valid(const RabbitMqOptions& options) {
  if (options.urls.empty()) throw std::invalid_argument("urls must not be empty");
  for (const auto& url : options.urls) checked_url(url);
  require_time("connect_timeout", options.connect_timeout, std::chrono::milliseconds{10});
  require_time("heartbeat", options.heartbeat, std::chrono::seconds{1});
  if (options.tls.certificate_file.empty() != options.tls.key_file.empty()) {
    throw std::invalid_argument("tls.certificate_file and tls.key_file belong together");
  }
}

std::string address_of(const RabbitMqOptions& options) {
  std::string all;
  for (const auto& url : options.urls) {
    all += (all.empty() ? "" : ",") + address_of(checked_url(url));
  }
  return all;
}

std::chrono::milliseconds patience(const RabbitMqOptions& options) {
  return options.connect_timeout * (4 * static_cast<int>(options.urls.size()));
}

}  // namespace dovetail::transport::rabbitmq
