#include "support/full_disk.hpp"

#include <sqlite3.h>

#include <atomic>
#include <cstring>
#include <new>

namespace dovetail::testing {
namespace {

std::atomic<bool> is_full{false};
std::atomic<int> write_count{0};
sqlite3_vfs* real = nullptr;

/// A file of this VFS. The file of the real VFS follows it in memory.
struct File {
  sqlite3_file base;
};
sqlite3_file* inner(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<File*>(file) + 1);
}

template <auto Member, class... Arguments>
int pass(sqlite3_file* file, Arguments... arguments) {
  return (inner(file)->pMethods->*Member)(inner(file), arguments...);
}

int write_unless_full(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  if (is_full) return SQLITE_FULL;
  ++write_count;
  return inner(file)->pMethods->xWrite(inner(file), data, size, offset);
}

using M = sqlite3_io_methods;
const sqlite3_io_methods methods = [] {
  sqlite3_io_methods ours{};
  ours.iVersion = 2;
  ours.xClose = &pass<&M::xClose>;
  ours.xRead = &pass<&M::xRead, void*, int, sqlite3_int64>;
  ours.xWrite = &write_unless_full;
  ours.xTruncate = &pass<&M::xTruncate, sqlite3_int64>;
  ours.xSync = &pass<&M::xSync, int>;
  ours.xFileSize = &pass<&M::xFileSize, sqlite3_int64*>;
  ours.xLock = &pass<&M::xLock, int>;
  ours.xUnlock = &pass<&M::xUnlock, int>;
  ours.xCheckReservedLock = &pass<&M::xCheckReservedLock, int*>;
  ours.xFileControl = &pass<&M::xFileControl, int, void*>;
  ours.xSectorSize = &pass<&M::xSectorSize>;
  ours.xDeviceCharacteristics = &pass<&M::xDeviceCharacteristics>;
  ours.xShmMap = &pass<&M::xShmMap, int, int, int, void volatile**>;
  ours.xShmLock = &pass<&M::xShmLock, int, int, int>;
  ours.xShmBarrier = [](sqlite3_file* file) { inner(file)->pMethods->xShmBarrier(inner(file)); };
  ours.xShmUnmap = &pass<&M::xShmUnmap, int>;
  return ours;
}();

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  const int code = real->xOpen(real, name, inner(file), flags, out_flags);
  if (code == SQLITE_OK) file->pMethods = &methods;
  return code;
}

sqlite3_vfs shim{};

}  // namespace

FullDisk::FullDisk() {
  real = sqlite3_vfs_find(nullptr);
  shim = *real;
  shim.zName = "dovetail-full-disk";
  shim.szOsFile = real->szOsFile + static_cast<int>(sizeof(File));
  shim.xOpen = &open_file;
  shim.pNext = nullptr;
  is_full = false;
  sqlite3_vfs_register(&shim, 1);
}

FullDisk::~FullDisk() {
  sqlite3_vfs_unregister(&shim);
  sqlite3_vfs_register(real, 1);
}

void FullDisk::fill(bool full) {
  is_full = full;
}

int FullDisk::writes() const {
  return write_count;
}

}  // namespace dovetail::testing
