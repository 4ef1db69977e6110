#include "server/api/api.hpp"

namespace dovetail::server {

void add_api_routes(RouteTable& routes, const Databases& databases, const ApiOptions& options) {
  const api::Api shared{databases, options};
  api::add_overview_routes(routes, shared);
  api::add_queue_routes(routes, shared);
  api::add_history_routes(routes, shared);
  api::add_message_routes(routes, shared);
  api::add_dead_letter_routes(routes, shared);
  api::add_replay_routes(routes, shared);
  api::add_join_routes(routes, shared);
  api::add_timer_routes(routes, shared);
  api::add_job_routes(routes, shared);
  api::add_lease_routes(routes, shared);
  api::add_stream_routes(routes, shared);
  api::add_event_routes(routes, shared);
  api::add_subscription_routes(routes, shared);
  api::add_fanout_routes(routes, shared);
  api::add_instance_routes(routes, shared);
  api::add_audit_routes(routes, shared);
  api::add_openapi_route(routes);
}

}  // namespace dovetail::server
