// Logins and sessions. They live in this process: a restart ends them.
//
// Threads: may be shared between threads.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "server/request.hpp"

namespace dovetail::server {

struct Session {
  std::string user{};
  std::string password_mark{};  ///< Of the password with which the session began: mark_of().
};

class Sessions {
 public:
  explicit Sessions(std::chrono::seconds lifetime) : lifetime_(lifetime) {}

  /// Returns the secret of a new session. When there are too many, the oldest one ends.
  [[nodiscard]] std::string begin(const Session& session);
  [[nodiscard]] std::optional<Session> find(const std::string& secret);
  void end(const std::string& secret);
  /// Ends the sessions for which `is_good` is false.
  void keep(const std::function<bool(const Session&)>& is_good);
  [[nodiscard]] std::chrono::seconds lifetime() const { return lifetime_; }

 private:
  using Steady = std::chrono::steady_clock;
  struct Entry {
    Session session;
    Steady::time_point ends_at;
  };
  void remove_ended();

  const std::chrono::seconds lifetime_;
  std::mutex mutex_;
  std::map<std::string, Entry> by_hash_;  ///< By the SHA-256 of the secret.
};

/// Slows down the guessing of passwords: after a few failures, a user name must wait at each
/// address, for twice as long after each further failure. Attempts while it must wait count not, so
/// that the right password is accepted after the wait. A pause without failures ends the memory.
class LoginThrottle {
 public:
  /// How long this login must still wait. Zero: it may be tried.
  [[nodiscard]] std::chrono::seconds wait_of(const std::string& login);
  void note_failure(const std::string& login);
  void note_success(const std::string& login);

 private:
  using Steady = std::chrono::steady_clock;
  struct Failures {
    int count = 0;
    Steady::time_point next_at{};
    Steady::time_point last_at{};
  };
  std::mutex mutex_;
  std::map<std::string, Failures> failures_;
};

}  // namespace dovetail::server
