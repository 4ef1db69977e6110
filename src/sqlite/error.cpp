#include "sqlite/error.hpp"

#include <sqlite3.h>

namespace dovetail::sqlite {

ErrorKind classify(int extended_code, bool decides) {
  switch (extended_code) {
    case SQLITE_BUSY_SNAPSHOT:
      return ErrorKind::serialization;
    case SQLITE_IOERR_NOMEM:
      return ErrorKind::transient;
    default:
      break;
  }
  switch (extended_code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_NOMEM:
      return ErrorKind::transient;
    case SQLITE_CONSTRAINT:
      return ErrorKind::constraint;
    case SQLITE_FULL:
      return ErrorKind::disk_full;
    case SQLITE_READONLY:
      return ErrorKind::read_only;
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return ErrorKind::permission;
    case SQLITE_INTERRUPT:
      return ErrorKind::cancelled;
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
      return ErrorKind::invalid;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorKind::corrupt;
    // A COMMIT whose write or sync failed may still have reached the disk.
    case SQLITE_IOERR:
      return decides ? ErrorKind::commit_in_doubt : ErrorKind::other;
    default:
      return ErrorKind::other;
  }
}

namespace {

/// The last message of the connection, and the name of its file.
std::string message_of(sqlite3* connection) {
  std::string message = sqlite3_errmsg(connection);
  const char* file = sqlite3_db_filename(connection, "main");
  if (file != nullptr && *file != '\0') message.append(" (").append(file).append(")");
  return message;
}

}  // namespace

void raise_unprepared(sqlite3* connection, int code, std::string_view statement) {
  const int extended = sqlite3_extended_errcode(connection);
  if (extended != SQLITE_ERROR) raise(connection, code, statement);
  throw Error({ErrorKind::schema, std::to_string(extended), std::string{statement}},
              message_of(connection));
}

void raise(sqlite3* connection, int code, std::string_view statement, bool decides) {
  const int extended = connection != nullptr ? sqlite3_extended_errcode(connection) : code;
  throw Error({classify(extended, decides), std::to_string(extended), std::string{statement}},
              connection != nullptr ? message_of(connection) : sqlite3_errstr(code));
}

}  // namespace dovetail::sqlite
