// Login, logout, and who I am.
#include <nlohmann/json.hpp>

#include "server/problem.hpp"
#include "server/routes.hpp"

namespace dovetail::server {
namespace {

constexpr const char* session_path = "/api/v1/session";

std::string shown_identity(const Identity& identity, bool login_is_possible, bool read_only) {
  const nlohmann::ordered_json body{{"name", identity.name},
                                    {"role", std::string{to_string(identity.role)}},
                                    {"can_log_out", identity.proof == Proof::session},
                                    {"authentication", login_is_possible},
                                    {"read_only", read_only}};
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string text_field(const nlohmann::json& body, const char* name) {
  if (!body.is_object() || !body.contains(name) || !body[name].is_string())
    throw Problem(400, R"(the body must be {"user": "…", "password": "…"})");
  return body[name].get<std::string>();
}

Authenticator::Login login_in(const Request& request) {
  const auto body = nlohmann::json::parse(request.body, nullptr, false);
  return {text_field(body, "user"), text_field(body, "password"), request.peer};
}

std::string cookie(const std::string& value, std::chrono::seconds age, const SessionScope& scope) {
  return std::string{session_cookie} + "=" + value + "; Path=" + scope.path +
         "; HttpOnly; SameSite=Strict; Max-Age=" + std::to_string(age.count()) +
         (scope.is_secure ? "; Secure" : "");
}

}  // namespace

void add_session_routes(RouteTable& routes, Authenticator& auth, const SessionScope& scope) {
  routes.add({.method = "GET",
              .pattern = session_path,
              .role = ServerRole::viewer,
              .handler =
                  [&auth, read_only = scope.read_only](const Request& request) {
                    return Response{.body =
                                        shown_identity(request.identity, auth.is_on(), read_only)};
                  },
              .capacity = Capacity::at_once});
  routes.add({.method = "POST",
              .pattern = session_path,
              .handler =
                  [&auth, scope](const Request& request) {
                    const auto secret = auth.log_in(login_in(request));
                    return Response{.status = 204,
                                    .headers = {{"Set-Cookie",
                                                 cookie(secret, auth.session_lifetime(), scope)}}};
                  },
              .capacity = Capacity::login,
              .changes_data = false});
  routes.add({.method = "DELETE",
              .pattern = session_path,
              .role = ServerRole::viewer,
              .handler =
                  [&auth, scope](const Request& request) {
                    auth.log_out(request.headers);
                    return Response{
                        .status = 204,
                        .headers = {{"Set-Cookie", cookie("", std::chrono::seconds{0}, scope)}}};
                  },
              .capacity = Capacity::at_once,
              .changes_data = false});
}

}  // namespace dovetail::server
