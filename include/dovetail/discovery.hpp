// Discovery: the source of a PlatformGroup's list of databases.
//
//   group.discover(dovetail::query_discovery("postgresql://…/control",
//                                            "select key, url, schema from tenants"));
//
// A discovery is a function, a query on a control database, or a TOML file.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail {

/// A database of a group.
struct DatabaseEntry {
  std::string key{};     ///< 1 to 200 characters of UTF-8 without control characters; unique.
  std::string url{};     ///< See platform.hpp.
  std::string schema{};  ///< Empty: PlatformOptions::schema of GroupOptions::database.
  /// Why the discovery could not read this entry. If it is set, the entry is a bad one: it is
  /// reported in GroupStatus::bad_entries, and a database that already has the key stays.
  std::string error{};

  friend bool operator==(const DatabaseEntry&, const DatabaseEntry&) = default;
};

class DatabaseDiscovery {
 public:
  virtual ~DatabaseDiscovery() = default;

  /// Returns the complete list. The group calls it on a thread of its own. When it throws, or takes
  /// longer than DiscoverOptions::timeout, the group keeps its list, logs a warning, counts a
  /// metric, and shows the error in GroupStatus. `stop` fires at that time limit, and when the
  /// group stops: return soon after that. A call that does not return may outlive the group. It
  /// must then not use objects that end before it.
  [[nodiscard]] virtual std::vector<DatabaseEntry> find(const std::stop_token& stop) = 0;

  /// Returns true when find() should be called before the refresh interval has passed. The group
  /// calls it several times a second: it must be cheap. An exception counts as a failure of find().
  [[nodiscard]] virtual bool has_changed() { return false; }
};

/// A discovery that calls a function.
[[nodiscard]] std::shared_ptr<DatabaseDiscovery> function_discovery(
    std::function<std::vector<DatabaseEntry>()> find);

/// A discovery that runs `query` on a control database. The query returns the columns `key` and
/// `url`, and optionally `schema`, in this order. A row with a null key or URL is a bad entry, and
/// does not affect the others. The control database needs no tables of Dovetail.
[[nodiscard]] std::shared_ptr<DatabaseDiscovery> query_discovery(std::string_view url,
                                                                 std::string query);

/// A discovery that reads a TOML file:
///
///   [databases]
///   tenant-a = "postgresql://…"
///   tenant-b = { url = "sqlite:/var/lib/b.db", schema = "jobs" }
///
/// A change of the file takes effect within some seconds. A value of another form, or a table with
/// other fields, is a bad entry, and does not affect the others. A file that cannot be read or
/// parsed is an error.
[[nodiscard]] std::shared_ptr<DatabaseDiscovery> file_discovery(std::string path);

}  // namespace dovetail
