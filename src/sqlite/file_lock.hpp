// The side lock: a file next to the database that whoever commits or checkpoints holds, in this
// process or another.
//
// It queues writers of different processes before SQLite's own lock does, and keeps a checkpoint
// and a commit from ever overlapping (SQLite before 3.51.3 can damage the WAL then).
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

  /// False when another holder did not let go in time, or `stopped` became true.
  [[nodiscard]] bool try_lock_for(std::chrono::milliseconds patience,
                                  const std::function<bool()>& stopped);
  void unlock();

 private:
  int fd_;
};

}  // namespace dovetail::sqlite
