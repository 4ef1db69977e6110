// For those who bring their own SQLite connections. Part of dovetail::sqlite.
#pragma once

struct sqlite3;

namespace dovetail::sqlite {

/// Prepares a connection of yours for sharing a file with Dovetail: WAL, synchronous=FULL, a busy
/// timeout of 10 s, and no checkpoints of its own. Only Dovetail's writer checkpoints: SQLite
/// before 3.51.3 can damage the file when two connections checkpoint and commit at the same moment.
///
/// Call it once, after opening the connection and before the first transaction. Throws Error.
void configure(sqlite3* connection);

}  // namespace dovetail::sqlite
