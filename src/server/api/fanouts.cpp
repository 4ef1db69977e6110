// Fan-outs: cadences and cursors.
#include "server/api/change.hpp"
#include "server/problem.hpp"

namespace dovetail::server::api {
namespace {

Response list_cursors(const Api& api, const Request& request) {
  require_query(request, {"work_key", "limit", "cursor"});
  const auto limit = limit_of(request);
  FanoutCursorPage page{.work_key = request.query_value("work_key"), .size = limit + 1};
  if (const auto after = cursor_values(request, 2)) {
    page.after_work_key = cursor_text(after->at(0));
    page.after_shard_key = cursor_text(after->at(1));
  }
  auto list = database_of(api, request)->fanout().cursors(request.parameter("topic"), page);
  ordered_json next;
  if (drop_last(list, limit)) next = cursor_of({list.back().work_key, list.back().shard_key});
  return answer({{"cursors", json::to_json_array(list)}, {"next", std::move(next)}});
}

ordered_json work_key_json(const std::optional<std::string>& work_key) {
  return work_key ? ordered_json(*work_key) : ordered_json();
}

Response run_fanout(Change& change) {
  const auto& topic = change.request().parameter("topic");
  const auto work_key = change.body().text("work_key");
  change.describe(topic, {{"work_key", work_key_json(work_key)}});
  return change.make([&] {
    const auto runs = change.platform().fanout().run_now(topic, work_key);
    if (runs.empty()) throw Problem(404, "there is no such fan-out of the topic \"" + topic + "\"");
    auto ids = ordered_json::array();
    for (const auto& run : runs) ids.push_back(run.to_string());
    return Changed{.answer = {{"run_ids", std::move(ids)}},
                   .count = static_cast<std::int64_t>(runs.size()),
                   .status = 201};
  });
}

/// Sets the cadence, or without `every_ms` returns to the registered one.
Response set_cadence(Change& change) {
  const auto& topic = change.request().parameter("topic");
  auto& body = change.body();
  const auto work_key = body.text("work_key");
  const auto every = body.number("every_ms");
  const auto jitter = body.number("jitter_ms");
  ordered_json detail{{"work_key", work_key_json(work_key)}, {"every_ms", nullptr}};
  if (jitter && !every) throw std::invalid_argument("jitter_ms needs every_ms");
  if (every) detail["every_ms"] = *every;
  if (jitter) detail["jitter_ms"] = *jitter;
  change.describe(topic, detail);
  return change.make([&] {
    auto& fanout = change.platform().fanout();
    const auto new_jitter =
        jitter ? std::optional{std::chrono::milliseconds{*jitter}} : std::nullopt;
    const bool changed =
        every ? fanout.set_cadence(topic, work_key, std::chrono::milliseconds{*every}, new_jitter)
              : fanout.reset_cadence(topic, work_key);
    if (!changed) throw Problem(404, "there is no such fan-out of the topic \"" + topic + "\"");
    return Changed{.answer = {{"topic", topic}, {every ? "set" : "reset", true}}, .count = 1};
  });
}

}  // namespace

void add_fanout_routes(RouteTable& routes, const Api& api) {
  const std::string one = "/api/v1/fanouts/{topic}";
  add_read(routes, "/api/v1/fanouts", [api](const Request& request) {
    require_query(request, {"topic"});
    const auto policies =
        database_of(api, request)->fanout().policies(request.query_value("topic"));
    return answer({{"fanouts", json::to_json_array(policies)}});
  });
  add_read(routes, one + "/cursors",
           [api](const Request& request) { return list_cursors(api, request); });
  add_change(routes, api, {.pattern = one + "/run", .action = "fanout.run", .handler = run_fanout});
  add_change(routes, api,
             {.pattern = one + "/cadence", .action = "fanout.cadence", .handler = set_cadence});
}

}  // namespace dovetail::server::api
