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

Notifier::State& Notifier::state_of(std::string_view queue) {
  const auto found = states_.find(queue);
  return found != states_.end() ? found->second : states_[std::string{queue}];
}

bool Notifier::take_turn(std::string_view queue) {
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  auto& state = state_of(queue);
  if (state.pending || now - state.last < quiet_time) return false;
  state.last = now;
  return true;
}

void Notifier::announce(std::string_view queue) {
  std::lock_guard lock(mutex_);
  if (std::exchange(state_of(queue).pending, true)) return;
  pending_ = true;
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  changed_.notify_all();
}

Notifier::Queues Notifier::take_pending() {
  Queues queues;
  for (auto& [queue, state] : states_) {
    if (std::exchange(state.pending, false)) queues.push_back(queue);
  }
  pending_ = false;
  return queues;
}

void Notifier::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return pending_; })) {
    const auto queues = take_pending();
    sending_ = true;
    lock.unlock();
    try_to_send(queues, stop);
    lock.lock();
    sending_ = false;
    for (const auto& queue : queues) state_of(queue).last = std::chrono::steady_clock::now();
    changed_.notify_all();
    changed_.wait_for(lock, stop, spacing, [] { return false; });
  }
}

/// Logs the first of several failures in a row.
void Notifier::try_to_send(const Queues& queues, const std::stop_token& stop) {
  try {
    send_(queues, stop);
    failing_ = false;
  } catch (const std::exception& error) {
    if (stop.stop_requested() || std::exchange(failing_, true)) return;
    log_.write(LogLevel::warn, "storage.announce_failed",
               {{"store", store_}, {"error", error.what()}});
  }
}

}  // namespace dovetail::postgres
