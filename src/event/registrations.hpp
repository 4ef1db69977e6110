// The subscriptions that users of this process have registered.
//
// Threads: from any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dovetail/error.hpp"
#include "dovetail/subscription.hpp"

namespace dovetail::event {

struct Registration {
  std::string name;
  SubscriptionOptions options;
  SubscriptionHandler handler;
};

class Registrations {
 public:
  /// Throws InvalidOperation if the name has a handler, or after close().
  void add(Registration registration) {
    const std::lock_guard lock(mutex_);
    if (closed_) throw InvalidOperation("the platform has been started: subscribe before");
    for (const auto& each : all_) {
      if (each->name == registration.name)
        throw InvalidOperation("the subscription " + each->name + " has a handler");
    }
    all_.push_back(std::make_shared<const Registration>(std::move(registration)));
  }

  /// Returns all subscriptions. No more can be added.
  [[nodiscard]] std::vector<std::shared_ptr<const Registration>> close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    return all_;
  }

 private:
  std::mutex mutex_;
  bool closed_ = false;
  std::vector<std::shared_ptr<const Registration>> all_;
};

}  // namespace dovetail::event
