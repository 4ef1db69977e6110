// Decides about each request with the table of routes, and calls the handlers.
//
// Threads: admit() is called by the thread of the connections; the rest may be shared.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dovetail/log.hpp"
#include "server/answer_cache.hpp"
#include "server/auth.hpp"
#include "server/http/service.hpp"
#include "server/log_limit.hpp"
#include "server/login_queue.hpp"
#include "server/problem.hpp"
#include "server/request_threads.hpp"
#include "server/route_table.hpp"

namespace dovetail::server {

class Router final : public http::Service {
 public:
  /// The arguments must outlive it.
  Router(const RouteTable& routes, const ServerOptions& options, Authenticator& auth, Logger log);

  /// From now on; may be called by any thread.
  void allow_hosts(std::vector<std::string> hosts);

  [[nodiscard]] std::variant<Request, Response> admit(RequestHead head) override;
  void handle(Request request, std::function<void(Response)> reply) override;
  [[nodiscard]] Response refuse(int status, const std::string& detail) override;

 private:
  /// Throws Problem if the caller may not use the route.
  void require_access(const Request& request) const;
  void require_changes_are_allowed(const Route& route) const;
  void require_rules_of_changes(const Request& request) const;
  void require_host(std::string_view host) const;
  /// Within limits: a client must not fill the disk.
  void log_refusal(const Problem& refusal, const Request& request, std::string_view target) const;
  void handle_login(Request request, const std::function<void(Response)>& reply);
  [[nodiscard]] RequestThreads& threads_of(Capacity capacity);
  /// The answer of the route's handler, or to what it throws.
  [[nodiscard]] Response answer(const Request& request);
  [[nodiscard]] Response handled(const Request& request);

  const RouteTable& routes_;
  const ServerOptions& options_;
  Authenticator& auth_;
  const std::vector<std::string> base_;  ///< The segments of the base path.
  Logger log_;
  mutable std::mutex mutex_;
  std::vector<std::string> allowed_hosts_;  ///< Under mutex_.
  AnswerCache answers_;
  RequestThreads shared_;
  RequestThreads health_;
  RequestThreads metrics_;
  mutable LogLimit refusals_;
  LoginQueue logins_;
};

}  // namespace dovetail::server
