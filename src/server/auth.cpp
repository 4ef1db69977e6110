#include "server/auth.hpp"

#include <algorithm>

#include "server/client_network.hpp"
#include "server/crypto.hpp"
#include "server/problem.hpp"

namespace dovetail::server {
namespace {

constexpr std::string_view bearer = "bearer";
constexpr std::size_t failures_logged_per_minute = 20;
constexpr std::size_t most_of_name_logged = 100;

/// The token of the first Authorization header with the scheme Bearer.
std::optional<std::string_view> token_in(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    std::string_view text = value;
    const bool is_bearer =
        name == "authorization" && text.size() >= bearer.size() &&
        std::ranges::equal(text.substr(0, bearer.size()), bearer,
                           [](char given, char lower) { return (given | 0x20) == lower; });
    if (!is_bearer) continue;
    text.remove_prefix(bearer.size());
    if (!text.empty() && text.front() != ' ') continue;
    return text.substr(std::min(text.find_first_not_of(' '), text.size()));
  }
  return std::nullopt;
}

/// The value of our cookie.
std::optional<std::string> session_in(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (name != "cookie") continue;
    const std::string prefix = std::string{session_cookie} + "=";
    std::string_view rest = value;
    while (!rest.empty()) {
      const auto end = rest.find(';');
      auto part = rest.substr(0, end);
      part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
      if (part.starts_with(prefix)) return std::string{part.substr(prefix.size())};
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
  }
  return std::nullopt;
}

std::optional<Identity> owner_of(const std::vector<ServerToken>& tokens, std::string_view token) {
  const auto hash = sha256_hex(token);
  std::optional<Identity> owner;
  for (const auto& each : tokens) {  // all of them, so that the time tells nothing
    if (is_same_secret(each.sha256, hash)) owner = Identity{each.name, each.role, Proof::token};
  }
  return owner;
}

const ServerUser* user_named(const ServerAuth& auth, const std::string& name) {
  const auto found = std::ranges::find(auth.users, name, &ServerUser::name);
  return found == auth.users.end() ? nullptr : &*found;
}

/// Tells whether a password has changed. It is not the hash itself, which is a secret.
std::string mark_of(const ServerUser& user) {
  return sha256_hex(user.password_hash);
}

/// The user of the session, if the password is still the same.
const ServerUser* user_of(const ServerAuth& auth, const Session& session) {
  const auto* user = user_named(auth, session.user);
  return user != nullptr && mark_of(*user) == session.password_mark ? user : nullptr;
}

/// For unknown users: the answer takes as long as for others.
std::string hash_of_nobody(const ServerAuth& auth) {
  return auth.users.empty() ? std::string{} : auth.users.front().password_hash;
}

}  // namespace

Authenticator::Authenticator(ServerAuth auth, Logger log, Metrics metrics)
    : auth_(std::make_shared<const ServerAuth>(std::move(auth))),
      sessions_(auth_->session_lifetime),
      log_(std::move(log)),
      metrics_(std::move(metrics)),
      log_limit_(failures_logged_per_minute) {}

std::shared_ptr<const ServerAuth> Authenticator::known() const {
  const std::lock_guard lock(mutex_);
  return auth_;
}

void Authenticator::replace(ServerAuth auth) {
  const auto replacement = std::make_shared<const ServerAuth>(std::move(auth));
  {
    const std::lock_guard lock(mutex_);
    auth_ = replacement;
  }
  sessions_.keep([&](const Session& each) { return user_of(*replacement, each) != nullptr; });
}

std::optional<Identity> Authenticator::identify(const Headers& headers) {
  const auto auth = known();
  if (!auth->is_on()) return Identity{"local", ServerRole::admin, Proof::local};
  if (const auto token = token_in(headers)) return owner_of(auth->tokens, *token);
  const auto secret = session_in(headers);
  const auto session = secret ? sessions_.find(*secret) : std::nullopt;
  const auto* user = session ? user_of(*auth, *session) : nullptr;
  if (user == nullptr) return std::nullopt;
  return Identity{user->name, user->role, Proof::session};
}

std::string Authenticator::log_in(const Login& login) {
  const auto key = login.user + '\0' + client_network(login.peer);
  if (const auto wait = throttle_.wait_of(key); wait.count() > 0) {
    note_login("delayed");
    log_failure(login, "must wait after failures");
    throw Problem(429, "too many logins: try again in " + std::to_string(wait.count()) + " s",
                  wait);
  }
  const auto auth = known();
  const auto* user = user_named(*auth, login.user);
  const auto hash = user != nullptr ? user->password_hash : hash_of_nobody(*auth);
  if (!has_password(hash, login.password) || user == nullptr) {
    throttle_.note_failure(key);
    note_login("failed");
    log_failure(login, user != nullptr ? "wrong password" : "unknown user");
    throw Problem(401, "the user name or the password is wrong");
  }
  throttle_.note_success(key);
  note_login("ok");
  log_.write(LogLevel::info, "server.login", {{"user", user->name}, {"peer", login.peer}});
  return sessions_.begin({user->name, mark_of(*user)});
}

void Authenticator::note_login(const char* result) const {
  metrics_.count("dovetail_server_logins_total", 1, {{"result", result}});
}

void Authenticator::log_failure(const Login& login, const char* reason) {
  const auto suppressed = log_limit_.admit();
  if (!suppressed) return;
  log_.write(LogLevel::warn, "server.login_failed",
             {{"user", loggable(login.user, most_of_name_logged)},
              {"peer", login.peer},
              {"reason", reason},
              {"suppressed", *suppressed}});
}

void Authenticator::log_out(const Headers& headers) {
  if (const auto secret = session_in(headers)) sessions_.end(*secret);
}

}  // namespace dovetail::server
