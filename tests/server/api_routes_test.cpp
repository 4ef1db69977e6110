// openapi.json describes the routes, and real answers match its schemas.
#include <regex>
#include <set>

#include "server/api/api.hpp"
#include "server/api_test.hpp"
#include "server/auth.hpp"
#include "server/crypto.hpp"
#include "server/json_schema.hpp"
#include "server/routes.hpp"

namespace dovetail::testing {
namespace {

using ::testing::IsEmpty;

std::string lower_case(std::string text) {
  for (auto& each : text) each = static_cast<char>(std::tolower(each));
  return text;
}

std::string role_of(const server::Route& route) {
  return route.role ? std::string{to_string(*route.role)} : "none";
}

class ApiDescription : public ApiTest {
 protected:
  ApiDescription() { server::add_api_routes(routes, server::Databases{platform}, {}); }

  /// Something of each kind, so that no list is empty. Returns the ids by the names of parameters.
  std::map<std::string, std::string> fill() {
    auto& outbox = platform.outbox();
    std::map<std::string, std::string> names{{"queue", "outbox"}, {"topic", "mail"}};
    names["message_id"] = failed_one().to_string();
    failed_one("mail", "q");
    outbox.enqueue({.topic = "t", .stream = "s"});
    outbox.enqueue({.topic = "t", .headers = {{"a", "b"}}});
    outbox.pause("quiet");
    names["stream"] = "s";
    const auto join = platform.joins().fan_out({.steps = {{.topic = "step"}}});
    names["join_id"] = join.join.to_string();
    names["timer_id"] =
        platform.timers().schedule({.topic = "t", .delay = std::chrono::hours{1}}).to_string();
    platform.jobs().create_or_update({.name = "nightly", .topic = "t", .cron = "@daily"});
    platform.jobs().trigger("nightly");
    names["job"] = "nightly";
    EXPECT_TRUE(platform.leases().try_acquire("l", "me", std::chrono::minutes{1}).has_value());
    platform.events().append("s", ExpectedVersion::any(), {{.type = "T", .data = "{}"}});
    platform.events().stamp();
    platform.events().subscribe("billing", {}, [](auto, auto&) {});
    platform.fanout().add(
        {.topic = "mail", .work_key = "w", .cron = "@daily"},
        [](const FanoutPlan&) -> FanoutCandidates { return std::vector<FanoutCandidate>{}; });
    platform.start();
    EXPECT_TRUE(eventually([&] { return !platform.events().subscriptions().list().empty(); }));
    EXPECT_TRUE(eventually([&] { return !platform.instances().list().empty(); }));
    names["subscription"] = "billing";
    names["replay_id"] = platform.replays().start({.limit = 1, .actor = "me"}).id.to_string();
    platform.audit().record({.actor = "me", .action = "a", .count = 1});
    return names;
  }

