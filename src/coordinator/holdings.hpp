// The leases that this process has, for metrics and for a clean end. The database decides who holds
// what.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/owner_process.hpp"
#include "dovetail/clock.hpp"
#include "dovetail/work.hpp"

namespace dovetail::coordinator {

class Holdings {
 public:
  explicit Holdings(const Clock& clock) : clock_(clock) {}

  /// Notes the end of the batch's results, and the new leases. Returns how many streams were
  /// claimed although an earlier claim of the same instance is neither settled nor expired: a
  /// violation of the order, which must not happen.
  std::size_t note(InstanceId instance, const WorkBatch& batch, const WorkResult& result,
                   std::chrono::milliseconds lease);
  /// The number of messages held.
  [[nodiscard]] std::size_t held() const;

  /// Remembers that an instance takes part, so that it can leave at the end.
  void join(InstanceId instance);
  /// Forgets an instance and its leases. Returns whether it had joined.
  bool forget(InstanceId instance);
  /// The instances that have joined or hold leases. None in a forked child, whose parent is the
  /// instance.
  [[nodiscard]] std::vector<InstanceId> instances() const;
  /// Releases of everything that an instance holds.
  [[nodiscard]] std::vector<WorkRelease> releases_of(InstanceId instance) const;

 private:
  using Key = std::pair<WorkKind, MessageId>;
  struct Holding {
    InstanceId instance;
    std::string stream;  // empty: none
    std::int64_t epoch = 0;
    MonoTime until;
  };
  using StreamKey = std::pair<WorkKind, std::string>;

  void drop_expired(MonoTime now);
  void end(WorkKind queue, const MessageId& id) { held_.erase({queue, id}); }

  const core::OwnerProcess process_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::map<Key, Holding> held_;
  std::set<InstanceId> joined_;
};

}  // namespace dovetail::coordinator
