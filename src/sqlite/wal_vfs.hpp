// SQLite's way to the file system, but for what it writes to a write-ahead log.
//
// A commit writes each page in two pieces, a frame's header and the page, each with a system call of its own: seventy microseconds for
// six pages, where one write of all of them takes sixteen. Here they are gathered, and written together.
#pragma once

namespace dovetail::sqlite {

/// The name of that VFS, for sqlite3_open_v2. It hands everything to what is the process's default VFS now.
///
/// Nobody sees a difference: what is gathered goes to the file before the frame that ends a transaction is announced to other
/// connections, and before anything is synced, read, truncated or closed.
[[nodiscard]] const char* wal_vfs();

}  // namespace dovetail::sqlite
