// Sessions: a place to run statements in. Reading and writing are different types, so that code
// which only reads cannot be handed the means to write, and a write transaction is one from its
// first statement.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "dovetail/value.hpp"

namespace dovetail::storage {

class ReadSession {
 public:
  virtual ~ReadSession() = default;
  virtual Rows query(std::string_view sql, std::span<const Parameter> parameters) = 0;
};

class WriteSession {
 public:
  virtual ~WriteSession() = default;
  virtual Rows query(std::string_view sql, std::span<const Parameter> parameters) = 0;
  virtual std::size_t execute(std::string_view sql, std::span<const Parameter> parameters) = 0;
};

/// A transaction that a Transaction holds: owned, or borrowed.
class TransactionHandle {
 public:
  virtual ~TransactionHandle() = default;  // rolls back when it is owned and still open
  virtual WriteSession& session() = 0;
  virtual void commit() = 0;
  virtual void rollback() = 0;
  [[nodiscard]] virtual bool is_borrowed() const { return false; }
  /// Once it has committed, workers are told that there may be something to do.
  virtual void announce_at_commit() = 0;
  /// Once it has committed, schedulers are told that a timer or a job may be due earlier.
  virtual void announce_schedule_at_commit() = 0;
  /// Called once it has committed: for logs and metrics of what it did. At once for a borrowed one.
  virtual void after_commit(std::function<void()> call) = 0;
};

/// A transaction that belongs to the user: its end is not ours to decide.
class BorrowedTransactionHandle : public TransactionHandle {
 public:
  void commit() final;
  void rollback() final;
  [[nodiscard]] bool is_borrowed() const final { return true; }
  void announce_at_commit() final {}           // its end is not ours to see
  void announce_schedule_at_commit() final {}  // nor here
  void after_commit(std::function<void()> call) final { call(); }
};

}  // namespace dovetail::storage
