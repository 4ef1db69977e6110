// The routes of `/api/v1`, one file per resource.
//
// All of them answer JSON in the vocabulary of src/json. Ids, payloads and 64-bit numbers are
// strings. Lists have a `limit` and a `cursor`, and answer with `next`. In a group, `?database=KEY`
// chooses the database. A change is recorded in the audit before its answer.
#pragma once

#include <string>
#include <vector>

#include "server/databases.hpp"
#include "server/route_table.hpp"

namespace dovetail::server {

struct ApiOptions {
  /// Names of JSON fields and headers whose values are never shown. Compared without case.
  std::vector<std::string> redact{};
  /// The role that may see payloads.
  ServerRole payload_role = ServerRole::operator_;
};

void add_api_routes(RouteTable& routes, const Databases& databases, const ApiOptions& options);

namespace api {

/// What the handlers of all resources share.
struct Api {
  Databases databases;
  ApiOptions options;
};

void add_overview_routes(RouteTable& routes, const Api& api);
void add_queue_routes(RouteTable& routes, const Api& api);
void add_history_routes(RouteTable& routes, const Api& api);
void add_message_routes(RouteTable& routes, const Api& api);
void add_dead_letter_routes(RouteTable& routes, const Api& api);
void add_replay_routes(RouteTable& routes, const Api& api);
void add_join_routes(RouteTable& routes, const Api& api);
void add_timer_routes(RouteTable& routes, const Api& api);
void add_job_routes(RouteTable& routes, const Api& api);
void add_lease_routes(RouteTable& routes, const Api& api);
void add_stream_routes(RouteTable& routes, const Api& api);
void add_event_routes(RouteTable& routes, const Api& api);
void add_subscription_routes(RouteTable& routes, const Api& api);
void add_fanout_routes(RouteTable& routes, const Api& api);
void add_instance_routes(RouteTable& routes, const Api& api);
void add_audit_routes(RouteTable& routes, const Api& api);
void add_openapi_route(RouteTable& routes);

/// The text of openapi.json.
[[nodiscard]] const char* openapi_text();

}  // namespace api

}  // namespace dovetail::server
