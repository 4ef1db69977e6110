#include "sqlite/wal_vfs.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

namespace dovetail::sqlite {
namespace {

constexpr int most_gathered = 127 * 1024;  // SQLite's own VFS writes less than 128 KiB at a time
constexpr int frame_header = 24;

/// The VFS to which one of ours forwards its calls.
sqlite3_vfs* below(const sqlite3_vfs* vfs) {
  return static_cast<sqlite3_vfs*>(vfs->pAppData);
}

/// A write-ahead log. SQLite provides the memory; the file of the VFS below follows it there.
struct Log {
  sqlite3_file base;
  char* gathered;       // room for most_gathered bytes
  int count;            // bytes in use
  sqlite3_int64 start;  // the offset of the first byte in the file
  bool ends;            // the last header is of a frame that ends a transaction

  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }

  /// After a failed write, the bytes stay. The next attempt fails as well, until SQLite gives up
  /// the transaction.
  int flush() {
    if (count == 0) return SQLITE_OK;
    const int code = real()->pMethods->xWrite(real(), gathered, count, start);
    if (code == SQLITE_OK) count = 0;
    return code;
  }
};

Log& log_of(sqlite3_file* file) {
  return *reinterpret_cast<Log*>(file);
}

/// Flushes, then calls the file below.
template <auto Method, class... Arguments>
int after_flush(sqlite3_file* file, Arguments... arguments) {
  auto& log = log_of(file);
  const int code = log.flush();
  return code != SQLITE_OK ? code : (log.real()->pMethods->*Method)(log.real(), arguments...);
}

template <auto Method, class... Arguments>
int pass_on(sqlite3_file* file, Arguments... arguments) {
  auto* real = log_of(file).real();
  return (real->pMethods->*Method)(real, arguments...);
}

int close_log(sqlite3_file* file) {
  auto& log = log_of(file);  // its bytes belong to a transaction that did not commit
  delete[] log.gathered;
  return log.real()->pMethods->xClose(log.real());
}

/// Returns whether this is the header of a frame that ends a transaction. Such a header has the
/// size of the database after the transaction.
bool ends_transaction(const void* data, int count) {
  constexpr char none[4] = {};
  return count == frame_header &&
         std::memcmp(static_cast<const char*>(data) + 4, none, sizeof none) != 0;
}

int write_log(sqlite3_file* file, const void* data, int count, sqlite3_int64 offset) {
  auto& log = log_of(file);
  const bool follows =
      log.count > 0 && offset == log.start + log.count && count <= most_gathered - log.count;
  if (!follows) {
    if (const int code = log.flush(); code != SQLITE_OK) return code;
    // Only frames are gathered, and a frame begins with its header.
    if (count != frame_header) return log.real()->pMethods->xWrite(log.real(), data, count, offset);
    log.start = offset;
  }
  std::memcpy(log.gathered + log.count, data, static_cast<std::size_t>(count));
  log.count += count;
  const bool complete = std::exchange(log.ends, ends_transaction(data, count));
  return complete ? log.flush() : SQLITE_OK;
}

using Methods = sqlite3_io_methods;

const Methods log_methods{
    .iVersion = 1,
    .xClose = close_log,
    .xRead = after_flush<&Methods::xRead, void*, int, sqlite3_int64>,
    .xWrite = write_log,
    .xTruncate = after_flush<&Methods::xTruncate, sqlite3_int64>,
    .xSync = after_flush<&Methods::xSync, int>,
    .xFileSize = after_flush<&Methods::xFileSize, sqlite3_int64*>,
    .xLock = pass_on<&Methods::xLock, int>,
    .xUnlock = pass_on<&Methods::xUnlock, int>,
    .xCheckReservedLock = pass_on<&Methods::xCheckReservedLock, int*>,
    .xFileControl = after_flush<&Methods::xFileControl, int, void*>,
    .xSectorSize = pass_on<&Methods::xSectorSize>,
    .xDeviceCharacteristics = pass_on<&Methods::xDeviceCharacteristics>,
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

int open_file(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags,
              int* out_flags) {
  if ((flags & SQLITE_OPEN_WAL) == 0)
    return below(vfs)->xOpen(below(vfs), name, file, flags, out_flags);
  std::unique_ptr<char[]> room{new (std::nothrow) char[most_gathered]};
  file->pMethods = nullptr;
  if (!room) return SQLITE_NOMEM;
  auto* log = new (file) Log{};
  log->real()->pMethods = nullptr;
  const int code = below(vfs)->xOpen(below(vfs), name, log->real(), flags, out_flags);
  if (log->real()->pMethods == nullptr)
    return code;  // not open at all, so SQLite does not close it
  log->gathered = room.release();
  log->base.pMethods = &log_methods;
  return code;
}

/// Calls the same function of the VFS below.
template <auto Method, class Result, class... Arguments>
Result forward(sqlite3_vfs* vfs, Arguments... arguments) {
  return (below(vfs)->*Method)(below(vfs), arguments...);
}

using Symbol = void (*)();
Symbol forward_symbol(sqlite3_vfs* vfs, void* library, const char* name) {
  return below(vfs)->xDlSym(below(vfs), library, name);
}

struct LogVfs {
  explicit LogVfs(sqlite3_vfs* real) : name(std::string{"dovetail over "} + real->zName) {
    using Vfs = sqlite3_vfs;
    vfs.iVersion = std::min(real->iVersion, 2);
    vfs.szOsFile = static_cast<int>(sizeof(Log)) + real->szOsFile;
    vfs.mxPathname = real->mxPathname;
    vfs.zName = name.c_str();
    vfs.pAppData = real;
    vfs.xOpen = open_file;
    vfs.xDelete = forward<&Vfs::xDelete, int, const char*, int>;
    vfs.xAccess = forward<&Vfs::xAccess, int, const char*, int, int*>;
    vfs.xFullPathname = forward<&Vfs::xFullPathname, int, const char*, int, char*>;
    vfs.xDlOpen = forward<&Vfs::xDlOpen, void*, const char*>;
    vfs.xDlError = forward<&Vfs::xDlError, void, int, char*>;
    vfs.xDlSym = forward_symbol;
    vfs.xDlClose = forward<&Vfs::xDlClose, void, void*>;
    vfs.xRandomness = forward<&Vfs::xRandomness, int, int, char*>;
    vfs.xSleep = forward<&Vfs::xSleep, int, int>;
    vfs.xCurrentTime = forward<&Vfs::xCurrentTime, int, double*>;
    vfs.xGetLastError = forward<&Vfs::xGetLastError, int, int, char*>;
    if (real->iVersion >= 2 && real->xCurrentTimeInt64 != nullptr) {
      vfs.xCurrentTimeInt64 = forward<&Vfs::xCurrentTimeInt64, int, sqlite3_int64*>;
    }
  }
  LogVfs(const LogVfs&) = delete;
  LogVfs& operator=(const LogVfs&) = delete;

  std::string name;
  sqlite3_vfs vfs{};
};

}  // namespace

const char* wal_vfs() {
  static std::mutex mutex;
  static auto& known =
      *new std::list<LogVfs>;  // never destroyed: connections may outlive other static objects
  auto* const real = sqlite3_vfs_find(nullptr);
  std::lock_guard lock(mutex);
  for (const auto& each : known) {
    if (each.vfs.pAppData == real) return each.name.c_str();
  }
  auto& made = known.emplace_back(real);
  if (sqlite3_vfs_register(&made.vfs, 0) == SQLITE_OK) return made.name.c_str();
  known.pop_back();
  return nullptr;  // the default
}

void discard_gathered(sqlite3* connection) {
  sqlite3_file* file = nullptr;
  if (sqlite3_file_control(connection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) != SQLITE_OK)
    return;
  if (file == nullptr || file->pMethods != &log_methods) return;  // no log yet
  log_of(file).count = 0;
  log_of(file).ends = false;
}

}  // namespace dovetail::sqlite
