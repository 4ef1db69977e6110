#include <algorithm>
#include <iterator>

#include "server/metrics_page.hpp"
#include "server/routes.hpp"

namespace dovetail::server {

void add_metrics_routes(RouteTable& routes, const Databases& databases,
                        const std::shared_ptr<MetricsRegistry>& own) {
  routes.add({.method = "GET",
              .pattern = "/metrics",
              .role = ServerRole::viewer,
              .handler =
                  [databases, own](const Request&) {
                    // Sets the gauges. Two scrapers share a sample.
                    static_cast<void>(databases.sample(std::chrono::seconds{3}));
                    auto snapshot = databases.metrics();
                    std::ranges::move(own->snapshot().counters,
                                      std::back_inserter(snapshot.counters));
                    return Response{.content_type = std::string{metrics_content_type},
                                    .body = metrics_page(snapshot)};
                  },
              .capacity = Capacity::metrics});
}

}  // namespace dovetail::server
