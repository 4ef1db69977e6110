// Tells the workers of this process that messages of their queue may be due. It is a hint: workers
// that miss it find the messages by polling.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::storage {

class Doorbell {
 public:
  /// Listens until it is destroyed. The destructor waits for a call in progress.
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

/// A bell for each queue.
class Doorbells {
 public:
  /// The bell of `queue`. It exists from the first call on.
  [[nodiscard]] Doorbell& of(std::string_view queue) {
    const std::lock_guard lock(mutex_);
    const auto found = bells_.find(queue);
    return found != bells_.end() ? found->second : bells_[std::string{queue}];
  }
  /// Does nothing if no one has listened to this queue yet.
  void ring(std::string_view queue) {
    Doorbell* bell = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = bells_.find(queue); found != bells_.end()) bell = &found->second;
    }
    if (bell != nullptr) bell->ring();
  }
  void ring_all() {
    std::vector<Doorbell*> all;
    {
      const std::lock_guard lock(mutex_);
      for (auto& [queue, bell] : bells_) all.push_back(&bell);
    }
    for (auto* bell : all) bell->ring();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Doorbell, std::less<>> bells_;
};

}  // namespace dovetail::storage
