#include "postgres/notifier.hpp"

#include <chrono>
#include <exception>

namespace dovetail::postgres {
namespace {

constexpr std::chrono::milliseconds spacing{5};
constexpr std::chrono::milliseconds quiet_time{20};

}  // namespace

bool Notifier::take_turn() {
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  if (pending_ || now - last_ < quiet_time) return false;
  last_ = now;
  return true;
}

void Notifier::announce() {
  std::lock_guard lock(mutex_);
  if (pending_) return;
  pending_ = true;
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  changed_.notify_one();
}

void Notifier::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return pending_; })) {
    pending_ = false;
    lock.unlock();
    try {
      send_(stop);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a hint that got lost; workers poll
    }
    lock.lock();
    last_ = std::chrono::steady_clock::now();
    changed_.wait_for(lock, stop, spacing, [] { return false; });
  }
}

}  // namespace dovetail::postgres
