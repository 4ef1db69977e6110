#include "server/metrics_page.hpp"
#include "server/routes.hpp"

namespace dovetail::server {

void add_metrics_routes(RouteTable& routes, const Databases& databases) {
  routes.add({.method = "GET",
              .pattern = "/metrics",
              .role = ServerRole::viewer,
              .handler =
                  [databases](const Request&) {
                    // Sets the gauges. Two scrapers share a sample.
                    static_cast<void>(databases.sample(std::chrono::seconds{3}));
                    return Response{.content_type = std::string{metrics_content_type},
                                    .body = metrics_page(databases.metrics())};
                  },
              .capacity = Capacity::metrics});
}

}  // namespace dovetail::server
