// The routes of each part of the server.
#pragma once

#include <memory>
#include <string>

#include "dovetail/metrics_registry.hpp"
#include "server/auth.hpp"
#include "server/databases.hpp"
#include "server/events.hpp"
#include "server/route_table.hpp"
#include "server/webhooks.hpp"

namespace dovetail::server {

/// `/health/live`, `/health/ready`, `/health`.
void add_health_routes(RouteTable& routes, const Databases& databases);

struct SessionScope {
  std::string path = "/";  ///< Where a browser sends the session's cookie.
  bool is_secure = false;
  bool read_only = false;  ///< Shown to clients, which then offer no changes.
};

/// `/api/v1/session`: GET says who I am, POST logs in, DELETE logs out.
void add_session_routes(RouteTable& routes, Authenticator& auth, const SessionScope& scope);

/// `/api/v1/events`: server-sent events.
void add_event_routes(RouteTable& routes, EventHub& hub);

/// `/webhooks/NAME`. None in a build without webhooks.
void add_webhook_routes(RouteTable& routes, WebhookReceiver& receiver);

/// `/metrics`. `own`: the metrics of the server itself.
void add_metrics_routes(RouteTable& routes, const Databases& databases,
                        const std::shared_ptr<MetricsRegistry>& own);

}  // namespace dovetail::server
