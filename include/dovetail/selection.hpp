// Selection strategies: from which database of a group the next batch of messages is claimed.
//
//   dovetail::PlatformGroup group({.selection = dovetail::drain_first()});
//
// A group asks its strategy whenever it can claim a batch. It offers the databases that are due for
// a claim. It does not offer databases that are down or whose last claim hangs: they cannot delay
// the others.
//
// To write a strategy, derive from SelectionStrategy. The group stores the results of handlers
// without asking it.
//
// When a strategy throws, the group logs the error (`group.strategy_failed`), claims nothing, and
// asks again soon. A strategy must not call its group.
//
// Threads: the group calls its strategy from one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dovetail {

/// A database that is due for a claim.
struct SelectableStore {
  std::string_view key{};  ///< Its key in the group. Valid during the call.
  /// False: this process already holds the maximum number of its messages. A claim has to wait
  /// until handlers have ended.
  bool has_room = true;
  /// How long the database has been due.
  std::chrono::milliseconds waiting{};
};

/// The previous claim.
struct LastSelection {
  std::string_view key{};
  std::size_t claimed = 0;  ///< How many messages it returned.
};

class SelectionStrategy {
 public:
  virtual ~SelectionStrategy() = default;

  /// Returns the index of the database to claim from; its `has_room` must be true. Returns nullopt
  /// when the group must not claim now: it asks again when a handler ends or another database is
  /// due.
  ///
  /// `stores` is in the order of the group: the order of add(), then the order of the discovery. It
  /// is never empty. `last` is absent at the first call and after reset().
  virtual std::optional<std::size_t> next(std::span<const SelectableStore> stores,
                                          const std::optional<LastSelection>& last) = 0;

  /// The list of databases has changed.
  virtual void reset() {}
};

/// One batch from each database, in the order of the group. Databases without room are skipped.
/// The default.
[[nodiscard]] std::shared_ptr<SelectionStrategy> round_robin();

/// The same database until a claim returns no message, then the next one. While the database has no
/// room, the group claims from no other.
[[nodiscard]] std::shared_ptr<SelectionStrategy> drain_first();

/// The database from which the fewest messages were claimed lately, so that one busy database
/// cannot starve the others. Among equals, the database that has waited longest is next.
[[nodiscard]] std::shared_ptr<SelectionStrategy> fair();

}  // namespace dovetail
