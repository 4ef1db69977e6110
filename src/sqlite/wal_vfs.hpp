// SQLite's way to the file system, but for what it writes to a write-ahead log.
//
// A commit writes each page in two pieces, a frame's header and the page, each with a system call
// of its own: seventy microseconds for six pages, where one write of all of them takes sixteen.
// Here they are gathered, and written together.
#pragma once

#include <sqlite3.h>

namespace dovetail::sqlite {

/// The name of that VFS, for sqlite3_open_v2. It hands everything to what is the process's default
/// VFS now.
///
/// What is gathered goes to the file with the frame that ends a transaction, before that is
/// announced to other connections, and before anything is synced, read or truncated. For a
/// connection that syncs its commits (synchronous = full), and that calls forget_gathered() before
/// each transaction: what a transaction wrote to the log before it was rolled back must not reach
/// the file when the place there is somebody else's.
[[nodiscard]] const char* wal_vfs();

/// Outside of transactions.
void forget_gathered(sqlite3* connection);

}  // namespace dovetail::sqlite
