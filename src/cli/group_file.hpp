// The databases of --group FILE, after --only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/cli.hpp"

namespace dovetail::cli {

/// A database that is in the file but cannot be used.
struct BadDatabase {
  std::string key;
  std::string error;
};

struct GroupDatabases {
  std::vector<DatabaseEntry> good;  ///< In the order of the file.
  std::vector<BadDatabase> bad;
};

/// Reads the file and checks its entries; does not connect. Throws std::invalid_argument when it
/// cannot be read, when it is broken or has no database, and when --only names an unknown key.
[[nodiscard]] GroupDatabases read_group(const Globals& globals);

/// The database of `key`. Throws std::invalid_argument for a bad entry, and for an unknown key.
[[nodiscard]] DatabaseEntry find_database(const Globals& globals, const std::string& key);

/// A discovery for a long-running process: the file may change, and databases of --only may leave
/// it. The first call of find() throws like read_group(), but the file may have no database.
[[nodiscard]] std::shared_ptr<DatabaseDiscovery> group_discovery(const Globals& globals);

/// A group for a long-running process: it follows changes of the file. Bad entries are left out
/// with a warning. Throws like group_discovery().
[[nodiscard]] PlatformGroup open_group(const Globals& globals, GroupOptions options);

/// The options of one database of the group.
[[nodiscard]] PlatformOptions options_of(const Globals& globals, const DatabaseEntry& entry);

/// The command that creates the missing schemas.
[[nodiscard]] std::string migrate_hint(const Globals& globals);

/// `1 database`, `2 databases`.
[[nodiscard]] std::string count_of_databases(std::size_t count);

}  // namespace dovetail::cli
