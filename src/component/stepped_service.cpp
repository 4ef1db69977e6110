#include "component/stepped_service.hpp"

#include <algorithm>
#include <utility>

namespace dovetail::component {
namespace {

constexpr std::chrono::hours longest_wait{1};

}  // namespace

void SteppedService::start() {
  begin({});
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void SteppedService::request_stop() {
  thread_.request_stop();
  const std::lock_guard lock(mutex_);
  wakes_.notify_all();
}

bool SteppedService::stop(MonoTime /*deadline*/) {
  if (!thread_.joinable()) return true;
  SteppedService::request_stop();
  thread_ = {};  // joins
  end();
  return true;
}

void SteppedService::begin(Wake wake) {
  {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    running_ = true;
  }
  subscribe();
}

void SteppedService::end() {
  unsubscribe();
  const std::lock_guard lock(mutex_);
  wake_ = {};
  running_ = false;
}

void SteppedService::wake_by(MonoTime time) {
  const std::lock_guard lock(mutex_);
  if (wake_) return wake_(time);
  if (time >= wake_at_) return;
  wake_at_ = time;
  progress_.due_by(time);
  wakes_.notify_one();
}

void SteppedService::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      const std::lock_guard lock(mutex_);
      wake_at_ = MonoTime::max();
    }
    progress_.begin();
    const auto next = step(stop);
    std::unique_lock lock(mutex_);
    progress_.rest(std::min(next, wake_at_));
    while (!stop.stop_requested() && clock_.mono() < std::min(next, wake_at_)) {
      const auto longest = clock_.mono() + longest_wait;
      clock_.wait_until(wakes_, lock, std::min<MonoTime>({next, wake_at_, longest}));
    }
  }
  progress_.rest(MonoTime::max());
}

std::vector<Loop> SteppedService::loops() const {
  return {{name(), interval(), [this] { return progress_.look(); }}};
}

}  // namespace dovetail::component
