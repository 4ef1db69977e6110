// What an SQLite result code means to us. The one place where SQLite's failures are classified.
#pragma once

#include <string>
#include <string_view>

#include "dovetail/error.hpp"

struct sqlite3;

namespace dovetail::sqlite {

/// `extended_code` as sqlite3_extended_errcode() tells it.
/// `decides` tells that the step decides over the transaction's fate: a COMMIT.
[[nodiscard]] ErrorKind classify(int extended_code, bool decides);

/// Throws the Error for a statement of ours that does not prepare. Its syntax is right, so that a
/// general SQLITE_ERROR means that the database lacks a table, a column or a function:
/// ErrorKind::schema.
[[noreturn]] void raise_unprepared(sqlite3* connection, int code, std::string_view statement);

/// Throws the Error for what `connection` last met.
[[noreturn]] void raise(sqlite3* connection, int code, std::string_view statement,
                        bool decides = false);

}  // namespace dovetail::sqlite
