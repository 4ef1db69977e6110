#include "server/router.hpp"

#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "server/path.hpp"
#include "server/problem.hpp"

namespace dovetail::server {
namespace {

constexpr std::size_t reserved_threads = 2;
constexpr std::size_t max_waiting_reserved = 64;

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

Response of_error(const Error& error) {
  const bool is_unreachable = error.is_transient() || error.kind() == ErrorKind::cancelled;
  return problem(is_unreachable ? 503 : 500, error.what());
}

}  // namespace

Router::Router(const RouteTable& routes, const ServerOptions& options, Logger log)
    : routes_(routes),
      log_(std::move(log)),
      shared_(static_cast<std::size_t>(options.threads), options.limits.max_waiting_requests),
      reserved_(reserved_threads, max_waiting_reserved) {}

std::variant<Request, Response> Router::admit(RequestHead head) {
  auto target = parse_target(head.target);
  if (!target) return refuse(400, "the path or the query is not a valid URL");
  auto match = routes_.find(head.method, target->segments);
  if (match.route == nullptr)
    return with_security_headers(without_route(head.method, match.allowed));
  return Request{.route = match.route,
                 .method = std::move(head.method),
                 .parameters = std::move(match.parameters),
                 .query = std::move(target->query),
                 .headers = std::move(head.headers),
                 .identity = {.role = ServerRole::admin},
                 .peer = std::move(head.peer)};
}

void Router::handle(Request request, std::function<void(Response)> reply) {
  const auto capacity = request.route->capacity;
  if (capacity == Capacity::at_once) return reply(answer(request));
  auto& threads = capacity == Capacity::reserved ? reserved_ : shared_;
  const auto shared = std::make_shared<Request>(std::move(request));
  const bool accepted = threads.try_run([this, shared, reply] { reply(answer(*shared)); });
  if (accepted) return;
  auto response = refuse(503, "too many requests wait: try again");
  response.headers.emplace_back("Retry-After", "1");
  reply(std::move(response));
}

Response Router::refuse(int status, const std::string& detail) {
  return with_security_headers(problem(status, detail));
}

Response Router::answer(const Request& request) const {
  try {
    return with_security_headers(request.route->handler(request));
  } catch (const Problem& error) {
    return with_security_headers(problem(error.status(), error.what()));
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
