// Tells the workers of this process that there may be something to do. A hint: polling is the
// truth.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

namespace dovetail::storage {

class Doorbell {
 public:
  /// Listens until it is destroyed; ends only when no call of it is under way any more.
  class Subscription {
   public:
    Subscription(Doorbell& bell, std::function<void()> on_ring) : bell_(bell) {
      std::lock_guard lock(bell_.mutex_);
      entry_ = bell_.listeners_.insert(bell_.listeners_.end(), std::move(on_ring));
      bell_.count_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Subscription() {
      std::lock_guard lock(bell_.mutex_);
      bell_.listeners_.erase(entry_);
      bell_.count_.fetch_sub(1, std::memory_order_relaxed);
    }
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

   private:
    Doorbell& bell_;
    std::list<std::function<void()>>::iterator entry_;
  };

  void ring() {
    if (count_.load(std::memory_order_relaxed) == 0) return;
    std::lock_guard lock(mutex_);
    for (const auto& listener : listeners_) listener();
  }

 private:
  std::mutex mutex_;
  std::list<std::function<void()>> listeners_;
  std::atomic<int> count_{0};
};

}  // namespace dovetail::storage
