// The handlers of one node, by queue: the handlers of its components and of the user.
//
// Threads: the caller's lock guards it until the handlers are used.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "runtime/handler_registry.hpp"
#include "runtime/node.hpp"

namespace dovetail::runtime {

class NodeHandlers {
 public:
  /// Adds the components' handlers.
  explicit NodeHandlers(Node& node);

  /// Handlers with the same `shared_limit` share a concurrency limit.
  void add(std::string_view queue, std::string_view topic, HandlerFunction function,
           HandlerOptions options, const void* shared_limit = nullptr);
  void add_fallback(std::string_view queue, HandlerFunction function, HandlerOptions options);
  /// Adds the handlers of another registry. They share its concurrency limits.
  void add_all(std::string_view queue, const HandlerRegistry& others);

  /// Reserves topics of the outbox; see HandlerRegistry::add_route().
  void add_route(std::string_view pattern);

  /// Throws std::out_of_range for a queue without handlers.
  [[nodiscard]] const HandlerRegistry& of(std::string_view queue) const;

 private:
  [[nodiscard]] HandlerRegistry& registry(std::string_view queue);
  /// Lets the components wrap the handlers of the outbox.
  [[nodiscard]] HandlerFunction wrapped(std::string_view queue, HandlerFunction function) const;
  void add_component_handlers();

  Node& node_;
  std::map<std::string, HandlerRegistry, std::less<>> registries_;
  std::set<std::string, std::less<>> own_topics_;  // of the outbox; handled by components
};

}  // namespace dovetail::runtime
