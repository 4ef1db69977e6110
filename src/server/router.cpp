#include "server/router.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "server/assets.hpp"
#include "server/client_network.hpp"
#include "server/path.hpp"
#include "server/problem.hpp"
#include "server/request_rules.hpp"

namespace dovetail::server {
namespace {

constexpr std::size_t health_threads = 2;
constexpr std::size_t max_waiting_reserved = 64;
constexpr std::size_t refusals_logged_per_minute = 60;
constexpr std::size_t most_of_path_logged = 200;

Response with_security_headers(Response response) {
  static const Headers headers{
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
       "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"}};
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  const bool has_caching = std::ranges::any_of(
      response.headers, [](const auto& each) { return each.first == "Cache-Control"; });
  if (!has_caching) response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

std::string joined_methods(const std::vector<std::string>& methods) {
  std::string text;
  for (const auto& method : methods) text += method + ", ";
  return text + "OPTIONS";
}

/// The answer when no route has this method.
Response without_route(const std::string& method, const std::vector<std::string>& allowed) {
  if (allowed.empty()) return problem(404, "no such path");
  Response response = method == "OPTIONS"
                          ? Response{.status = 204}
                          : problem(405, "this path does not have the method " +
                                             core::printable(core::trimmed(method, 32)));
  response.headers.emplace_back("Allow", joined_methods(allowed));
  return response;
}

Response too_many_logins() {
  return with_security_headers(
      problem(Problem(429, "too many logins wait: try again", std::chrono::seconds{1})));
}

Response of_error(const Error& error) {
  const bool is_unreachable = error.is_transient() || error.kind() == ErrorKind::cancelled;
  return problem(is_unreachable ? 503 : 500, error.what());
}

}  // namespace

Router::Router(const RouteTable& routes, const ServerOptions& options, Authenticator& auth,
               Logger log)
    : routes_(routes),
      options_(options),
      auth_(auth),
      base_(segments_of(options.base_path)),
      log_(std::move(log)),
      allowed_hosts_(options.allowed_hosts),
      shared_({.threads = static_cast<std::size_t>(options.threads),
               .max_waiting = options.limits.max_waiting_requests,
               .limit = options.limits.reply_timeout}),
      health_({.threads = health_threads,
               .max_waiting = max_waiting_reserved,
               .limit = options.limits.reply_timeout}),
      metrics_({.threads = 1,
                .max_waiting = max_waiting_reserved,
                .limit = options.limits.reply_timeout}),
      refusals_(refusals_logged_per_minute) {}

std::variant<Request, Response> Router::admit(RequestHead head) {
  auto target = parse_target(head.target);
  if (!target) return refuse(400, "the path or the query is not a valid URL");
  auto& segments = target->segments;
  if (!base_.empty() && segments.size() >= base_.size() &&
      std::equal(base_.begin(), base_.end(), segments.begin())) {
    segments.erase(segments.begin(), segments.begin() + static_cast<std::ptrdiff_t>(base_.size()));
  }
  auto match = routes_.find(head.method, segments);
  const bool asks_for_page = (head.method == "GET" || head.method == "HEAD") &&
                             match.allowed.empty() && accepts_html(head.headers);
  if (asks_for_page) match.route = routes_.page_at(segments);
  if (match.route == nullptr)
    return with_security_headers(without_route(head.method, match.allowed));
  Request request{.route = match.route,
                  .method = std::move(head.method),
                  .parameters = std::move(match.parameters),
                  .query = std::move(target->query),
                  .authority = std::move(target->authority),
                  .headers = std::move(head.headers),
                  .peer = std::move(head.peer)};
  if (auto identity = auth_.identify(request.headers)) request.identity = *std::move(identity);
  try {
    require_access(request);
  } catch (const Problem& refusal) {
    log_refusal(refusal, request, head.target);
    auto response = refuse(refusal.status(), refusal.what());
    if (refusal.status() == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
  }
  return request;
}

void Router::allow_hosts(std::vector<std::string> hosts) {
  const std::lock_guard lock(mutex_);
  allowed_hosts_ = std::move(hosts);
}

void Router::require_host(std::string_view host) const {
  const std::lock_guard lock(mutex_);
  if (is_allowed_host(host, allowed_hosts_)) return;
  throw Problem(403, "the Host header " + core::printable(core::trimmed(host, 255)) +
                         " is not one of the server's allowed_hosts");
}

void Router::log_refusal(const Problem& refusal, const Request& request,
                         std::string_view target) const {
  if (refusal.status() != 401 && refusal.status() != 403) return;
  if (!log_.enabled(LogLevel::info)) return;
  const auto suppressed = refusals_.admit();
  if (!suppressed) return;
  log_.write(LogLevel::info, "server.request_refused",
             {{"status", refusal.status()},
              {"method", request.method},
              {"path", loggable(target.substr(0, target.find('?')), most_of_path_logged)},
              {"peer", request.peer},
              {"suppressed", *suppressed}});
}

void Router::require_access(const Request& request) const {
  const auto& route = *request.route;
  const bool only_reads = request.method == "GET" || request.method == "HEAD";
  if (only_reads && !route.role) return;
  if (route.is_signed) return require_changes_are_allowed(route);
  require_host(find_header(request.headers, "host").value_or(""));
  if (request.authority) require_host(*request.authority);
  if (route.role && request.identity.proof == Proof::none)
    throw Problem(401, "this needs a valid token or a login");
  if (route.role && request.identity.role < *route.role) {
    throw Problem(403, "this needs the role " + std::string{to_string(*route.role)} + "; " +
                           request.identity.name + " has the role " +
                           std::string{to_string(request.identity.role)});
  }
  if (!only_reads) require_rules_of_changes(request);
}

void Router::require_changes_are_allowed(const Route& route) const {
  if (options_.read_only && route.changes_data) throw Problem(403, "the server is read-only");
}

void Router::require_rules_of_changes(const Request& request) const {
  require_changes_are_allowed(*request.route);
  if (!is_same_site(request.headers, request.identity.proof))
    throw Problem(403, "this request comes from a page of another site");
  const bool has_body = request.method != "DELETE" ||
                        find_header(request.headers, "content-length").value_or("0") != "0" ||
                        find_header(request.headers, "transfer-encoding");
  if (has_body && !is_json(request.headers))
    throw Problem(415, "the Content-Type must be application/json");
}

void Router::handle(Request request, std::function<void(Response)> reply) {
  const auto capacity = request.route->capacity;
  if (capacity == Capacity::at_once) return reply(answer(request));
  if (capacity == Capacity::login) return handle_login(std::move(request), reply);
  auto& threads = threads_of(capacity);
  const auto shared = std::make_shared<Request>(std::move(request));
  const bool accepted = threads.try_run([this, shared, reply] { reply(answer(*shared)); });
  if (accepted) return;
  auto response = refuse(503, "too many requests wait: try again");
  response.headers.emplace_back("Retry-After", "1");
  reply(std::move(response));
}

RequestThreads& Router::threads_of(Capacity capacity) {
  if (capacity == Capacity::health) return health_;
  return capacity == Capacity::metrics ? metrics_ : shared_;
}

void Router::handle_login(Request request, const std::function<void(Response)>& reply) {
  const auto shared = std::make_shared<Request>(std::move(request));
  const auto refuse_login = [this, reply] {
    auth_.note_busy();
    reply(too_many_logins());
  };
  const bool accepted = logins_.try_run(client_network(shared->peer),
                                        [this, shared, reply, refuse_login](bool in_time) {
                                          if (!in_time) return refuse_login();
                                          reply(answer(*shared));
                                        });
  if (!accepted) refuse_login();
}

Response Router::refuse(int status, const std::string& detail) {
  return with_security_headers(problem(status, detail));
}

Response Router::handled(const Request& request) {
  const auto& route = *request.route;
  const bool is_read = route.method == "GET";
  if (is_read && route.capacity == Capacity::shared)
    return answers_.answer(request, [&] { return route.handler(request); });
  auto response = route.handler(request);
  if (!is_read) answers_.clear();
  return response;
}

Response Router::answer(const Request& request) {
  try {
    return with_security_headers(handled(request));
  } catch (const Problem& error) {
    return with_security_headers(problem(error));
  } catch (const std::invalid_argument& error) {
    return with_security_headers(problem(400, error.what()));
  } catch (const std::out_of_range& error) {
    return with_security_headers(problem(400, error.what()));
  } catch (const InvalidOperation& error) {
    return with_security_headers(problem(409, error.what()));
  } catch (const Error& error) {
    log_.write(LogLevel::warn, "server.request_failed",
               {{"route", request.route->pattern}, {"error", error.what()}});
    return with_security_headers(of_error(error));
  } catch (const std::exception& error) {
    log_.write(LogLevel::error, "server.request_failed",
               {{"route", request.route->pattern}, {"error", error.what()}});
    return with_security_headers(problem(500, "the server failed; its log has the reason"));
  }
}

}  // namespace dovetail::server
