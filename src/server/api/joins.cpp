// Joins and their members.
#include <algorithm>

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

/// A message of the outbox in a few words.
ordered_json brief_json(const StoredMessage& stored) {
  return {{"message_id", stored.message.message_id.to_string()},
          {"topic", stored.message.topic},
          {"status", std::string{to_string(stored.status)}}};
}

/// What the payload of a waiting message plans. It may be written by hand.
ordered_json plan_json(const Message& waiting) {
  const auto payload = nlohmann::json::parse(waiting.payload, nullptr, false);
  const auto topic = [&](const char* name) {
    const bool found = payload.is_object() && payload.contains(name) && payload[name].is_string();
    return found ? ordered_json(payload[name].get<std::string>()) : ordered_json();
  };
  const bool fails = !payload.is_object() || !payload.contains("fail_if_any_step_failed") ||
                     payload["fail_if_any_step_failed"] != false;
  return {{"on_complete_topic", topic("on_complete_topic")},
          {"on_fail_topic", topic("on_fail_topic")},
          {"fail_if_any_step_failed", fails}};
}

/// Messages that waited until the end of a join. They ended soon after it.
std::vector<MessageId> waited_for(Platform& platform, const Join& join) {
  constexpr int most_searched = 50;
  std::vector<MessageId> ids;
  if (!join.finished_at) return ids;
  const auto list =
      platform.outbox().messages({.state = MessageState::done,
                                  .topic = platform.joins().options().wait_topic,
                                  .finished_after = *join.finished_at,
                                  .finished_before = *join.finished_at + std::chrono::seconds{5}},
                                 {.size = most_searched});
  for (const auto& each : list.messages) {
    const auto stored = platform.outbox().find(each.stored.message.message_id);
    if (stored && platform.joins().awaited_by(stored->message) == join.id)
      ids.push_back(stored->message.message_id);
  }
  return ids;
}

/// The messages that wait for the join, or waited, each with its continuation.
ordered_json waiting_json(Platform& platform, const Join& join) {
  auto ids = platform.joins().waiting(join.id);
  if (ids.empty()) ids = waited_for(platform, join);
  auto values = ordered_json::array();
  for (const auto id : ids) {
    const auto stored = platform.outbox().find(id);
    if (!stored) continue;
    auto value = brief_json(*stored);
    value.update(plan_json(stored->message));
    value["continuation"] = nullptr;
    if (const auto next = platform.outbox().find(Joins::continuation_of(id)))
      value["continuation"] = brief_json(*next);
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
  value["waiting"] = waiting_json(*platform, *found);
  return answer(std::move(value));
}

/// The message of a step; null if it is deleted already.
ordered_json step_json(Platform& platform, MessageId id) {
  const auto found = platform.outbox().find(id);
  if (!found) return nullptr;
  return {{"topic", found->message.topic},
          {"status", std::string{to_string(found->status)}},
          {"attempts", found->message.attempts},
          {"last_error", found->last_error ? ordered_json(*found->last_error) : nullptr}};
}

Response list_members(const Api& api, const Request& request) {
  require_query(request, {"messages", "limit", "cursor"});
  const auto id = parse_id<JoinId>("join_id", request.parameter("join_id"));
  const bool with_messages = flag_of(request, "messages");
  // Each message is one more statement.
  const auto limit = with_messages ? std::min(limit_of(request), 200) : limit_of(request);
  const auto platform = database_of(api, request);
  MemberPage page{.size = limit + 1};
  if (const auto after = cursor_values(request, 1)) page.after = cursor_id<MessageId>(after->at(0));
  auto list = platform->joins().members(id, page);
  const bool more = drop_last(list, limit);
  auto members = json::to_json_array(list);
  for (std::size_t i = 0; with_messages && i < list.size(); ++i)
    members[i]["message"] = step_json(*platform, list[i].message);
  return answer(
      {{"members", std::move(members)},
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
