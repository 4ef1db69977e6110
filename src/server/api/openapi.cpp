// The description of the API.
#include "server/api/change.hpp"

namespace dovetail::server::api {

void add_openapi_route(RouteTable& routes) {
  add_read(routes, "/api/v1/openapi.json", [](const Request& request) {
    require_query(request, {});
    return Response{.body = openapi_text()};
  });
}

}  // namespace dovetail::server::api
