// For programs that open their own SQLite connections. Part of dovetail::sqlite.
#pragma once

struct sqlite3;

namespace dovetail::sqlite {

/// Prepares your connection for a file that it shares with Dovetail: WAL, synchronous=FULL, a busy
/// timeout of 10 s, and no automatic checkpoints. Only Dovetail's writer checkpoints: SQLite before
/// 3.51.3 can corrupt the file when one connection checkpoints while another commits.
///
/// Call it once, after opening the connection and before the first transaction. Throws Error.
void configure(sqlite3* connection);

}  // namespace dovetail::sqlite
