#include "server/login_queue.hpp"

#include <utility>

namespace dovetail::server {

bool LoginQueue::try_run(const std::string& peer, std::function<void(bool in_time)> login) {
  using Steady = std::chrono::steady_clock;
  if (!try_enter(peer)) return false;
  const auto deadline = Steady::now() + max_wait_;
  const bool accepted = thread_.try_run([this, peer, deadline, login = std::move(login)] {
    login(Steady::now() < deadline);
    leave(peer);
  });
  if (!accepted) leave(peer);
  return accepted;
}

bool LoginQueue::try_enter(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  auto& places = by_peer_[peer];
  if (places >= max_of_peer) return false;
  ++places;
  return true;
}

void LoginQueue::leave(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  const auto found = by_peer_.find(peer);
  if (--found->second == 0) by_peer_.erase(found);
}

}  // namespace dovetail::server
