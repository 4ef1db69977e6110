// Turns the forms in which users give handlers into functions of the registry.
#pragma once

#include <memory>
#include <utility>

#include "dovetail/handler.hpp"

namespace dovetail::runtime {

/// Calls handle(). The handler must not be null.
[[nodiscard]] inline HandlerFunction function_of(std::shared_ptr<Handler> handler) {
  return [handler = std::move(handler)](const Message& message, HandlerContext& context) {
    handler->handle(message, context);
  };
}

/// Gives the function the message as the inbox shows it. Empty for an empty function.
[[nodiscard]] inline HandlerFunction function_of(InboxHandlerFunction function) {
  if (!function) return {};
  return [function = std::move(function)](const Message& message, HandlerContext& context) {
    function(InboxMessage::from(message), context);
  };
}

}  // namespace dovetail::runtime
