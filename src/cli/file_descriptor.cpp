#include "cli/file_descriptor.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace dovetail::cli {

void FileDescriptor::close() {
  if (is_open()) ::close(std::exchange(number_, -1));
}

Pipe open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  return {FileDescriptor{ends[0]}, FileDescriptor{ends[1]}};
}

Flag::Flag() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_.is_open()) throw std::system_error(errno, std::generic_category(), "eventfd");
}

void Flag::raise() const {
  ::eventfd_write(number(), 1);
}

}  // namespace dovetail::cli
