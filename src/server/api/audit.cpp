// The audit.
#include "server/api/change.hpp"

namespace dovetail::server::api {
namespace {

ordered_json entry_json(const AuditEntry& entry) {
  const auto& record = entry.record;
  return {{"audit_id", std::to_string(entry.id)},
          {"at", to_string(entry.at)},
          {"actor", record.actor},
          {"action", record.action},
          {"target", record.target},
          {"detail", record.detail},
          {"count", record.count ? ordered_json(std::to_string(*record.count)) : nullptr},
          {"result", record.result}};
}

}  // namespace

void add_audit_routes(RouteTable& routes, const Api& api) {
  add_read(routes, "/api/v1/audit", [api](const Request& request) {
    require_query(request, {"limit", "cursor"});
    const auto limit = limit_of(request);
    AuditPage page{.size = limit + 1};
    if (const auto before = cursor_values(request, 1)) page.before = cursor_number(before->at(0));
    auto list = database_of(api, request)->audit().list(page);
    const bool more = drop_last(list, limit);
    auto entries = ordered_json::array();
    for (const auto& each : list) entries.push_back(entry_json(each));
    return answer({{"entries", std::move(entries)},
                   {"next", more ? ordered_json(cursor_of({list.back().id})) : nullptr}});
  });
}

}  // namespace dovetail::server::api
