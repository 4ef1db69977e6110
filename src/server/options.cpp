#include "server/options.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/require.hpp"
#include "dovetail/server_check.hpp"
#include "server/crypto.hpp"
#include "server/http/http_server.hpp"
#include "server/http/tls.hpp"
#include "server/webhooks.hpp"

namespace dovetail {

std::string_view to_string(ServerRole role) {
  switch (role) {
    case ServerRole::viewer:
      return "viewer";
    case ServerRole::operator_:
      return "operator";
    case ServerRole::admin:
      return "admin";
  }
  return "unknown";
}

namespace server {
namespace {

template <class Number>
void require_between(const char* what, Number value, Number least, Number most) {
  if (value >= least && value <= most) return;
  throw std::out_of_range(std::string{what} + " must be " + std::to_string(least) + " to " +
                          std::to_string(most) + ", got " + std::to_string(value));
}

void require_time_limit(const char* what, std::chrono::milliseconds value) {
  constexpr std::chrono::milliseconds least{10};
  constexpr std::chrono::milliseconds most = std::chrono::hours{1};
  if (value >= least && value <= most) return;
  throw std::out_of_range(std::string{what} + " must be 10 ms to 1 h, got " +
                          std::to_string(value.count()) + " ms");
}

void require_address(const std::string& address, const ServerAuth& auth) {
  if (!http::is_ip_address(address)) {
    throw std::invalid_argument("server.address must be an IP address such as 127.0.0.1, got \"" +
                                address + "\"");
  }
  if (!http::is_loopback(address) && !auth.is_on()) {
    throw std::invalid_argument("server.address " + address +
                                " is not of the loopback interface, and the server has no "
                                "authentication: add tokens or users, or use 127.0.0.1 or ::1");
  }
}

using Names = std::set<std::string>;

constexpr std::size_t max_name_characters = 100;

void require_name(const char* what, const std::string& name, Names& seen) {
  if (name.empty()) throw std::invalid_argument(std::string{what} + " must have a name");
  core::require_length(what, name, max_name_characters);
  if (!seen.insert(name).second)
    throw std::invalid_argument(std::string{what} + " \"" + name + "\" exists twice");
}

void require_token(const ServerToken& token, Names& names) {
  require_name("server token", token.name, names);
  const bool is_hash = token.sha256.size() == 64 &&
                       token.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hash) {
    throw std::invalid_argument("server token \"" + token.name +
                                "\": sha256 must be the SHA-256 of the token, as 64 hexadecimal "
                                "digits in lower case (printf %s TOKEN | sha256sum)");
  }
}

void require_user(const ServerUser& user, Names& names) {
  require_name("server user", user.name, names);
  if (!is_password_hash(user.password_hash)) {
    throw std::invalid_argument("server user \"" + user.name +
                                "\": password_hash must be a hash of crypt(5), such as $6$… or "
                                "$y$… (openssl passwd -6)");
  }
}

void require_session_lifetime(const ServerAuth& auth) {
  if (auth.session_lifetime < std::chrono::seconds{1} ||
      auth.session_lifetime > std::chrono::hours{24 * 30}) {
    throw std::out_of_range("session_lifetime must be 1 s to 30 days");
  }
}

void require_base_path(const std::string& path) {
  const auto bad =
      path.find_first_not_of("/-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  const bool is_path = path.starts_with("/") && !path.ends_with("/") && bad == std::string::npos &&
                       path.find("//") == std::string::npos;
  if (!path.empty() && !is_path) {
    throw std::invalid_argument(
        "base_path must be a path such as /dovetail, without a slash at "
        "its end, got \"" +
        path + "\"");
  }
}

void require_tls(const ServerTls& tls) {
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    throw std::invalid_argument("TLS needs both tls_certificate and tls_key, and " +
                                std::string{tls.key_file.empty() ? "tls_key" : "tls_certificate"} +
                                " is not given");
  }
}

void require_limits(const ServerLimits& limits) {
  constexpr std::size_t kib = 1 << 10;
  constexpr std::size_t most = 100'000;
  require_between<std::size_t>("max_header_bytes", limits.max_header_bytes, kib, kib * kib);
  require_between<std::size_t>("max_body_bytes", limits.max_body_bytes, kib, 64 * kib * kib);
  require_between<std::size_t>("max_bodies", limits.max_bodies, 1, 10'000);
  require_between<std::size_t>("max_connections", limits.max_connections, 10, most);
  require_between<std::size_t>("max_connections_per_address", limits.max_connections_per_address, 1,
                               most);
  require_between<std::size_t>("max_waiting_requests", limits.max_waiting_requests, 1, most);
  require_between<std::size_t>("max_event_streams", limits.max_event_streams, 1, most);
  require_time_limit("header_timeout", limits.header_timeout);
  require_time_limit("body_timeout", limits.body_timeout);
  require_time_limit("reply_timeout", limits.reply_timeout);
  require_time_limit("write_timeout", limits.write_timeout);
  require_time_limit("idle_timeout", limits.idle_timeout);
}

void require_event_interval(const ServerOptions& options) {
  if (options.event_interval < std::chrono::milliseconds{100} ||
      options.event_interval > std::chrono::minutes{1}) {
    throw std::out_of_range("event_interval must be 100 ms to 1 min");
  }
}

/// Calls `check(setting, require)` for each rule that needs no files.
template <class Check>
void check_each(const ServerOptions& options, const Check& check) {
  Names names;
  for (const auto& token : options.auth.tokens)
    check("auth.tokens." + token.name + ".sha256", [&] { require_token(token, names); });
  for (const auto& user : options.auth.users)
    check("auth.users." + user.name + ".password_hash", [&] { require_user(user, names); });
  Names webhooks;
  for (const auto& webhook : options.webhooks) {
    check("webhooks." + webhook.name + ".secret", [&] {
      require_webhook(webhook);
      require_name("webhook", webhook.name, webhooks);
    });
  }
  check("auth.session_lifetime", [&] { require_session_lifetime(options.auth); });
  check("server.address", [&] { require_address(options.address, options.auth); });
  check("server.base_path", [&] { require_base_path(options.base_path); });
  check(options.tls.key_file.empty() ? "server.tls_certificate" : "server.tls_key",
        [&] { require_tls(options.tls); });
  check("server.threads", [&] { require_between("server threads", options.threads, 1, 64); });
  check("server", [&] { require_limits(options.limits); });
  check("server.event_interval", [&] { require_event_interval(options); });
}

}  // namespace

const ServerOptions& checked(const ServerOptions& options) {
  check_each(options, [](const std::string&, const auto& require) { require(); });
  return options;
}

}  // namespace server

ServerFindings check_server(const ServerOptions& options) {
  ServerFindings found;
  const auto check = [&](const std::string& setting, const auto& require) {
    try {
      require();
      return true;
    } catch (const std::logic_error& error) {  // std::invalid_argument, std::out_of_range
      found.problems.push_back({setting, error.what()});
      return false;
    }
  };
  server::check_each(options, check);
  const auto& tls = options.tls;
  if (tls.certificate_file.empty() || tls.key_file.empty()) return found;
  if (!check("server.tls_certificate", [&] { server::http::require_certificate(tls); }))
    return found;
  check("server.tls_key", [&] {
    const auto warning = server::http::expiry_warning(tls, server::http::tls_context(tls));
    if (!warning.empty()) found.warnings.push_back(warning);
  });
  return found;
}

}  // namespace dovetail
