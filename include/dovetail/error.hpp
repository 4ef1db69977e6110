// Errors. There are four kinds:
//
//   * Normal outcomes (busy, duplicate, nothing due) are return values, never exceptions.
//   * Bad arguments: std::invalid_argument or std::out_of_range, thrown before any I/O. The text
//     names the argument and the limit.
//   * Wrong state: InvalidOperation. Examples: an unknown join, commit() on a borrowed transaction,
//     an old schema.
//   * Failures of the environment: Error. The engine's driver classifies them by their native code.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace dovetail {

enum class ErrorKind {
  transient,        ///< Retry: too many connections, database busy.
  lock_timeout,     ///< Another transaction held a lock for too long: retry.
  constraint,       ///< A unique, check, foreign-key or not-null constraint was violated.
  serialization,    ///< Serialization failure: retry the transaction from its start.
  deadlock,         ///< The engine ended this transaction: retry it from its start.
  connection_lost,  ///< The connection broke before COMMIT was sent: the transaction had no effect.
  commit_in_doubt,  ///< The connection broke during COMMIT: the transaction may have taken effect.
  disk_full,        ///< The database has no space left.
  read_only,        ///< The database accepts no writes: a standby, or a read-only file.
  permission,       ///< The user may not do this, or may not log in.
  cancelled,        ///< A stop_token or a statement timeout ended the statement.
  schema,           ///< A table or function that the statement needs does not exist.
  invalid,          ///< The engine refused a value: out of range, malformed, too large.
  corrupt,          ///< The database file is damaged or is not a database.
  other,
};

/// The name of the kind, as it appears in logs and metrics.
[[nodiscard]] std::string_view to_string(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  struct Details {
    ErrorKind kind = ErrorKind::other;
    std::string native_code;  ///< SQLSTATE, or the SQLite extended result code.
    std::string statement;    ///< The statement's name, or the step: `connect`, `begin`, `commit`.
  };
  Error(Details details, const std::string& message);

  [[nodiscard]] ErrorKind kind() const { return details_.kind; }
  [[nodiscard]] const std::string& native_code() const { return details_.native_code; }
  [[nodiscard]] const std::string& statement() const { return details_.statement; }

  /// True when the transaction had no effect and may succeed when it is run again from its start.
  [[nodiscard]] bool is_transient() const;
  /// True when the transaction may or may not have taken effect.
  [[nodiscard]] bool is_in_doubt() const { return details_.kind == ErrorKind::commit_in_doubt; }

 private:
  Details details_;
};

/// The call is not allowed in the current state. A retry does not help.
class InvalidOperation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The database's schema is missing, older or newer than this library supports, or was changed by
/// hand. The text names the command that fixes it.
class SchemaMismatch : public InvalidOperation {
 public:
  using InvalidOperation::InvalidOperation;
};

}  // namespace dovetail
