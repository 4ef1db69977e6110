// Classifies the failures of SQLite by their result codes. No other place does.
#pragma once

#include <string>
#include <string_view>

#include "dovetail/error.hpp"

struct sqlite3;

namespace dovetail::sqlite {

/// `extended_code` is the result of sqlite3_extended_errcode(). `decides`: the statement decides
/// the fate of a transaction. It is a COMMIT.
[[nodiscard]] ErrorKind classify(int extended_code, bool decides);

/// Throws the Error for a statement of Dovetail that cannot be prepared. Its syntax is correct, so
/// a general SQLITE_ERROR means that the database lacks a table, a column or a function:
/// ErrorKind::schema.
[[noreturn]] void raise_unprepared(sqlite3* connection, int code, std::string_view statement);

/// Throws the Error for the last failure of `connection`.
[[noreturn]] void raise(sqlite3* connection, int code, std::string_view statement,
                        bool decides = false);

}  // namespace dovetail::sqlite
