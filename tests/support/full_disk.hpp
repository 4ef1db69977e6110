// A disk that is full when the test says so: SQLite's own way to the file system, with writes that
// fail.
#pragma once

namespace dovetail::testing {

/// While it exists, SQLite files opened by this process answer "disk full" whenever fill(true) was
/// called last.
class FullDisk {
 public:
  FullDisk();
  ~FullDisk();
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

  void fill(bool full);
  /// How often files have been written to.
  [[nodiscard]] int writes() const;
};

}  // namespace dovetail::testing
