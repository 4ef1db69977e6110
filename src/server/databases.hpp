// The databases that the server answers for: one Platform, or those of a group.
//
// Threads: may be shared between threads.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dovetail/group.hpp"
#include "dovetail/platform.hpp"

namespace dovetail::server {

class Databases {
 public:
  explicit Databases(Platform& platform) : platform_(&platform) {}
  explicit Databases(PlatformGroup& group) : group_(&group) {}

  [[nodiscard]] bool is_group() const { return group_ != nullptr; }
  [[nodiscard]] PlatformGroup* group() const { return group_; }
  [[nodiscard]] HealthService& health() const {
    return is_group() ? group_->health() : platform_->health();
  }
  /// The keys of the group in its order; for one Platform, its name.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Opens a database of a group if necessary, and then throws like Platform::open(). Null for an
  /// unknown key. An empty key means the only database; it is unknown in a group of several.
  [[nodiscard]] std::shared_ptr<Platform> find(const std::string& key) const;
  /// See Platform::sample() and Platform::metrics().
  [[nodiscard]] std::shared_ptr<const Sample> sample(std::chrono::milliseconds max_age) const;
  [[nodiscard]] MetricsSnapshot metrics() const;

 private:
  Platform* platform_ = nullptr;
  PlatformGroup* group_ = nullptr;
};

}  // namespace dovetail::server
