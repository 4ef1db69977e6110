// The rules of a group's list of databases. They do no I/O.
#pragma once

#include <string>
#include <vector>

#include "dovetail/discovery.hpp"

namespace dovetail::group {

/// Throws std::invalid_argument for a bad key, URL or schema. The text names the key and never
/// contains secrets of the URL.
void check_entry(const DatabaseEntry& entry);

/// The address and the schema of an entry that check_entry() accepts, without secrets.
[[nodiscard]] std::string address_of(const DatabaseEntry& entry);

struct CheckedEntries {
  std::vector<DatabaseEntry> good{};      ///< In their original order, each key once.
  std::vector<std::string> complaints{};  ///< The errors of the entries that were left out.
};

/// Separates good entries from bad ones. Equal entries count as one. If different entries have the
/// same key, none of them is used.
[[nodiscard]] CheckedEntries checked_entries(std::vector<DatabaseEntry> entries);

}  // namespace dovetail::group
