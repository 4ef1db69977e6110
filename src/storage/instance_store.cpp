#include "storage/instance_store.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dovetail/error.hpp"

namespace dovetail::storage {
namespace {

std::vector<std::string> texts_of(const nlohmann::json& object, const char* name) {
  std::vector<std::string> texts;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return texts;
  for (const auto& each : *found) {
    if (each.is_string()) texts.push_back(each.get<std::string>());
  }
  return texts;
}

}  // namespace

std::string handlers_json(const std::vector<InstanceQueue>& queues) {
  auto object = nlohmann::json::object();
  for (const auto& queue : queues) {
    object[queue.name] = {{"topics", queue.topics}, {"all_topics", queue.all_topics}};
    if (!queue.patterns.empty()) object[queue.name]["patterns"] = queue.patterns;
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
    queue.topics = texts_of(handlers, "topics");
    queue.patterns = texts_of(handlers, "patterns");
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
