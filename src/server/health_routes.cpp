// Health over HTTP: 200 while healthy or degraded, 503 while unhealthy.
#include "json/to_json.hpp"
#include "server/routes.hpp"

namespace dovetail::server {
namespace {

Response health_response(const HealthReport& report) {
  using Handling = nlohmann::ordered_json::error_handler_t;
  return {.status = report.status == HealthStatus::unhealthy ? 503 : 200,
          .body = json::to_json(report).dump(-1, ' ', false, Handling::replace)};
}

HealthReport health_of(const GroupStatus& status) {
  HealthReport report;
  for (const auto& problem : status.problems()) {
    report.status = HealthStatus::degraded;
    report.findings.push_back({"group", HealthStatus::degraded, problem});
  }
  return report;
}

HealthReport health_of(const Databases& databases) {
  if (databases.is_group()) return health_of(databases.group()->status());
  return databases.find({})->health();
}

}  // namespace

void add_health_routes(RouteTable& routes, const Databases& databases) {
  routes.add({.method = "GET",
              .pattern = "/health/live",
              .handler = [](const Request&) { return health_response({}); },
              .capacity = Capacity::at_once});
  const auto all = [databases](const Request&) { return health_response(health_of(databases)); };
  routes.add({.method = "GET",
              .pattern = "/health/ready",
              .handler = all,
              .capacity = Capacity::reserved});
  routes.add({.method = "GET",
              .pattern = "/health",
              .role = ServerRole::viewer,
              .handler = all,
              .capacity = Capacity::reserved});
}

}  // namespace dovetail::server
