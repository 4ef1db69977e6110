// Converts the kinds of handlers that users register into functions of the registry.
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

/// Passes the message as an InboxMessage. Returns an empty function for an empty one.
[[nodiscard]] inline HandlerFunction function_of(InboxHandlerFunction function) {
  if (!function) return {};
  return [function = std::move(function)](const Message& message, HandlerContext& context) {
    function(InboxMessage::from(message), context);
  };
}

}  // namespace dovetail::runtime
