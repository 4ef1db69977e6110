// The processes that work on a database, and the databases and transports of this server.
#include "server/api/change.hpp"

namespace dovetail::server::api {
namespace {

Response list_instances(const Api& api, const Request& request) {
  require_query(request, {});
  const auto platform = database_of(api, request);
  return answer({{"instances", json::to_json_array(platform->instances().list())},
                 {"unhandled_topics", unhandled_json(*platform)}});
}

Response list_databases(const Api& api, const Request& request) {
  require_query(request, {});
  auto databases = ordered_json::array();
  if (api.databases.is_group()) {
    for (const auto& each : api.databases.group()->status().databases) {
      databases.push_back(
          {{"key", each.key},
           {"state", std::string{to_string(each.state)}},
           {"failures", each.failures},
           {"last_error",
            each.last_error.empty() ? ordered_json() : ordered_json(each.last_error)}});
    }
  } else {
    databases.push_back({{"key", api.databases.keys().front()},
                         {"state", "single"},
                         {"failures", 0},
                         {"last_error", nullptr}});
  }
  return answer({{"databases", std::move(databases)}});
}

Response list_transports(const Api& api, const Request& request) {
  require_query(request, {});
  const auto platform = database_of(api, request);
  // A database of a group has none.
  auto transports = api.databases.is_group() ? ordered_json::array()
                                             : json::to_json_array(platform->transports());
  return answer({{"transports", std::move(transports)}});
}

}  // namespace

void add_instance_routes(RouteTable& routes, const Api& api) {
  add_read(routes, "/api/v1/instances",
           [api](const Request& request) { return list_instances(api, request); });
  add_read(routes, "/api/v1/transports",
           [api](const Request& request) { return list_transports(api, request); });
  add_read(routes, "/api/v1/databases",
           [api](const Request& request) { return list_databases(api, request); });
}

}  // namespace dovetail::server::api
