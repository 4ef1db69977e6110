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

}  // namespace dovetail::sqlite
