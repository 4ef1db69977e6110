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

/// For callers who have not proven who they are: the names of the checks, and no details, which may
/// name hosts and topics.
HealthReport without_details(HealthReport report) {
  for (auto& check : report.checks) {
    check.description.clear();
    check.data.clear();
  }
  return report;
}

Response ready_response(const Databases& databases, const Request& request) {
  auto report = databases.health().ready();
  const bool is_anonymous = request.identity.proof == Proof::none;
  return health_response(is_anonymous ? without_details(std::move(report)) : report);
}

}  // namespace

void add_health_routes(RouteTable& routes, const Databases& databases) {
  routes.add({.method = "GET",
              .pattern = "/health/live",
              .handler = [databases](
                             const Request&) { return health_response(databases.health().live()); },
              .capacity = Capacity::at_once});
  routes.add({.method = "GET",
              .pattern = "/health/ready",
              .handler = [databases](
                             const Request& request) { return ready_response(databases, request); },
              .capacity = Capacity::health});
  routes.add(
      {.method = "GET",
       .pattern = "/health",
       .role = ServerRole::viewer,
       .handler = [databases](const Request&) { return health_response(databases.health().all()); },
       .capacity = Capacity::health});
}

}  // namespace dovetail::server
