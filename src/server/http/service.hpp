// What the HTTP layer asks of the server above it.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "server/request.hpp"

namespace dovetail::server::http {

class Service {
 public:
  virtual ~Service() = default;
  /// Decides about a request before its body is read: returns the request to go on with, or the
  /// answer that refuses it. Called by the thread of the connections; does not block.
  [[nodiscard]] virtual std::variant<Request, Response> admit(RequestHead head) = 0;
  /// Answers an admitted request. Calls `reply` at most once, from any thread.
  virtual void handle(Request request, std::function<void(Response)> reply) = 0;
  /// The answer to a client that violates the protocol or a limit.
  [[nodiscard]] virtual Response refuse(int status, const std::string& detail) = 0;
};

}  // namespace dovetail::server::http
