// The description of the API.
#include "server/api/change.hpp"

namespace dovetail::server::api {

void add_openapi_route(RouteTable& routes) {
  routes.add({.method = "GET",
              .pattern = "/api/v1/openapi.json",
              .role = ServerRole::viewer,
              .handler = [](const Request&) { return Response{.body = openapi_text()}; },
              .capacity = Capacity::at_once});
}

}  // namespace dovetail::server::api