  server::RouteTable routes;
  JsonSchema schema{nlohmann::json::parse(server::api::openapi_text())};
};
DOVETAIL_CONTRACT(ApiDescription);

TEST_P(ApiDescription, HasEveryRouteWithItsRole) {
  std::set<std::string> described;
  for (const auto& [path, methods] : schema.document()["paths"].items()) {
    for (const auto& [method, operation] : methods.items())
      described.insert(method + " " + path + " " + operation["x-role"].get<std::string>());
  }
  std::set<std::string> served;
  for (const auto* route : routes.all())
    served.insert(lower_case(route->method) + " " + route->pattern + " " + role_of(*route));
  // The other routes of the server below /api/v1.
  server::Authenticator auth{{}};
  server::EventHub events{server::Databases{platform}, std::chrono::seconds{1}};
  server::RouteTable others;
  server::add_session_routes(others, auth, {});
  server::add_event_routes(others, events);
  server::WebhookReceiver webhooks{server::Databases{platform}, {}, Logger{}, Metrics{}};
  server::add_webhook_routes(others, webhooks);
  for (const auto* route : others.all())
    served.insert(lower_case(route->method) + " " + route->pattern + " " + role_of(*route));
  EXPECT_EQ(described, served);
}

TEST_P(ApiDescription, EachRouteRefusesSmallerRoles) {
  const std::map<ServerRole, std::string> tokens{{ServerRole::viewer, "view-it"},
                                                 {ServerRole::operator_, "operate-it"},
                                                 {ServerRole::admin, "administer-it"}};
  auto options = test_server_options();
  for (const auto& [role, token] : tokens)
    options.auth.tokens.push_back({std::string{to_string(role)}, server::sha256_hex(token), role});
  serve(std::move(options));
  std::size_t refused = 0;
  for (const auto* route : routes.all()) {
    const auto path = std::regex_replace(route->pattern, std::regex("\\{[a-z_]+\\}"), "x");
    EXPECT_EQ(ask(route->method, path, {"Content-Type: application/json"}, "{}").status, 401)
        << path;
    for (const auto& [role, token] : tokens) {
      const auto answer =
          ask(route->method, path,
              {"Content-Type: application/json", "Authorization: Bearer " + token}, "{}");
      const bool is_refused = answer.status == 403;
      EXPECT_EQ(is_refused, role < *route->role) << route->method << path << answer.body;
      if (is_refused) ++refused;
    }
  }
  EXPECT_GT(refused, 25U);
  for (const auto& entry : platform.audit().list())
    EXPECT_THAT(entry.record.actor, ::testing::AnyOf("operator", "admin")) << entry.record.action;
}

TEST_P(ApiDescription, IsServed) {
  EXPECT_EQ(read("/openapi.json"), schema.document());
}

TEST_P(ApiDescription, FitsTheAnswersOfAllReadingRoutes) {
  const auto names = fill();
  std::size_t asked = 0;
  for (const auto* route : routes.all()) {
    if (route->method != "GET") continue;
    auto path = route->pattern;
    for (const auto& [name, value] : names)
      path = std::regex_replace(path, std::regex("\\{" + name + "\\}"), value);
    const auto& operation = schema.document()["paths"][route->pattern]["get"];
    std::vector<std::string> targets{path};
    for (const auto& each : operation["parameters"]) {
      const auto& parameter = schema.resolved(each);
      if (parameter["name"] == "payload") targets.push_back(path + "?payload=true");
      if (parameter["name"] == "limit") targets.push_back(path + "?limit=1");
    }
    for (const auto& target : targets) {
      const auto answer = get(target);
      ASSERT_EQ(answer.status, 200) << target << " " << answer.body;
      const auto& content = operation["responses"]["200"]["content"]["application/json"]["schema"];
      EXPECT_THAT(schema.violations(content, json_of(answer)), IsEmpty())
          << target << " " << answer.body;
      ++asked;
    }
  }
  EXPECT_GT(asked, 30U);
}

TEST_P(ApiDescription, FitsErrors) {
  const auto& problem = schema.document()["components"]["schemas"]["Problem"];
  for (const auto* path :
       {"/api/v1/nowhere", "/api/v1/messages?limit=0", "/api/v1/messages?limit=x",
        "/api/v1/messages?state=odd", "/api/v1/messages?cursor=zz", "/api/v1/joins?cursor=5b5d",
        "/api/v1/joins?cursor=zz", "/api/v1/messages?colour=red", "/api/v1/messages/x",
        "/api/v1/messages?topic=a&topic=b", "/api/v1/queues/odd", "/api/v1/overview?database=odd",
        "/api/v1/messages?created_after=yesterday",
        "/api/v1/messages?finished_after=2026-01-01T00:00:00Z",
        "/api/v1/messages/00000000-0000-0000-0000-000000000001", "/api/v1/event-feed?after=-1"}) {
    const auto answer = get(path);
    EXPECT_THAT(answer.status, ::testing::AnyOf(400, 404)) << path << " " << answer.body;
    EXPECT_EQ(answer.header("content-type"), "application/problem+json");
    EXPECT_THAT(schema.violations(problem, json_of(answer)), IsEmpty()) << path;
  }
}

}  // namespace
}  // namespace dovetail::testing
