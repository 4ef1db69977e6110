// Who sent a request: tokens, users, sessions.
//
// Threads: may be shared between threads.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/request.hpp"
#include "server/sessions.hpp"

namespace dovetail::server {

inline constexpr const char* session_cookie = "dovetail_session";

class Authenticator {
 public:
  explicit Authenticator(ServerAuth auth);

  [[nodiscard]] bool is_on() const { return known()->is_on(); }
  /// Tokens and users from now on. Sessions of users who remain go on, with their new roles.
  void replace(ServerAuth auth);
  /// The caller, by its token or its session. Nothing if it has none or a wrong one. A wrong token
  /// is not made good by a session.
  [[nodiscard]] std::optional<Identity> identify(const Headers& headers);

  struct Login {
    std::string user{};
    std::string password{};
    std::string peer{};
  };
  /// Begins a session and returns its secret. Throws Problem 401 for a wrong name or password, and
  /// 429 while the login must wait.
  [[nodiscard]] std::string log_in(const Login& login);
  /// Ends the session of these headers, if there is one.
  void log_out(const Headers& headers);
  [[nodiscard]] std::chrono::seconds session_lifetime() const { return sessions_.lifetime(); }

 private:
  [[nodiscard]] std::shared_ptr<const ServerAuth> known() const;

  mutable std::mutex mutex_;
  std::shared_ptr<const ServerAuth> auth_;  ///< Under mutex_.
  Sessions sessions_;
  LoginThrottle throttle_;
  std::mutex checking_;  ///< One password at a time: guessing does not use up all threads.
};

}  // namespace dovetail::server
