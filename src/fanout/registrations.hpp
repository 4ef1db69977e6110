// The fan-outs that this process has added.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "dovetail/error.hpp"
#include "dovetail/fanout.hpp"

namespace dovetail {

struct Fanout::Registration {
  FanoutRequest request;
  FanoutPlannerFunction planner;
  bool has_handler = false;
  bool is_stored = false;  ///< Its cadence and its job are in the database.
};

struct Fanout::Registrations {
  /// Returns the registration of this name. Throws InvalidOperation if it is stored already.
  /// Replaces a registration that could not be stored, so that add() can be retried.
  std::shared_ptr<Registration> reserve(const std::string& name, const FanoutRequest& request,
                                        FanoutPlannerFunction planner) {
    const std::lock_guard lock(mutex_);
    auto& entry = by_name_[name];
    if (!entry) entry = std::make_shared<Registration>();
    if (entry->is_stored) throw InvalidOperation("the fan-out " + name + " was added before");
    entry->request = request;
    entry->planner = std::move(planner);
    return entry;
  }

  std::mutex handlers_mutex;  ///< Guards the function that adds handlers.

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Registration>> by_name_;
};

}  // namespace dovetail
