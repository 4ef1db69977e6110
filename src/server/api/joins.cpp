// Joins and their members.
#include "server/api/change.hpp"
#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

JoinStatus join_status(const std::string& name) {
  for (const auto status :
       {JoinStatus::pending, JoinStatus::completed, JoinStatus::failed, JoinStatus::cancelled}) {
    if (to_string(status) == name) return status;
  }
  throw std::invalid_argument("status must be pending, completed, failed or cancelled, got \"" +
                              name + "\"");
}

ordered_json join_json(const Join& join, const PayloadView& view) {
  auto value = json::to_json(join);
  view.apply(value, "metadata");
  return value;
}

/// A message of the outbox in a few words, or null if it does not exist (any more).
ordered_json brief_message(Platform& platform, MessageId id) {
  const auto stored = platform.outbox().find(id);
  if (!stored) return nullptr;
  return {{"message_id", id.to_string()},
          {"topic", stored->message.topic},
          {"status", std::string{to_string(stored->status)}}};
}

/// The messages that wait for the join, each with its continuation.
ordered_json waiting_json(Platform& platform, JoinId join) {
  auto values = ordered_json::array();
  for (const auto id : platform.joins().waiting(join)) {
    auto value = brief_message(platform, id);
    if (value.is_null()) continue;
    value["continuation"] = brief_message(platform, Joins::continuation_of(id));
    values.push_back(std::move(value));
  }
  return values;
}

Response list_joins(const Api& api, const Request& request) {
  require_query(request,
                {"status", "grouping_key", "created_after", "created_before", "limit", "cursor"});
  JoinFilter filter{.grouping_key = request.query_value("grouping_key"),
                    .created_after = time_of(request, "created_after"),
                    .created_before = time_of(request, "created_before")};
  if (const auto status = request.query_value("status")) filter.status = join_status(*status);
  const auto limit = limit_of(request);
  JoinPage page{.size = limit + 1};
  if (const auto after = cursor_values(request, 1)) page.after = cursor_id<JoinId>(after->at(0));
  auto list = database_of(api, request)->joins().list(filter, page);
  const bool more = drop_last(list, limit);
  auto joins = ordered_json::array();
  for (const auto& each : list) joins.push_back(join_json(each, {}));
  return answer({{"joins", std::move(joins)},
                 {"next", more ? ordered_json(cursor_of({list.back().id.to_string()})) : nullptr}});
}

Response show_join(const Api& api, const Request& request) {
  require_query(request, {"payload"});
  const auto view = payload_view(api, request);
  const auto id = parse_id<JoinId>("join_id", request.parameter("join_id"));
  const auto platform = database_of(api, request);
  const auto found = platform->joins().find(id);
  if (!found) throw Problem(404, "there is no join " + id.to_string());
  auto value = join_json(*found, view);
  value["waiting"] = waiting_json(*platform, id);
  return answer(std::move(value));
}

Response list_members(const Api& api, const Request& request) {
  require_query(request, {"limit", "cursor"});
  const auto id = parse_id<JoinId>("join_id", request.parameter("join_id"));
  const auto limit = limit_of(request);
  MemberPage page{.size = limit + 1};
  if (const auto after = cursor_values(request, 1)) page.after = cursor_id<MessageId>(after->at(0));
  auto list = database_of(api, request)->joins().members(id, page);
  const bool more = drop_last(list, limit);
  return answer(
      {{"members", json::to_json_array(list)},
       {"next", more ? ordered_json(cursor_of({list.back().message.to_string()})) : nullptr}});
}

Response cancel_join(Change& change) {
  const auto id = parse_id<JoinId>("join_id", change.request().parameter("join_id"));
  change.describe(id.to_string());
  if (!change.platform().joins().find(id)) throw Problem(404, "there is no join " + id.to_string());
  return change.make_in_transaction([&](Transaction& transaction) {
    const bool cancelled = change.platform().joins().cancel(transaction, id);
    return Changed{.answer = {{"join_id", id.to_string()}, {"cancelled", cancelled}},
                   .count = cancelled ? 1 : 0};
  });
}

}  // namespace

void add_join_routes(RouteTable& routes, const Api& api) {
  const std::string one = "/api/v1/joins/{join_id}";
  add_read(routes, "/api/v1/joins",
           [api](const Request& request) { return list_joins(api, request); });
  add_read(routes, one, [api](const Request& request) { return show_join(api, request); });
  add_read(routes, one + "/members",
           [api](const Request& request) { return list_members(api, request); });
  add_change(routes, api,
             {.pattern = one + "/cancel", .action = "join.cancel", .handler = cancel_join});
}

}  // namespace dovetail::server::api
