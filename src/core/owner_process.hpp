// The process that created an object. A child of fork() inherits the object without its threads,
// and shares its connections with the parent. The child must neither use nor close them.
#pragma once

#include <unistd.h>

#include "dovetail/error.hpp"

namespace dovetail::core {

class OwnerProcess {
 public:
  /// False in a child that was forked after the object was created.
  [[nodiscard]] bool is_current_process() const { return ::getpid() == pid_; }

  /// Throws InvalidOperation in a forked child.
  void require(const char* message =
                   "this Platform was opened before fork(): a child process must "
                   "open a Platform of its own") const {
    if (!is_current_process()) throw InvalidOperation(message);
  }

 private:
  pid_t pid_ = ::getpid();
};

}  // namespace dovetail::core
