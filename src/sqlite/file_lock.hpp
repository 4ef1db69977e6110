// The side lock: a file next to the database. Every commit and every checkpoint holds it, in this
// process or in another.
//
// Writers of different processes wait for it before they wait for SQLite's own lock. It also
// prevents a checkpoint and a commit at the same time, which can damage the WAL in SQLite before
// 3.51.3.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace dovetail::sqlite {

class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Returns false if another holder did not release the lock in time, or if `stopped` became true.
  [[nodiscard]] bool try_lock_for(std::chrono::milliseconds patience,
                                  const std::function<bool()>& stopped);
  void unlock();

 private:
  int fd_;
};

}  // namespace dovetail::sqlite
