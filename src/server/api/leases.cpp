// Leases.
#include <limits>

#include "server/api/change.hpp"

namespace dovetail::server::api {
namespace {

Response list_leases(const Api& api, const Request& request) {
  require_query(request, {"limit", "cursor"});
  const auto limit = limit_of(request);
  LeasePage page{.size = limit + 1};
  if (const auto after = cursor_values(request, 2)) {
    page.after_name = cursor_text(after->at(0));
    page.after_slot = static_cast<int>(cursor_number(after->at(1)));
  }
  auto list = database_of(api, request)->leases().list(page);
  ordered_json next;
  if (drop_last(list, limit)) next = cursor_of({list.back().name, list.back().slot});
  return answer({{"leases", json::to_json_array(list)}, {"next", std::move(next)}});
}

/// Releases the lease of another owner, if it still has the token that the caller has seen.
Response release_lease(Change& change) {
  auto& body = change.body();
  Lease lease{.name = body.required_text("name"), .owner = body.required_text("owner")};
  const auto slot = body.number("slot").value_or(0);
  if (slot < 0 || slot > std::numeric_limits<int>::max())
    throw std::invalid_argument("slot must be 0 to 2147483647, got " + std::to_string(slot));
  lease.slot = static_cast<int>(slot);
  const auto token = body.number("token");
  if (!token) throw std::invalid_argument("token is missing: use the one of the list of leases");
  lease.token = *token;
  change.describe(
      lease.name,
      {{"slot", lease.slot}, {"owner", lease.owner}, {"token", std::to_string(lease.token)}});
  return change.make([&] {
    const bool released = change.platform().leases().release(lease);
    return Changed{.answer = {{"name", lease.name}, {"released", released}},
                   .count = released ? 1 : 0};
  });
}

}  // namespace

void add_lease_routes(RouteTable& routes, const Api& api) {
  add_read(routes, "/api/v1/leases",
           [api](const Request& request) { return list_leases(api, request); });
  add_change(routes, api,
             {.pattern = "/api/v1/leases/release",
              .role = ServerRole::admin,
              .action = "lease.release",
              .handler = release_lease});
}

}  // namespace dovetail::server::api
