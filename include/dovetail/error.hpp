// What can go wrong, in four kinds.
//
//   * Everyday answers (busy, duplicate, nothing due) are return values, never exceptions.
//   * Bad arguments: std::invalid_argument or std::out_of_range, before any I/O, with the name and
//   the limit.
//   * Wrong state: InvalidOperation (an unknown join, a borrowed transaction committed by us, an
//   old schema).
//   * Failures of the world: Error, classified once, in the engine's driver, from the native code.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace dovetail {

enum class ErrorKind {
  transient,        ///< Try again: too many connections, database busy.
  lock_timeout,     ///< A lock that another transaction holds was not granted in time: try again.
  constraint,       ///< A unique, check, foreign-key or not-null rule refused the write.
  serialization,    ///< Two transactions could not be put in an order: try again from the top.
  deadlock,         ///< The engine chose this transaction as the victim: try again from the top.
  connection_lost,  ///< The connection broke before COMMIT was sent: nothing of the transaction
                    ///< took effect.
  commit_in_doubt,  ///< The connection broke while COMMIT was under way: it took effect, or it did
                    ///< not.
  disk_full,        ///< The database has no room.
  read_only,        ///< The database takes no writes: a standby, or a read-only file.
  permission,       ///< The user may not do this, or may not log in.
  cancelled,        ///< A stop_token or a statement timeout ended the statement.
  schema,           ///< A table or function that the statement needs does not exist.
  invalid,          ///< The engine refused a value: out of range, malformed, too large.
  corrupt,          ///< The database file is damaged or is not a database.
  other,
};

/// The kind's word, as it appears in logs and metrics.
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

  /// True when nothing took effect and the same transaction, run again from its start, may succeed.
  [[nodiscard]] bool is_transient() const;
  /// True when the transaction may or may not have taken effect.
  [[nodiscard]] bool is_in_doubt() const { return details_.kind == ErrorKind::commit_in_doubt; }

 private:
  Details details_;
};

/// The call makes no sense in the state things are in. Retrying does not help.
class InvalidOperation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The database's schema is missing, older or newer than this library, or was changed by hand.
/// The text names the command that mends it.
class SchemaMismatch : public InvalidOperation {
 public:
  using InvalidOperation::InvalidOperation;
};

}  // namespace dovetail
