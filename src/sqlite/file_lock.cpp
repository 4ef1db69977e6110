#include "sqlite/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/assert.hpp"
#include "core/random.hpp"
#include "dovetail/error.hpp"

namespace dovetail::sqlite {

FileLock::FileLock(const std::string& path)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_ < 0) {
    const auto kind = errno == EACCES || errno == EPERM ? ErrorKind::permission
                      : errno == ENOSPC                 ? ErrorKind::disk_full
                      : errno == EROFS                  ? ErrorKind::read_only
                                                        : ErrorKind::other;
    throw Error({kind, std::to_string(errno), "open " + path}, std::strerror(errno));
  }
}

FileLock::~FileLock() {
  ::close(fd_);
}

bool FileLock::try_lock_for(std::chrono::milliseconds patience,
                            const std::function<bool()>& stopped) {
  // Uses the system's clock: other processes hold the lock in real time.
  const auto give_up_at = std::chrono::steady_clock::now() + patience;
  // flock() has no time limit, and a stopped process may hold the lock forever. So poll, with short
  // pauses at first.
  for (auto pause = std::chrono::microseconds{50}; ::flock(fd_, LOCK_EX | LOCK_NB) != 0;
       pause = std::min(pause * 2, std::chrono::microseconds{1'000})) {
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    if (std::chrono::steady_clock::now() >= give_up_at || stopped()) return false;
    const auto jittered = static_cast<double>(pause.count()) * (0.5 + core::random_unit());
    std::this_thread::sleep_for(std::chrono::microseconds{static_cast<std::int64_t>(jittered)});
  }
  return true;
}

void FileLock::unlock() {
  DOVETAIL_ASSERT(::flock(fd_, LOCK_UN) == 0);
}

}  // namespace dovetail::sqlite
