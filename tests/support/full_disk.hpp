// Simulates a full disk: a SQLite VFS whose writes fail while the test wants it.
#pragma once

namespace dovetail::testing {

/// While it exists, writes to SQLite files of this process fail with "disk full" after fill(true),
/// until fill(false).
class FullDisk {
 public:
  FullDisk();
  ~FullDisk();
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

  void fill(bool full);
  /// The number of writes to files.
  [[nodiscard]] int writes() const;
};

}  // namespace dovetail::testing
