// Which handler a topic has.
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
  /// Handlers with the same key share their limit of concurrency. Null: it is its own.
  const void* shared_limit = nullptr;

  [[nodiscard]] const void* limit_key() const { return shared_limit ? shared_limit : this; }
};

class HandlerRegistry {
 public:
  /// `max_attempts`: for handlers that say nothing.
  explicit HandlerRegistry(int max_attempts) : max_attempts_(max_attempts) {}

  /// Throws std::invalid_argument or std::out_of_range for what cannot work, InvalidOperation for a
  /// topic that has one.
  void add(std::string_view topic, HandlerFunction function, HandlerOptions options);
  /// The handler of every topic that has none of its own.
  void add_fallback(HandlerFunction function, HandlerOptions options);
  /// Adds the handlers of another registry, which must live as long as this one: they share its
  /// limits of concurrency.
  void add_all(const HandlerRegistry& others,
               const std::function<HandlerFunction(HandlerFunction)>& wrap);

  [[nodiscard]] const RegisteredHandler* find(std::string_view topic) const;
  [[nodiscard]] bool empty() const { return handlers_.empty() && !fallback_; }
  using ByTopic = std::map<std::string, std::unique_ptr<RegisteredHandler>, std::less<>>;
  [[nodiscard]] const ByTopic& by_topic() const { return handlers_; }
  /// The handler of all other topics; null when there is none.
  [[nodiscard]] const RegisteredHandler* fallback() const { return fallback_.get(); }
  /// The topics that have a handler of their own, sorted.
  [[nodiscard]] std::vector<std::string> topics() const;
  /// Whether there is a handler for all other topics.
  [[nodiscard]] bool handles_all() const { return fallback_ != nullptr; }
  /// Whether any handler has a limit of its own.
  [[nodiscard]] bool has_limits() const { return has_limits_; }
  [[nodiscard]] int default_attempts() const { return max_attempts_; }

 private:
  [[nodiscard]] std::unique_ptr<RegisteredHandler> checked(HandlerFunction function,
                                                           HandlerOptions options);

  int max_attempts_;
  bool has_limits_ = false;
  ByTopic handlers_;
  std::unique_ptr<RegisteredHandler> fallback_;
};

}  // namespace dovetail::runtime
