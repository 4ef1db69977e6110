#include "cli/group_file.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>

#include "core/nearest.hpp"
#include "dovetail/error.hpp"

namespace dovetail::cli {
namespace {

using Entries = std::vector<DatabaseEntry>;
using Keys = std::vector<std::string>;

constexpr const char* file_form =
    "\nA group file lists its databases, each with a key of its own:\n"
    "  [databases]\n"
    "  tenant-a = \"sqlite:a.db\"\n"
    "  tenant-b = { url = \"postgresql://localhost/b\", schema = \"infra\" }";
constexpr std::size_t most_keys_shown = 20;

Keys keys_of(const Entries& entries) {
  Keys keys;
  for (const auto& entry : entries) keys.push_back(entry.key);
  return keys;
}

std::string unknown_key(const Globals& globals, const std::string& flag, const std::string& key,
                        const Keys& known) {
  auto text = flag + ": " + globals.group + " has no database \"" + key + "\"";
  if (const auto meant = core::nearest(key, known)) return text + "; did you mean " + *meant + "?";
  std::string list;
  for (std::size_t i = 0; i < std::min(known.size(), most_keys_shown); ++i)
    list += (i == 0 ? "" : ", ") + known[i];
  return text + "; it has: " + list + (known.size() > most_keys_shown ? ", …" : "");
}

/// A value that is a known key is one key, even if it contains commas.
std::set<std::string> only_keys(const Globals& globals, const Keys& known) {
  std::set<std::string> keys;
  for (const auto& value : globals.only) {
    if (std::ranges::find(known, value) != known.end()) {
      keys.insert(value);
      continue;
    }
    for (const auto& key : CLI::detail::split(value, ',')) {
      if (key.empty()) {
        throw std::invalid_argument("--only: \"" + value + "\" has an empty key; give KEY,KEY");
      }
      keys.insert(key);
    }
  }
  return keys;
}

/// Like file_discovery(), but its errors show the format of the file.
Entries read_file(const Globals& globals, DatabaseDiscovery& file, const std::stop_token& stop) {
  if (std::filesystem::is_directory(globals.group)) {
    throw std::invalid_argument("--group: " + globals.group + " is a directory" + file_form);
  }
  try {
    return file.find(stop);
  } catch (const InvalidOperation& error) {
    throw std::invalid_argument("--group: " + std::string{error.what()} + file_form);
  }
}

class GroupDiscovery final : public DatabaseDiscovery {
 public:
  explicit GroupDiscovery(const Globals& globals)
      : globals_(globals), file_(file_discovery(globals.group)) {}

  std::vector<DatabaseEntry> find(const std::stop_token& stop) override {
    auto entries = read_file(globals_, *file_, stop);
    if (globals_.only.empty()) return entries;
    const auto known = keys_of(entries);
    const auto keys = only_keys(globals_, known);
    for (const auto& key : keys) {
      if (!was_read_ && std::ranges::find(known, key) == known.end()) {
        throw std::invalid_argument(unknown_key(globals_, "--only", key, known));
      }
    }
    was_read_ = true;
    std::erase_if(entries, [&](const DatabaseEntry& entry) { return !keys.contains(entry.key); });
    return entries;
  }

  bool has_changed() override { return file_->has_changed(); }

 private:
  const Globals& globals_;
  const std::shared_ptr<DatabaseDiscovery> file_;
  std::atomic<bool> was_read_ = false;
};

}  // namespace

std::shared_ptr<DatabaseDiscovery> group_discovery(const Globals& globals) {
  return std::make_shared<GroupDiscovery>(globals);
}

GroupDatabases read_group(const Globals& globals) {
  GroupDatabases databases;
  PlatformGroup checker({.database = {.log_sink = null_log_sink()}});
  for (auto& entry : group_discovery(globals)->find({})) {
    try {
      if (!entry.error.empty()) throw std::invalid_argument(entry.error);
      checker.add(entry.key, entry.url, entry.schema);
      databases.good.push_back(std::move(entry));
    } catch (const std::invalid_argument& error) {
      databases.bad.push_back({entry.key, error.what()});
    }
  }
  if (databases.good.empty() && databases.bad.empty()) {
    throw std::invalid_argument("--group: [databases] of " + globals.group + " is empty" +
                                file_form);
  }
  return databases;
}

DatabaseEntry find_database(const Globals& globals, const std::string& key) {
  const auto databases = read_group(globals);
  for (const auto& entry : databases.good) {
    if (entry.key == key) return entry;
  }
  auto known = keys_of(databases.good);
  for (const auto& each : databases.bad) {
    if (each.key == key) throw std::invalid_argument(globals.group + ": " + each.error);
    known.push_back(each.key);
  }
  throw std::invalid_argument(unknown_key(globals, "--to", key, known));
}

PlatformGroup open_group(const Globals& globals, GroupOptions options) {
  static_cast<void>(group_discovery(globals)->find({}));  // throws before anything is logged
  PlatformGroup group(std::move(options));
  group.discover(group_discovery(globals), globals.loaded.settings.discover);
  try {
    group.refresh();
  } catch (const std::invalid_argument&) {
    if (group.status().bad_entries.empty()) throw;
  }
  return group;
}

PlatformOptions options_of(const Globals& globals, const DatabaseEntry& entry) {
  auto options = globals.options();
  if (!entry.schema.empty()) options.schema = entry.schema;
  return options;
}

std::string migrate_hint(const Globals& globals) {
  return "For all databases of the group: dovetail migrate --group " + globals.group;
}

std::string count_of_databases(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " database" : " databases");
}

}  // namespace dovetail::cli
