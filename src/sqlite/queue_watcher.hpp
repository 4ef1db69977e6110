// Who has to know when messages of a queue end or come back: told in the transaction that does it.
#pragma once

#include <span>

#include "dovetail/clock.hpp"
#include "dovetail/ids.hpp"

namespace dovetail::sqlite {

class Connection;

enum class Ending { done, failed };

class QueueWatcher {
 public:
  virtual ~QueueWatcher() = default;
  /// Whether any message is watched.
  virtual bool watches_any(Connection& connection) = 0;
  virtual bool watches(Connection& connection, const Uuid& message) = 0;
  /// Of these, some may be unwatched.
  virtual void ended(Connection& connection, std::span<const Uuid> messages, Ending ending, WallTime now) = 0;
  virtual void revived(Connection& connection, std::span<const Uuid> messages) = 0;
};

/// Two of them.
class Watchers final : public QueueWatcher {
 public:
  Watchers(QueueWatcher& first, QueueWatcher& second) : first_(first), second_(second) {}

  bool watches_any(Connection& connection) override {
    return first_.watches_any(connection) || second_.watches_any(connection);
  }
  bool watches(Connection& connection, const Uuid& message) override {
    return (first_.watches_any(connection) && first_.watches(connection, message)) ||
           (second_.watches_any(connection) && second_.watches(connection, message));
  }
  void ended(Connection& connection, std::span<const Uuid> messages, Ending ending, WallTime now) override {
    if (first_.watches_any(connection)) first_.ended(connection, messages, ending, now);
    if (second_.watches_any(connection)) second_.ended(connection, messages, ending, now);
  }
  void revived(Connection& connection, std::span<const Uuid> messages) override {
    first_.revived(connection, messages);
    second_.revived(connection, messages);
  }

 private:
  QueueWatcher& first_;
  QueueWatcher& second_;
};

class NobodyWatches final : public QueueWatcher {
 public:
  bool watches_any(Connection& /*connection*/) override { return false; }
  bool watches(Connection& /*connection*/, const Uuid& /*message*/) override { return false; }
  void ended(Connection& /*connection*/, std::span<const Uuid> /*messages*/, Ending /*ending*/,
             WallTime /*now*/) override {}
  void revived(Connection& /*connection*/, std::span<const Uuid> /*messages*/) override {}
};

}  // namespace dovetail::sqlite
