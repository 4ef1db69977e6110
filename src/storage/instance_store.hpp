// The table of instances as a backend stores it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/instance.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

/// The row that a process writes about itself.
struct InstanceEntry {
  InstanceId id;
  std::string host;
  std::int64_t pid = 0;
  std::string version;
  std::string handlers;                ///< As handlers_json() writes them.
  std::optional<WallTime> started_at;  ///< Absent: it is being registered.
};

class InstanceStore {
 public:
  virtual ~InstanceStore() = default;

  /// Inserts the row, or renews its heartbeat and state; returns the time when it was registered.
  virtual WallTime beat(WriteSession& session, const InstanceEntry& entry, InstanceState state) = 0;
  virtual void remove(WriteSession& session, InstanceId id) = 0;
  /// Deletes up to `most` without a heartbeat for `age`; returns how many it deleted.
  virtual std::size_t purge(WriteSession& session, std::chrono::microseconds age, int most) = 0;
  /// In the order of their starts.
  virtual std::vector<InstanceInfo> list(ReadSession& session, int most) = 0;
};

/// `{"outbox":{"topics":["email.send"],"all_topics":false}}`
[[nodiscard]] std::string handlers_json(const std::vector<InstanceQueue>& queues);
/// Ignores members that handlers_json() does not write.
[[nodiscard]] std::vector<InstanceQueue> queues_from_json(std::string_view json);
/// The state of this name. Throws InvalidOperation for any other name.
[[nodiscard]] InstanceState instance_state(std::string_view name);

}  // namespace dovetail::storage
