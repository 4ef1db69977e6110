// Watchers learn of messages that end or are replayed, in the same transaction.
//
// A component that has to act on a message's end implements QueueWatcher. The database adds it to
// the queue's list: QueueStore::watch(). In PostgreSQL, the table queue_hook is this list.
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"

namespace dovetail::sqlite {

class Connection;

enum class Ending { done, failed };

class QueueWatcher {
 public:
  virtual ~QueueWatcher() = default;
  /// Returns the messages that it watches, in the given order.
  virtual std::vector<Uuid> watched(Connection& connection, std::span<const Uuid> messages) = 0;
  /// All of `messages` are watched.
  virtual void ended(Connection& connection, std::span<const Uuid> messages, Ending ending,
                     WallTime now) = 0;
  /// Some of `messages` may not be watched.
  virtual void replayed(Connection& connection, std::span<const Uuid> messages) = 0;
  /// True if the message must not fail because its leases expired.
  virtual bool spares(Connection& /*connection*/, const Uuid& /*message*/) { return false; }
};

/// The watchers of one queue. They are called in the order in which they were added.
class QueueWatchers {
 public:
  void add(QueueWatcher& watcher) { watchers_.push_back(&watcher); }

  /// Returns the messages that any of them watches, in the given order.
  [[nodiscard]] std::vector<Uuid> watched(Connection& connection,
                                          std::span<const Uuid> messages) const {
    std::vector<Uuid> all;
    for (auto* each : watchers_) {
      auto theirs = each->watched(connection, messages);
      all = all.empty() ? std::move(theirs) : either(messages, all, theirs);
    }
    return all;
  }
  void ended(Connection& connection, std::span<const Uuid> messages, Ending ending,
             WallTime now) const {
    for (auto* each : watchers_) {
      const auto theirs = each->watched(connection, messages);
      if (!theirs.empty()) each->ended(connection, theirs, ending, now);
    }
  }
  void replayed(Connection& connection, std::span<const Uuid> messages) const {
    for (auto* each : watchers_) each->replayed(connection, messages);
  }
  [[nodiscard]] bool spares(Connection& connection, const Uuid& message) const {
    return std::ranges::any_of(watchers_,
                               [&](auto* each) { return each->spares(connection, message); });
  }

 private:
  /// The messages that are in one of the lists.
  static std::vector<Uuid> either(std::span<const Uuid> messages, const std::vector<Uuid>& some,
                                  const std::vector<Uuid>& others) {
    if (others.empty()) return some;
    std::vector<Uuid> found;
    std::ranges::copy_if(messages, std::back_inserter(found), [&](const Uuid& message) {
      return std::ranges::find(some, message) != some.end() ||
             std::ranges::find(others, message) != others.end();
    });
    return found;
  }

  std::vector<QueueWatcher*> watchers_;
};

}  // namespace dovetail::sqlite
