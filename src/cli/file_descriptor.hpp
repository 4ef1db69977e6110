// File descriptors with an owner. None of them reaches a program that we start, unless it is handed
// over.
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

  /// Negative when it is closed, which poll() skips.
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

/// Both throw std::system_error when the system has no more.
[[nodiscard]] Pipe open_pipe();

/// Something that one thread raises and another one polls for.
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
