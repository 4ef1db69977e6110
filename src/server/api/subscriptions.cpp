// Subscriptions to the event store.
#include "server/api/change.hpp"
#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

[[noreturn]] void no_such_subscription(const std::string& name) {
  throw Problem(404, "there is no subscription \"" + name + "\"");
}

Response show_subscription(const Api& api, const Request& request) {
  require_query(request, {});
  const auto platform = database_of(api, request);
  auto& subscriptions = platform->events().subscriptions();
  const auto& name = request.parameter("subscription");
  const auto found = subscriptions.find(name);
  if (!found) no_such_subscription(name);
  auto value = json::to_json(*found);
  value["part_list"] = json::to_json_array(subscriptions.parts(name));
  value["parked_events"] = json::to_json_array(subscriptions.parked(name));
  return answer(std::move(value));
}

/// A change that returns whether it had an effect.
Response change_subscription(
    Change& change, const std::string& word, const ordered_json& detail,
    const std::function<bool(Subscriptions& subscriptions, const std::string& name)>& call) {
  const auto& name = change.request().parameter("subscription");
  change.describe(name, detail);
  return change.make([&] {
    auto& subscriptions = change.platform().events().subscriptions();
    if (!subscriptions.find(name)) no_such_subscription(name);
    const bool changed = call(subscriptions, name);
    return Changed{.answer = {{"subscription", name}, {word, changed}}, .count = changed ? 1 : 0};
  });
}

Response pause_subscription(Change& change) {
  return change_subscription(
      change, "paused", nullptr,
      [](Subscriptions& all, const std::string& name) { return all.pause(name); });
}

Response resume_subscription(Change& change) {
  const bool parked = change.body().flag("parked");
  return change_subscription(change, "resumed", {{"parked", parked}},
                             [parked](Subscriptions& all, const std::string& name) {
                               return parked ? all.resume_parked(name) > 0 : all.resume(name);
                             });
}

Response skip_event(Change& change) {
  const auto position = change.body().number("position");
  if (!position) throw std::invalid_argument("position is missing: which event to skip");
  return change_subscription(change, "skipped", {{"position", std::to_string(*position)}},
                             [position](Subscriptions& all, const std::string& name) {
                               return all.skip(name, *position);
                             });
}

Response rebuild_subscription(Change& change) {
  const auto position = change.body().number("position").value_or(0);
  return change_subscription(change, "rebuilt", {{"position", std::to_string(position)}},
                             [position](Subscriptions& all, const std::string& name) {
                               return all.rebuild(name, position);
                             });
}

}  // namespace

void add_subscription_routes(RouteTable& routes, const Api& api) {
  const std::string one = "/api/v1/subscriptions/{subscription}";
  add_read(routes, "/api/v1/subscriptions", [api](const Request& request) {
    require_query(request, {});
    const auto list = database_of(api, request)->events().subscriptions().list();
    return answer({{"subscriptions", json::to_json_array(list)}});
  });
  add_read(routes, one, [api](const Request& request) { return show_subscription(api, request); });
  add_change(
      routes, api,
      {.pattern = one + "/pause", .action = "subscription.pause", .handler = pause_subscription});
  add_change(routes, api,
             {.pattern = one + "/resume",
              .action = "subscription.resume",
              .handler = resume_subscription});
  add_change(routes, api,
             {.pattern = one + "/skip", .action = "subscription.skip", .handler = skip_event});
  add_change(routes, api,
             {.pattern = one + "/rebuild",
              .role = ServerRole::admin,
              .action = "subscription.rebuild",
              .handler = rebuild_subscription});
}

}  // namespace dovetail::server::api
