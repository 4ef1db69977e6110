// The routes of each part of the server.
#pragma once

#include "server/databases.hpp"
#include "server/route_table.hpp"

namespace dovetail::server {

/// `/health/live`, `/health/ready`, `/health`.
void add_health_routes(RouteTable& routes, const Databases& databases);

}  // namespace dovetail::server
