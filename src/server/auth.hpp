// Who sent a request: tokens, users, sessions.
//
// Threads: may be shared between threads.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "server/log_limit.hpp"
#include "server/request.hpp"
#include "server/sessions.hpp"

namespace dovetail::server {

inline constexpr const char* session_cookie = "dovetail_session";

class Authenticator {
 public:
  explicit Authenticator(ServerAuth auth, Logger log = Logger{}, Metrics metrics = Metrics{});

  [[nodiscard]] bool is_on() const { return known()->is_on(); }
  /// Tokens and users from now on. Sessions of users who remain go on, with their new roles, unless
  /// their passwords have changed.
  void replace(ServerAuth auth);
  /// The caller, by its token or its session. Nothing if it has none or a wrong one. A wrong token
  /// is not made good by a session. An Authorization header of another scheme is ignored: it may be
  /// meant for a reverse proxy.
  [[nodiscard]] std::optional<Identity> identify(const Headers& headers);

  struct Login {
    std::string user{};
    std::string password{};
    std::string peer{};
  };
  /// Begins a session and returns its secret. Throws Problem 401 for a wrong name or password, and
  /// 429 while the login must wait. Failures are logged, within limits.
  [[nodiscard]] std::string log_in(const Login& login);
  /// Counts a login that was refused because too many wait.
  void note_busy() const { note_login("busy"); }
  /// Ends the session of these headers, if there is one.
  void log_out(const Headers& headers);
  [[nodiscard]] std::chrono::seconds session_lifetime() const { return sessions_.lifetime(); }

 private:
  [[nodiscard]] std::shared_ptr<const ServerAuth> known() const;
  void note_login(const char* result) const;
  void log_failure(const Login& login, const char* reason);

  mutable std::mutex mutex_;
  std::shared_ptr<const ServerAuth> auth_;  ///< Under mutex_.
  Sessions sessions_;
  LoginThrottle throttle_;
  Logger log_;
  Metrics metrics_;
  LogLimit log_limit_;
};

}  // namespace dovetail::server
