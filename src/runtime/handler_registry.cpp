#include "runtime/handler_registry.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "core/topic_pattern.hpp"
#include "dovetail/error.hpp"

namespace dovetail::runtime {
namespace {

void require_topic_text(const char* what, std::string_view topic) {
  const auto length = core::utf8_length(topic);
  if (!length || *length < 1 || *length > 255) {
    throw std::invalid_argument(std::string{what} +
                                " must be 1 to 255 characters of UTF-8 without NUL");
  }
}

}  // namespace

std::unique_ptr<RegisteredHandler> HandlerRegistry::checked(HandlerFunction function,
                                                            HandlerOptions options) {
  if (!function) throw std::invalid_argument("handler must not be empty");
  if (options.concurrency < 0) throw std::out_of_range("concurrency must not be negative");
  if (options.timeout < std::chrono::milliseconds::zero())
    throw std::out_of_range("timeout must not be negative");
  const int attempts = options.max_attempts.value_or(max_attempts_);
  if (options.timeout > std::chrono::hours{24 * 365})
    throw std::out_of_range("timeout must not exceed a year");
  if (attempts < 1 || attempts > 1'000) throw std::out_of_range("max_attempts must be 1 to 1000");
  has_limits_ = has_limits_ || options.concurrency > 0;
  return std::make_unique<RegisteredHandler>(
      RegisteredHandler{std::move(function), std::move(options), attempts, nullptr});
}

void HandlerRegistry::add(std::string_view topic, HandlerFunction function, HandlerOptions options,
                          const void* shared_limit) {
  require_topic_text("topic", topic);
  if (std::ranges::find(routes_, topic) != routes_.end()) {
    throw InvalidOperation("topic " + std::string{topic} + " has a route already");
  }
  auto handler = checked(std::move(function), std::move(options));
  handler->shared_limit = shared_limit;
  if (!handlers_.try_emplace(std::string{topic}, std::move(handler)).second) {
    throw InvalidOperation("topic " + std::string{topic} + " has a handler already");
  }
}

void HandlerRegistry::add_fallback(HandlerFunction function, HandlerOptions options) {
  if (fallback_) throw InvalidOperation("there is a handler for all other topics already");
  for (const auto& route : routes_) {
    if (core::is_exact(route)) continue;
    throw InvalidOperation("the route " + route +
                           " and a handler for all other topics exclude each other");
  }
  fallback_ = checked(std::move(function), std::move(options));
}

void HandlerRegistry::add_route(std::string_view pattern) {
  const std::string name{pattern};
  require_topic_text("the topic of a route", pattern);
  if (std::ranges::find(routes_, pattern) != routes_.end()) {
    throw InvalidOperation("topic " + name + " has a route already");
  }
  if (handlers_.contains(pattern)) {
    throw InvalidOperation("topic " + name + " has a handler already");
  }
  if (fallback_ && !core::is_exact(pattern)) {
    throw InvalidOperation("the route " + name +
                           " and a handler for all other topics exclude each other");
  }
  routes_.push_back(name);
}

void HandlerRegistry::add_all(const HandlerRegistry& others,
                              const std::function<HandlerFunction(HandlerFunction)>& wrap) {
  for (const auto& [topic, handler] : others.handlers_) {
    add(topic, wrap(handler->function), handler->options, handler.get());
  }
  if (!others.fallback_) return;
  add_fallback(wrap(others.fallback_->function), others.fallback_->options);
  fallback_->shared_limit = others.fallback_.get();
}

const RegisteredHandler* HandlerRegistry::find(std::string_view topic) const {
  const auto found = handlers_.find(topic);
  return found != handlers_.end() ? found->second.get() : fallback_.get();
}

std::vector<std::string> HandlerRegistry::topics() const {
  std::vector<std::string> topics;
  topics.reserve(handlers_.size());
  for (const auto& [topic, handler] : handlers_) topics.push_back(topic);
  return topics;
}

}  // namespace dovetail::runtime
