// Subscriptions as a backend stores them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/subscription.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

struct SubscriptionOrder {
  std::string_view name;
  int parts = 1;
  const std::vector<std::string>& types;
  const std::vector<std::string>& prefixes;
  std::int64_t start = 0;
  std::string_view on_failure;
};

/// A part that this process has leased.
struct PartLease {
  std::string name{};
  int part = 0;
  std::int64_t epoch = 0;
  std::int64_t position = 0;
  int parts = 1;
  std::optional<std::int64_t> drain_to{};  ///< The part must not move beyond it.
  int attempts = 0;
  std::chrono::microseconds retry_in{0};  ///< After a failure.
  std::int64_t changes = 0;               ///< Changes by operators that it knows of.
};

/// Changes of a subscription by operators. If there are more than a lease knows of, its part must
/// be leased again.
struct SubscriptionChanges {
  std::string name{};
  std::int64_t changes = 0;
};

/// The move of a position.
struct PartMove {
  std::int64_t from = 0;
  std::int64_t to = 0;
  /// False: the transaction does nothing else, and may be lost in a crash. SQLite keeps it anyway.
  bool durable = true;
};

/// The kind that to_string() names.
[[nodiscard]] inline ParkedKind parked_kind_of(std::string_view word) {
  for (const auto kind : {ParkedKind::event, ParkedKind::stream}) {
    if (to_string(kind) == word) return kind;
  }
  return ParkedKind::skipped;
}

class SubscriptionStore {
 public:
  virtual ~SubscriptionStore() = default;

  /// Creates a subscription, or changes its filter and its parts.
  virtual bool create(WriteSession& session, const SubscriptionOrder& order) = 0;

  /// Returns nothing if the part is held, paused or stopped, or does not exist.
  virtual std::optional<PartLease> acquire(WriteSession& session, std::string_view name, int part,
                                           OwnerToken owner, std::chrono::microseconds lease) = 0;
  virtual bool renew(WriteSession& session, const PartLease& part,
                     std::chrono::microseconds lease) = 0;
  virtual bool release(WriteSession& session, const PartLease& part) = 0;

  // These return false, or nothing, if the part is not held any more.

  virtual bool advance(WriteSession& session, const PartLease& part, PartMove move) = 0;
  /// Returns the number of failed calls.
  virtual std::optional<int> fail(WriteSession& session, const PartLease& part,
                                  std::string_view error, std::chrono::microseconds retry_in,
                                  bool stop) = 0;
  /// Parks the event at `move.to`, or its stream.
  virtual bool park(WriteSession& session, const PartLease& part, PartMove move, ParkedKind kind,
                    std::string_view error) = 0;
  /// The parked stream continues behind `version`; absent: the parked event or stream is done.
  virtual bool move_parked(WriteSession& session, const PartLease& part, std::int64_t position,
                           std::optional<std::int64_t> version) = 0;

  /// The resumed event or stream at `position` is parked again: its event at `failed` has failed.
  virtual bool fail_parked(WriteSession& session, const PartLease& part, std::int64_t position,
                           std::int64_t failed, std::string_view error) = 0;
  virtual std::vector<SubscriptionChanges> changes(ReadSession& session) = 0;
  /// Parked and skipped events; of one part of `parts`, or of all (parts = 1).
  virtual std::vector<ParkedEvent> parked(ReadSession& session, std::string_view name, int parts,
                                          int part) = 0;

  virtual std::vector<SubscriptionStatus> list(ReadSession& session,
                                               std::optional<std::string_view> name) = 0;
  virtual std::vector<SubscriptionPart> parts(ReadSession& session, std::string_view name) = 0;
  virtual bool pause(WriteSession& session, std::string_view name) = 0;
  virtual bool resume(WriteSession& session, std::string_view name) = 0;
  virtual std::size_t resume_parked(WriteSession& session, std::string_view name,
                                    std::optional<std::string_view> stream) = 0;
  virtual bool skip(WriteSession& session, std::string_view name, std::int64_t position) = 0;
  virtual bool rebuild(WriteSession& session, std::string_view name, std::int64_t position) = 0;
  virtual bool remove(WriteSession& session, std::string_view name) = 0;
};

}  // namespace dovetail::storage
