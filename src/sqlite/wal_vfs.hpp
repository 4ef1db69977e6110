// A VFS that combines writes to a write-ahead log. It forwards all other calls to SQLite's VFS.
//
// A commit writes each page in two parts, the header of the frame and the page, with one system
// call for each part. That takes 70 microseconds for six pages. One write of all parts takes 16. So
// this VFS gathers the parts and writes them together.
#pragma once

#include <sqlite3.h>

namespace dovetail::sqlite {

/// Returns the name of this VFS for sqlite3_open_v2. It forwards calls to the VFS that is the
/// default of the process now.
///
/// The frame that ends a transaction makes the VFS write the gathered frames, before SQLite
/// announces the transaction to other connections. The VFS also writes them before each sync, read
/// or truncation. A connection must sync its commits (synchronous = full), and must call
/// discard_gathered() before each transaction: frames of a rolled back transaction must not reach
/// the file after another connection has written to their place.
[[nodiscard]] const char* wal_vfs();

/// Drops the gathered frames. Call it outside of transactions.
void discard_gathered(sqlite3* connection);

}  // namespace dovetail::sqlite
