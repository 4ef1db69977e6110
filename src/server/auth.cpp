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

/// A hash of the same method as those of the users, which no password has.
std::string hash_of_nobody(const std::vector<ServerUser>& users) {
  return users.empty() ? std::string{} : users.front().password_hash;
}

}  // namespace

Authenticator::Authenticator(ServerAuth auth)
    : auth_(std::move(auth)),
      no_user_hash_(hash_of_nobody(auth_.users)),
      sessions_(auth_.session_lifetime) {}

std::optional<Identity> Authenticator::identify(const Headers& headers) {
  if (!is_on()) return Identity{"local", ServerRole::admin, Proof::local};
  if (const auto header = find_header(headers, "authorization")) return owner_of(token_in(*header));
  const auto secret = session_in(headers);
  return secret ? sessions_.find(*secret) : std::nullopt;
}

std::optional<Identity> Authenticator::owner_of(std::string_view token) const {
  const auto hash = sha256_hex(token);
  std::optional<Identity> owner;
  for (const auto& each : auth_.tokens) {  // all of them, so that the time tells nothing
    if (is_same_secret(each.sha256, hash)) owner = Identity{each.name, each.role, Proof::token};
  }
  return owner;
}

std::string Authenticator::log_in(const Login& login) {
  const auto key = login.user + '\0' + login.peer;
  const std::unique_lock lock(checking_, std::try_to_lock);
  const auto wait = throttle_.wait_of(key);
  if (!lock || wait.count() > 0) {
    throw Problem(429, "too many logins: try again in " +
                           std::to_string(std::max<std::int64_t>(wait.count(), 1)) + " s");
  }
  const auto user = std::ranges::find(auth_.users, login.user, &ServerUser::name);
  const bool is_known = user != auth_.users.end();
  const bool matches = has_password(is_known ? user->password_hash : no_user_hash_, login.password);
  if (!is_known || !matches) {
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
