#include "server/sessions.hpp"

#include <algorithm>

#include "server/crypto.hpp"

namespace dovetail::server {
namespace {

constexpr std::size_t max_sessions = 1'000;
constexpr std::size_t max_logins_remembered = 1'000;
constexpr int free_failures = 3;
constexpr int most_doublings = 6;  // 64 s
constexpr std::chrono::minutes memory_of_failures{15};

}  // namespace

std::string Sessions::begin(const Session& session) {
  auto secret = random_secret();
  const std::lock_guard lock(mutex_);
  remove_ended();
  if (by_hash_.size() >= max_sessions) {
    by_hash_.erase(std::ranges::min_element(by_hash_, {},
                                            [](const auto& each) { return each.second.ends_at; }));
  }
  by_hash_.emplace(sha256_hex(secret), Entry{session, Steady::now() + lifetime_});
  return secret;
}

std::optional<Session> Sessions::find(const std::string& secret) {
  const auto hash = sha256_hex(secret);
  const std::lock_guard lock(mutex_);
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end() || found->second.ends_at <= Steady::now()) return std::nullopt;
  return found->second.session;
}

void Sessions::end(const std::string& secret) {
  const auto hash = sha256_hex(secret);
  const std::lock_guard lock(mutex_);
  by_hash_.erase(hash);
}

void Sessions::keep(const std::function<bool(const Session&)>& is_good) {
  const std::lock_guard lock(mutex_);
  std::erase_if(by_hash_, [&](const auto& each) { return !is_good(each.second.session); });
}

void Sessions::remove_ended() {
  const auto now = Steady::now();
  std::erase_if(by_hash_, [&](const auto& each) { return each.second.ends_at <= now; });
}

std::chrono::seconds LoginThrottle::wait_of(const std::string& login) {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(login);
  if (found == failures_.end()) return std::chrono::seconds{0};
  const auto left = std::chrono::ceil<std::chrono::seconds>(found->second.next_at - Steady::now());
  return std::max(left, std::chrono::seconds{0});
}

void LoginThrottle::note_failure(const std::string& login) {
  const std::lock_guard lock(mutex_);
  if (failures_.size() >= max_logins_remembered && !failures_.contains(login)) {
    failures_.erase(std::ranges::min_element(failures_, {},
                                             [](const auto& each) { return each.second.next_at; }));
  }
  auto& entry = failures_[login];
  const auto now = Steady::now();
  if (now - std::max(entry.next_at, entry.last_at) > memory_of_failures) entry.count = 0;
  entry.last_at = now;
  ++entry.count;
  if (entry.count < free_failures) return;
  const int doublings = std::min(entry.count - free_failures, most_doublings);
  entry.next_at = now + std::chrono::seconds{1LL << doublings};
}

void LoginThrottle::note_success(const std::string& login) {
  const std::lock_guard lock(mutex_);
  failures_.erase(login);
}

}  // namespace dovetail::server
