// Selection strategies: from which database of a group the next batch of messages is claimed.
//
//   dovetail::PlatformGroup group({.selection = dovetail::drain_first()});
//
// A group asks its strategy whenever it could claim a batch. Only databases that are due for a
// claim are offered. Databases that are down, or that have not answered the claim before, are not:
// they cannot delay the others.
//
// To write a strategy, derive from SelectionStrategy. Results of handlers are stored without asking
// it.
//
// A strategy that throws is logged (`group.strategy_failed`) and asked again; meanwhile nothing is
// claimed. A strategy must not call its group.
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
  /// False: this process holds as many of its messages as it may. A claim has to wait until
  /// handlers have ended.
  bool has_room = true;
  /// How long the database has been due.
  std::chrono::milliseconds waiting{};
};

/// The claim before.
struct LastSelection {
  std::string_view key{};
  std::size_t claimed = 0;  ///< How many messages it returned.
};

class SelectionStrategy {
 public:
  virtual ~SelectionStrategy() = default;

  /// Returns the index of the database to claim from; its `has_room` must be true. Returns nothing
  /// to claim from none now: the group asks again when a handler ends or another database is due.
  ///
  /// `stores` is in the order of the group: the order of add(), then the order of the discovery. It
  /// is never empty. `last` is absent in the beginning and after reset().
  virtual std::optional<std::size_t> next(std::span<const SelectableStore> stores,
                                          const std::optional<LastSelection>& last) = 0;

  /// The list of databases has changed.
  virtual void reset() {}
};

/// One batch from each database, in the order of the group. Databases without room are passed over.
/// The default.
[[nodiscard]] std::shared_ptr<SelectionStrategy> round_robin();

/// The same database until a claim returns no message, then the next one. While the database has no
/// room, no other is claimed from.
[[nodiscard]] std::shared_ptr<SelectionStrategy> drain_first();

/// The database from which the fewest messages were claimed lately, so that one busy database
/// cannot starve the others. Databases that have waited long go first among equals.
[[nodiscard]] std::shared_ptr<SelectionStrategy> fair();

}  // namespace dovetail
