// The Platforms that group[key] has returned, after their databases have left the group.
//
// A caller may still hold a reference. So the objects live as long as the group; they are small,
// and their calls throw InvalidOperation. The database behind a Platform is kept for some time, so
// that calls under way can end. Then it is released, so that memory does not grow with the number
// of changes.
//
// Threads: the caller's lock guards it.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "dovetail/clock.hpp"
#include "runtime/open.hpp"

namespace dovetail::group {

class RetiredPlatforms {
 public:
  /// `keep`: how long a database is kept.
  explicit RetiredPlatforms(MonoDuration keep) : keep_(keep) {}

  /// From now on, calls of the Platform throw InvalidOperation.
  void add(std::shared_ptr<Platform> platform, MonoTime now);
  /// Removes the databases whose time is over. The caller releases them without its lock.
  [[nodiscard]] std::vector<std::shared_ptr<runtime::Node>> take_expired(MonoTime now);

 private:
  struct Kept {
    std::shared_ptr<Platform> platform;
    MonoTime until;
  };

  const MonoDuration keep_;
  std::deque<Kept> kept_;  // with their databases, the oldest first
  std::vector<std::shared_ptr<Platform>> empty_;
};

}  // namespace dovetail::group
