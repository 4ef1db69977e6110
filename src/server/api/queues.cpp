// Queues and their topics.
#include "server/api/change.hpp"

namespace dovetail::server::api {
namespace {

ordered_json queue_json(Platform& platform, const std::string& name) {
  auto& queue = queue_of(platform, name);
  auto value = ordered_json{{"queue", name}};
  value.update(capped_counts(queue));
  value["paused_topics"] = json::to_json_array(queue.paused_topics());
  value["max_attempts"] = queue.options().max_attempts;
  value["retain_done_ms"] =
      std::chrono::duration_cast<std::chrono::milliseconds>(queue.options().retain_done).count();
  return value;
}

ordered_json topic_json(const TopicCounts& counts) {
  return {{"topic", counts.topic},         {"ready", counts.ready},
          {"scheduled", counts.scheduled}, {"in_progress", counts.in_progress},
          {"done", counts.done},           {"failed", counts.failed},
          {"paused", counts.paused}};
}

Response list_queues(const Api& api, const Request& request) {
  require_query(request, {});
  const auto platform = database_of(api, request);
  auto queues = ordered_json::array();
  for (const auto* name : {"outbox", "inbox", "timers"})
    queues.push_back(queue_json(*platform, name));
  return answer({{"queues", std::move(queues)}});
}

Response list_topics(const Api& api, const Request& request) {
  require_query(request, {"limit", "cursor"});
  const auto platform = database_of(api, request);
  const auto limit = limit_of(request);
  TopicPage page{.size = limit + 1};
  if (const auto after = cursor_values(request, 1)) page.after = cursor_text(after->at(0));
  auto list = queue_of(*platform, request.parameter("queue")).topics(page);
  const bool more = drop_last(list.topics, limit);
  auto topics = ordered_json::array();
  for (const auto& each : list.topics) topics.push_back(topic_json(each));
  return answer({{"topics", std::move(topics)},
                 {"cut", list.cut},
                 {"next", more ? ordered_json(cursor_of({list.topics.back().topic})) : nullptr}});
}

Response set_paused(Change& change, bool paused) {
  const auto& name = change.request().parameter("queue");
  const auto& topic = change.request().parameter("topic");
  auto& queue = queue_of(change.platform(), name);
  change.describe(name + "/" + topic);
  return change.make([&] {
    const bool changed = paused ? queue.pause(topic) : queue.resume(topic);
    return Changed{
        .answer = {{"queue", name}, {"topic", topic}, {"paused", paused}, {"changed", changed}},
        .count = changed ? 1 : 0};
  });
}

}  // namespace

void add_queue_routes(RouteTable& routes, const Api& api) {
  const std::string one = "/api/v1/queues/{queue}";
  add_read(routes, "/api/v1/queues",
           [api](const Request& request) { return list_queues(api, request); });
  add_read(routes, one, [api](const Request& request) {
    require_query(request, {});
    return answer(queue_json(*database_of(api, request), request.parameter("queue")));
  });
  add_read(routes, one + "/topics",
           [api](const Request& request) { return list_topics(api, request); });
  add_change(routes, api,
             {.pattern = one + "/topics/{topic}/pause",
              .action = "topic.pause",
              .handler = [](Change& change) { return set_paused(change, true); }});
  add_change(routes, api,
             {.pattern = one + "/topics/{topic}/resume",
              .action = "topic.resume",
              .handler = [](Change& change) { return set_paused(change, false); }});
}

}  // namespace dovetail::server::api
