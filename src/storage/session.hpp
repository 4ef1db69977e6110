// Sessions run statements. Reading and writing are different types. So code that only reads cannot
// write, and a write transaction is one from its first statement.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/value.hpp"

namespace dovetail::storage {

class ReadSession {
 public:
  virtual ~ReadSession() = default;
  virtual Rows query(std::string_view sql, std::span<const Parameter> parameters) = 0;
};

/// A queue whose workers a transaction wakes.
struct WakeUp {
  std::string queue;
  bool announced = false;  ///< A statement of the transaction tells the other processes.
};

class WriteSession {
 public:
  virtual ~WriteSession() = default;
  virtual Rows query(std::string_view sql, std::span<const Parameter> parameters) = 0;
  virtual std::size_t execute(std::string_view sql, std::span<const Parameter> parameters) = 0;

  /// Says that messages of `queue` (see queue_names.hpp) may be due when this transaction has
  /// committed. The commit then wakes the queue's workers in this and in other processes. A
  /// rollback wakes nobody, and neither does a borrowed transaction, whose end we do not see.
  void wakes(std::string_view queue) { wake_up(queue); }
  /// The same, when a statement of this transaction tells the other processes.
  void wakes_here(std::string_view queue) { wake_up(queue).announced = true; }
  [[nodiscard]] const std::vector<WakeUp>& wake_ups() const { return wake_ups_; }

 private:
  WakeUp& wake_up(std::string_view queue) {
    for (auto& each : wake_ups_) {
      if (each.queue == queue) return each;
    }
    return wake_ups_.emplace_back(WakeUp{std::string{queue}});
  }

  std::vector<WakeUp> wake_ups_;
};

/// A transaction that a Transaction holds: owned, or borrowed.
class TransactionHandle {
 public:
  virtual ~TransactionHandle() = default;  // rolls back when it is owned and still open
  virtual WriteSession& session() = 0;
  virtual void commit() = 0;
  virtual void rollback() = 0;
  /// Calls `call` after the commit, for logs and metrics of the transaction. For a borrowed
  /// transaction, calls it at once.
  virtual void after_commit(std::function<void()> call) = 0;
};

/// A transaction of the user. The library does not end it.
class BorrowedTransactionHandle : public TransactionHandle {
 public:
  void commit() final;
  void rollback() final;
  void after_commit(std::function<void()> call) final { call(); }
};

}  // namespace dovetail::storage
