#include "server/auth.hpp"

#include <algorithm>

#include "server/crypto.hpp"
#include "server/problem.hpp"

namespace dovetail::server {
namespace {

constexpr std::string_view bearer = "bearer ";

/// The token of an Authorization header; empty if it has another scheme.
std::string_view token_in(std::string_view header) {
  const bool is_bearer =
      header.size() > bearer.size() &&
      std::ranges::equal(header.substr(0, bearer.size()), bearer,
                         [](char given, char lower) { return (given | 0x20) == lower; });
  if (!is_bearer) return {};
  header.remove_prefix(bearer.size());
  const auto begin = header.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view{} : header.substr(begin);
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

/// For unknown users: the answer takes as long as for others.
std::string hash_of_nobody(const ServerAuth& auth) {
  return auth.users.empty() ? std::string{} : auth.users.front().password_hash;
}

}  // namespace

Authenticator::Authenticator(ServerAuth auth)
    : auth_(std::make_shared<const ServerAuth>(std::move(auth))),
      sessions_(auth_->session_lifetime) {}

std::shared_ptr<const ServerAuth> Authenticator::known() const {
  const std::lock_guard lock(mutex_);
  return auth_;
}

void Authenticator::replace(ServerAuth auth) {
  auto replacement = std::make_shared<const ServerAuth>(std::move(auth));
  const std::lock_guard lock(mutex_);
  auth_ = std::move(replacement);
}

std::optional<Identity> Authenticator::identify(const Headers& headers) {
  const auto auth = known();
  if (!auth->is_on()) return Identity{"local", ServerRole::admin, Proof::local};
  if (const auto header = find_header(headers, "authorization"))
    return owner_of(auth->tokens, token_in(*header));
  const auto secret = session_in(headers);
  const auto session = secret ? sessions_.find(*secret) : std::nullopt;
  const auto* user = session ? user_named(*auth, session->name) : nullptr;
  if (user == nullptr) return std::nullopt;
  return Identity{user->name, user->role, Proof::session};
}

std::string Authenticator::log_in(const Login& login) {
  const auto key = login.user + '\0' + login.peer;
  const std::unique_lock lock(checking_, std::try_to_lock);
  const auto wait = throttle_.wait_of(key);
  if (!lock || wait.count() > 0) {
    throw Problem(429, "too many logins: try again in " +
                           std::to_string(std::max<std::int64_t>(wait.count(), 1)) + " s");
  }
  const auto auth = known();
  const auto* user = user_named(*auth, login.user);
  const auto hash = user != nullptr ? user->password_hash : hash_of_nobody(*auth);
  if (!has_password(hash, login.password) || user == nullptr) {
    throttle_.note_failure(key);
    throw Problem(401, "the user name or the password is wrong");
  }
  throttle_.note_success(key);
  return sessions_.begin({user->name, user->role, Proof::session});
}

void Authenticator::log_out(const Headers& headers) {
  if (const auto secret = session_in(headers)) sessions_.end(*secret);
}

}  // namespace dovetail::server
