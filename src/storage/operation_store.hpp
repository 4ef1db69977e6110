// The audit and the replays as a backend stores them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "dovetail/audit.hpp"
#include "dovetail/replay.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

class AuditStore {
 public:
  virtual ~AuditStore() = default;

  virtual void record(WriteSession& session, const AuditRecord& record) = 0;
  virtual std::vector<AuditEntry> list(ReadSession& session, const AuditPage& page) = 0;
  /// Deletes up to `most` entries that are older than `age`; returns how many it deleted.
  virtual std::size_t purge(WriteSession& session, std::chrono::microseconds age, int most) = 0;
};

/// What a transaction of a replay has done.
struct ReplayProgress {
  std::int64_t examined = 0;
  std::int64_t changed = 0;
};

class ReplayStore {
 public:
  virtual ~ReplayStore() = default;

  /// Stores a running replay. Returns the time of its start.
  virtual WallTime add(WriteSession& session, ReplayId id, const ReplayRequest& request) = 0;
  /// Adds to the counts and locks the row. Returns false when the replay does not run any more.
  virtual bool advance(WriteSession& session, ReplayId id, const ReplayProgress& progress) = 0;
  /// Ends a running replay. Returns false when it does not run.
  virtual bool finish(WriteSession& session, ReplayId id, ReplayState state,
                      std::string_view failure) = 0;
  virtual std::optional<Replay> find(ReadSession& session, ReplayId id) = 0;
  virtual std::vector<Replay> list(ReadSession& session, const ReplayPage& page) = 0;
  /// Deletes up to `most` replays that have not been running for `age`; returns how many.
  virtual std::size_t purge(WriteSession& session, std::chrono::microseconds age, int most) = 0;
};

/// The kind and the state of these names. They throw InvalidOperation for any other name.
[[nodiscard]] ReplayKind replay_kind(std::string_view name);
[[nodiscard]] ReplayState replay_state(std::string_view name);

}  // namespace dovetail::storage
