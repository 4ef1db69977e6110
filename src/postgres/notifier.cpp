#include "postgres/notifier.hpp"

#include <chrono>
#include <exception>

namespace dovetail::postgres {
namespace {

constexpr std::chrono::milliseconds spacing{5};
constexpr std::chrono::milliseconds quiet_time{20};
constexpr std::chrono::milliseconds closing_patience{1'000};

}  // namespace

Notifier::~Notifier() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, closing_patience, [this] { return !pending_ && !sending_; });
}

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
  changed_.notify_all();
}

void Notifier::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return pending_; })) {
    pending_ = false;
    sending_ = true;
    lock.unlock();
    try_to_send(stop);
    lock.lock();
    sending_ = false;
    last_ = std::chrono::steady_clock::now();
    changed_.notify_all();
    changed_.wait_for(lock, stop, spacing, [] { return false; });
  }
}

/// Logs the first of several failures in a row.
void Notifier::try_to_send(const std::stop_token& stop) {
  try {
    send_(stop);
    failing_ = false;
  } catch (const std::exception& error) {
    if (stop.stop_requested() || std::exchange(failing_, true)) return;
    log_.write(LogLevel::warn, "storage.announce_failed",
               {{"store", store_}, {"error", error.what()}});
  }
}

}  // namespace dovetail::postgres
