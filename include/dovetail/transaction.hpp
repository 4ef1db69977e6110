// A database transaction: either Dovetail's own, or one that you opened and lend.
//
// Guarantees
//   * Everything enqueued through a Transaction takes effect with its commit, or not at all.
//   * Dovetail never commits or rolls back a borrowed transaction.
//   * An own transaction that is destroyed without commit() is rolled back.
//   * After a statement of an own transaction has failed, the transaction accepts no more
//     statements, and commit() rolls it back and throws InvalidOperation. On both engines, a
//     transaction never commits in part.
//
// Requirements
//   * On SQLite, a Transaction holds the database's only write lock: keep it short. A thread with
//     an open Transaction must pass it to its calls (enqueue(tx, …)). A call without it throws
//     InvalidOperation instead of waiting for itself.
//
// Threads: a Transaction may move between threads, but only one thread may use it at a time.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "dovetail/value.hpp"

struct pg_conn;
struct sqlite3;

namespace dovetail {

namespace storage {
class TransactionHandle;
struct TransactionAccess;
}  // namespace storage

class Transaction {
 public:
  /// Uses the transaction that is open on your libpq connection. Part of dovetail::postgres. Throws
  /// InvalidOperation when no transaction is open on it, or when it is in pipeline mode. The
  /// connection must outlive the Transaction.
  [[nodiscard]] static Transaction borrow(pg_conn* connection);

  /// Uses the transaction that is open on your SQLite connection. Part of dovetail::sqlite. Throws
  /// InvalidOperation when no transaction is open on it. Begin it with BEGIN IMMEDIATE: a deferred
  /// transaction may fail with SQLITE_BUSY at its first write. Pass the connection to
  /// sqlite::configure() once, after opening it.
  [[nodiscard]] static Transaction borrow(sqlite3* connection);

  explicit Transaction(std::unique_ptr<storage::TransactionHandle> handle);
  Transaction(Transaction&&) noexcept;
  Transaction& operator=(Transaction&&) noexcept;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();

  /// Runs your statement and returns the number of changed rows.
  template <class... P>
  std::size_t execute(std::string_view sql, const P&... parameters) {
    return execute_with(sql, std::array<Parameter, sizeof...(P)>{Parameter(parameters)...});
  }

  /// Runs your query.
  template <class... P>
  [[nodiscard]] Rows query(std::string_view sql, const P&... parameters) {
    return query_with(sql, std::array<Parameter, sizeof...(P)>{Parameter(parameters)...});
  }

  std::size_t execute_with(std::string_view sql, std::span<const Parameter> parameters);
  [[nodiscard]] Rows query_with(std::string_view sql, std::span<const Parameter> parameters);

  /// Returns when the transaction is durable. After an Error that is_in_doubt(), the transaction
  /// may or may not be durable. Throws InvalidOperation on a borrowed transaction: its owner
  /// commits it.
  void commit();

  /// Rolls the transaction back. Throws InvalidOperation on a borrowed transaction.
  void rollback();

 private:
  friend struct storage::TransactionAccess;
  std::unique_ptr<storage::TransactionHandle> handle_;
};

}  // namespace dovetail
