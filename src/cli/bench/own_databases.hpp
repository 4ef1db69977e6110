// Many databases for one measure: files beside the SQLite file, or databases of the same PostgreSQL
// server. The role must be allowed to create databases.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/measures.hpp"
#include "dovetail/discovery.hpp"

namespace dovetail::cli::bench {

class OwnDatabases {
 public:
  /// Creates them, without tables.
  OwnDatabases(const Settings& settings, int count);
  OwnDatabases(const OwnDatabases&) = delete;
  OwnDatabases& operator=(const OwnDatabases&) = delete;
  /// Drops them.
  ~OwnDatabases();

  [[nodiscard]] const std::vector<DatabaseEntry>& entries() const { return entries_; }

 private:
  void drop();

  const Settings& settings_;
  std::vector<std::string> names_;  // of PostgreSQL databases, or paths of files
  std::vector<DatabaseEntry> entries_;
};

/// Runs statements that cannot be part of a transaction.
void administrate(const Settings& settings, const std::string& sql);

}  // namespace dovetail::cli::bench
