#include "runtime/node_handlers.hpp"

#include <stdexcept>

#include "dovetail/error.hpp"
#include "runtime/handler_adapters.hpp"

namespace dovetail::runtime {
namespace {

template <class Registries>
auto& found_in(Registries& registries, std::string_view queue) {
  const auto found = registries.find(queue);
  if (found == registries.end()) {
    throw std::out_of_range("the queue " + std::string{queue} + " has no handlers");
  }
  return found->second;
}

}  // namespace

NodeHandlers::NodeHandlers(Node& node) : node_(node) {
  for (const auto& queue : node.queues()) {
    if (!queue.has_handlers) continue;
    registries_.try_emplace(queue.queue->name(), queue.queue->options().max_attempts);
  }
  add_component_handlers();
}

void NodeHandlers::add_component_handlers() {
  for (const auto& component : node_.components()) {
    for (auto& handler : component->handlers()) {
      const auto topic = handler->topic();
      auto options = handler->options();
      add("outbox", topic, function_of(std::move(handler)), std::move(options));
      own_topics_.insert(topic);
    }
  }
}

HandlerFunction NodeHandlers::wrapped(std::string_view queue, HandlerFunction function) const {
  if (queue != "outbox") return function;
  for (const auto& component : node_.components()) {
    function = component->around(std::move(function));
  }
  return function;
}

HandlerRegistry& NodeHandlers::registry(std::string_view queue) {
  return found_in(registries_, queue);
}

const HandlerRegistry& NodeHandlers::of(std::string_view queue) const {
  return found_in(registries_, queue);
}

void NodeHandlers::add(std::string_view queue, std::string_view topic, HandlerFunction function,
                       HandlerOptions options, const void* shared_limit) {
  if (queue == "outbox" && own_topics_.contains(topic)) {
    throw InvalidOperation("topic " + std::string{topic} +
                           " has a handler already: every worker of Dovetail handles it itself");
  }
  registry(queue).add(topic, wrapped(queue, std::move(function)), std::move(options), shared_limit);
}

void NodeHandlers::add_fallback(std::string_view queue, HandlerFunction function,
                                HandlerOptions options) {
  registry(queue).add_fallback(wrapped(queue, std::move(function)), std::move(options));
}

void NodeHandlers::add_route(std::string_view pattern) {
  registry("outbox").add_route(pattern);
}

void NodeHandlers::add_all(std::string_view queue, const HandlerRegistry& others) {
  registry(queue).add_all(
      others, [&](HandlerFunction function) { return wrapped(queue, std::move(function)); });
}

}  // namespace dovetail::runtime
