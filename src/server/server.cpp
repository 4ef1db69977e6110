#include "dovetail/server.hpp"

#include <stdexcept>

#include "dovetail/error.hpp"
#include "server/api/api.hpp"
#include "server/assets.hpp"
#include "server/http/http_server.hpp"
#include "server/options.hpp"
#include "server/router.hpp"
#include "server/routes.hpp"

namespace dovetail {

class Server::State {
 public:
  State(server::Databases databases, ServerOptions options)
      : options_(std::move(options)),
        databases_(databases),
        log_(options_.log_sink ? options_.log_sink : spdlog_log_sink(LogLevel::warn)),
        auth_(server::checked(options_).auth, log_, Metrics{metrics_}),
        webhooks_(databases_, options_.webhooks, log_, Metrics{metrics_}),
        events_(databases_, options_.event_interval) {
    server::add_health_routes(routes_, databases_);
    server::add_session_routes(routes_, auth_,
                               {.path = options_.base_path.empty() ? "/" : options_.base_path,
                                .is_secure = options_.secure_cookies || options_.tls.is_on(),
                                .read_only = options_.read_only});
    server::add_event_routes(routes_, events_);
    server::add_webhook_routes(routes_, webhooks_);
    server::add_api_routes(routes_, databases_, {.redact = options_.redact});
    server::add_metrics_routes(routes_, databases_, metrics_);
    server::add_asset_routes(routes_, options_.base_path);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { stop(std::chrono::milliseconds{0}); }

  void start() {
    if (http_) throw InvalidOperation("the server was started before");
    router_ = std::make_unique<server::Router>(routes_, options_, auth_, log_);
    auto http = std::make_unique<server::http::HttpServer>(
        server::http::HttpOptions{options_.address, options_.port, options_.limits, options_.tls},
        *router_, log_);
    http->start();
    http_ = std::move(http);
    events_.start(*http_);
    warn_without_authentication();
    log_.write(LogLevel::info, "server.started", {{"url", url()}});
  }

  bool stop(std::chrono::milliseconds deadline) {
    if (!router_ || !http_) return true;
    events_.stop();
    const bool all_answered = http_->stop(deadline);
    router_.reset();  // waits for the handlers, which reply to connections of http_
    log_.write(LogLevel::info, "server.stopped", {{"all_answered", all_answered}});
    return all_answered;
  }

  void reload(const ServerOptions& options) {
    auto merged = options_;
    merged.auth = options.auth;
    merged.tls = options.tls;
    merged.webhooks = options.webhooks;
    server::checked(merged);
    require_no_restart(merged);
    if (http_ && merged.tls.is_on()) http_->replace_tls(merged.tls);
    auth_.replace(merged.auth);
    webhooks_.replace(merged.webhooks);
    if (router_) router_->allow_hosts(options.allowed_hosts);
    log_.write(LogLevel::info, "server.reloaded", {{"url", url()}});
  }

  /// What a mistake in a file must not change in a running server.
  void require_no_restart(const ServerOptions& options) const {
    if (options.tls.is_on() != options_.tls.is_on()) {
      throw std::invalid_argument(
          "turning TLS on or off (tls_certificate, tls_key) needs a restart of the server");
    }
    if (auth_.is_on() && !options.auth.is_on()) {
      throw std::invalid_argument(
          "there are no tokens and users any more: turning authentication off (auth.tokens, "
          "auth.users) needs a restart of the server");
    }
  }

  /// Everybody is an admin. Behind a reverse proxy, that is everybody who reaches the proxy.
  void warn_without_authentication() const {
    std::string given;
    const auto note = [&](bool is_given, const char* name) {
      if (is_given) given += (given.empty() ? "" : ", ") + std::string{name};
    };
    note(!options_.allowed_hosts.empty(), "allowed_hosts");
    note(!options_.base_path.empty(), "base_path");
    note(options_.secure_cookies, "secure_cookies");
    if (auth_.is_on() || given.empty()) return;
    log_.write(LogLevel::warn, "server.no_authentication", {{"settings", given}});
  }

  [[nodiscard]] std::uint16_t port() const { return http_ ? http_->port() : 0; }

  [[nodiscard]] std::string url() const {
    const bool is_v6 = options_.address.find(':') != std::string::npos;
    return (options_.tls.is_on() ? "https://" : "http://") +
           (is_v6 ? "[" + options_.address + "]" : options_.address) + ":" +
           std::to_string(http_ ? port() : options_.port) + options_.base_path;
  }

 private:
  const ServerOptions options_;
  const server::Databases databases_;
  Logger log_;
  const std::shared_ptr<MetricsRegistry> metrics_ = std::make_shared<MetricsRegistry>();
  server::Authenticator auth_;
  server::WebhookReceiver webhooks_;
  server::EventHub events_;
  server::RouteTable routes_;
  std::unique_ptr<server::http::HttpServer> http_;
  std::unique_ptr<server::Router> router_;
};

Server::Server(Platform& platform, ServerOptions options)
    : state_(std::make_unique<State>(server::Databases{platform}, std::move(options))) {}

Server::Server(PlatformGroup& group, ServerOptions options)
    : state_(std::make_unique<State>(server::Databases{group}, std::move(options))) {}

Server::~Server() = default;

void Server::start() {
  state_->start();
}

bool Server::stop(std::chrono::milliseconds deadline) {
  return state_->stop(deadline);
}

void Server::reload(const ServerOptions& options) {
  state_->reload(options);
}

std::uint16_t Server::port() const {
  return state_->port();
}

std::string Server::url() const {
  return state_->url();
}

}  // namespace dovetail
