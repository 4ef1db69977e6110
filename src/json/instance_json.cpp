#include "json/fields.hpp"
#include "json/to_json.hpp"

namespace dovetail::json {

ordered_json to_json(const InstanceInfo& instance) {
  auto queues = ordered_json::array();
  for (const auto& queue : instance.queues) {
    queues.push_back({{"queue", queue.name},
                      {"all_topics", queue.all_topics},
                      {"topics", queue.topics},
                      {"patterns", queue.patterns}});
  }
  return {{"instance_id", instance.id.to_string()},
          {"host", instance.host},
          {"pid", instance.pid},
          {"version", instance.version},
          {"state", std::string{to_string(instance.state)}},
          {"stale", instance.stale},
          {"started_at", to_string(instance.started_at)},
          {"heartbeat_at", to_string(instance.heartbeat_at)},
          {"queues", queues}};
}

ordered_json to_json(const UnhandledTopic& topic) {
  return {{"queue", topic.queue},
          {"topic", topic.topic},
          {"waiting", topic.seen},
          {"oldest_due_ms", milliseconds(topic.oldest_wait)}};
}

}  // namespace dovetail::json
