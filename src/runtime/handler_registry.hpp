// Maps topics to handlers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/handler.hpp"

namespace dovetail::runtime {

struct RegisteredHandler {
  HandlerFunction function;
  HandlerOptions options;
  int max_attempts = 0;
  /// Handlers with the same key share a concurrency limit. Null: the handler has its own.
  const void* shared_limit = nullptr;

  [[nodiscard]] const void* limit_key() const { return shared_limit ? shared_limit : this; }
};

class HandlerRegistry {
 public:
  /// `max_attempts` applies to handlers without their own value.
  explicit HandlerRegistry(int max_attempts) : max_attempts_(max_attempts) {}

  /// Throws std::invalid_argument or std::out_of_range for unusable arguments, and InvalidOperation
  /// if the topic has a handler already. Handlers with the same `shared_limit` share a concurrency
  /// limit.
  void add(std::string_view topic, HandlerFunction function, HandlerOptions options,
           const void* shared_limit = nullptr);
  /// Adds the handler of every topic without its own handler.
  void add_fallback(HandlerFunction function, HandlerOptions options);
  /// Reserves topics for a route that publishes them: one topic, or all topics that match a pattern
  /// (core/topic_pattern.hpp) and have no handler. Throws InvalidOperation if the topic has a
  /// handler or a route, if the pattern has a route, or if there is a handler for all topics.
  void add_route(std::string_view pattern);
  /// Adds the handlers of another registry, which must live as long as this one. They share its
  /// concurrency limits.
  void add_all(const HandlerRegistry& others,
               const std::function<HandlerFunction(HandlerFunction)>& wrap);

  [[nodiscard]] const RegisteredHandler* find(std::string_view topic) const;
  [[nodiscard]] bool empty() const { return handlers_.empty() && !fallback_; }
  using ByTopic = std::map<std::string, std::unique_ptr<RegisteredHandler>, std::less<>>;
  [[nodiscard]] const ByTopic& by_topic() const { return handlers_; }
  /// The handler of all other topics, or null.
  [[nodiscard]] const RegisteredHandler* fallback() const { return fallback_.get(); }
  /// The topics with their own handler, sorted.
  [[nodiscard]] std::vector<std::string> topics() const;
  /// Whether there is a handler for all other topics.
  [[nodiscard]] bool handles_all() const { return fallback_ != nullptr; }
  /// Whether any handler has a concurrency limit.
  [[nodiscard]] bool has_limits() const { return has_limits_; }
  [[nodiscard]] int default_attempts() const { return max_attempts_; }
  /// The topics and patterns of routes, in the order of their registration.
  [[nodiscard]] const std::vector<std::string>& routes() const { return routes_; }

 private:
  [[nodiscard]] std::unique_ptr<RegisteredHandler> checked(HandlerFunction function,
                                                           HandlerOptions options);

  int max_attempts_;
  bool has_limits_ = false;
  ByTopic handlers_;
  std::unique_ptr<RegisteredHandler> fallback_;
  std::vector<std::string> routes_;
};

}  // namespace dovetail::runtime
