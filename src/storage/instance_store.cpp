#include "storage/instance_store.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dovetail/error.hpp"

namespace dovetail::storage {

std::string handlers_json(const std::vector<InstanceQueue>& queues) {
  auto object = nlohmann::json::object();
  for (const auto& queue : queues) {
    object[queue.name] = {{"topics", queue.topics}, {"all_topics", queue.all_topics}};
  }
  return object.dump();
}

std::vector<InstanceQueue> queues_from_json(std::string_view json) {
  std::vector<InstanceQueue> queues;
  const auto object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object()) return queues;
  for (const auto& [name, handlers] : object.items()) {
    if (!handlers.is_object()) continue;
    InstanceQueue queue{.name = name};
    if (const auto topics = handlers.find("topics");
        topics != handlers.end() && topics->is_array()) {
      for (const auto& topic : *topics) {
        if (topic.is_string()) queue.topics.push_back(topic.get<std::string>());
      }
    }
    std::ranges::sort(queue.topics);
    const auto all = handlers.find("all_topics");
    queue.all_topics = all != handlers.end() && all->is_boolean() && all->get<bool>();
    queues.push_back(std::move(queue));
  }
  return queues;
}

InstanceState instance_state(std::string_view name) {
  for (const auto state : {InstanceState::running, InstanceState::draining}) {
    if (to_string(state) == name) return state;
  }
  throw InvalidOperation("no state of an instance: " + std::string{name});
}

}  // namespace dovetail::storage
