// A database transaction: Dovetail's own, or one that you opened and lend.
//
// Guarantees
//   * Everything enqueued through a Transaction takes effect with its commit, or not at all.
//   * A borrowed transaction is never committed or rolled back by Dovetail.
//   * An own transaction that is destroyed without commit() is rolled back.
//   * Once a statement of an own transaction has failed, nothing more goes through it, and commit()
//   rolls
//     it back and throws InvalidOperation: half of a transaction never commits, on either engine.
//
// Requirements
//   * On SQLite a Transaction holds the database's one write lock: keep it short. While a thread
//   has one
//     open, it must hand it to the calls it makes (enqueue(tx, …)); a call without it is refused
//     with InvalidOperation instead of waiting for itself.
//
// Threads: a Transaction may move between threads, but is used by one at a time.
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
  /// Joins the transaction that is open on your libpq connection. Part of dovetail::postgres.
  /// Throws InvalidOperation when no transaction is open on it, or when it is in pipeline mode.
  /// The connection must outlive the Transaction.
  [[nodiscard]] static Transaction borrow(pg_conn* connection);

  /// Joins the transaction that is open on your SQLite connection. Part of dovetail::sqlite.
  /// Throws InvalidOperation when no transaction is open on it. Begin it with BEGIN IMMEDIATE: a
  /// deferred one may fail with SQLITE_BUSY when it first writes. Give the connection to
  /// sqlite::configure() once, after opening it.
  [[nodiscard]] static Transaction borrow(sqlite3* connection);

  explicit Transaction(std::unique_ptr<storage::TransactionHandle> handle);
  Transaction(Transaction&&) noexcept;
  Transaction& operator=(Transaction&&) noexcept;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();

  /// Runs a statement of yours; answers how many rows it changed.
  template <class... P>
  std::size_t execute(std::string_view sql, const P&... parameters) {
    return execute_with(sql, std::array<Parameter, sizeof...(P)>{Parameter(parameters)...});
  }

  /// Runs a query of yours.
  template <class... P>
  [[nodiscard]] Rows query(std::string_view sql, const P&... parameters) {
    return query_with(sql, std::array<Parameter, sizeof...(P)>{Parameter(parameters)...});
  }

  std::size_t execute_with(std::string_view sql, std::span<const Parameter> parameters);
  [[nodiscard]] Rows query_with(std::string_view sql, std::span<const Parameter> parameters);

  /// Returns when the transaction is durable. An Error that is_in_doubt() means that nobody knows
  /// whether it is. Throws InvalidOperation on a borrowed transaction: its owner commits it.
  void commit();

  /// Undoes everything. Throws InvalidOperation on a borrowed transaction.
  void rollback();

 private:
  friend struct storage::TransactionAccess;
  std::unique_ptr<storage::TransactionHandle> handle_;
};

}  // namespace dovetail
