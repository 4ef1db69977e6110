// Owned file descriptors. A program that we start inherits one only if it is passed explicitly.
#pragma once

#include <utility>

namespace dovetail::cli {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~FileDescriptor() { close(); }

  /// Negative if it is closed; poll() ignores negative numbers.
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  void close();

 private:
  int number_ = -1;
};

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

/// open_pipe() and Flag() throw std::system_error if the system has no more descriptors.
[[nodiscard]] Pipe open_pipe();

/// An event that one thread raises and another thread polls for.
class Flag {
 public:
  Flag();
  /// May be called from any thread.
  void raise() const;
  [[nodiscard]] int number() const { return event_.number(); }

 private:
  FileDescriptor event_;
};

}  // namespace dovetail::cli
