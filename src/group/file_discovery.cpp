#include <sys/stat.h>

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "dovetail/discovery.hpp"
#include "dovetail/error.hpp"

namespace dovetail {
namespace {

/// Identifies a version of a file.
struct FileStamp {
  ino_t inode = 0;
  off_t size = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// Returns nullopt if there is no such file.
std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileStamp{found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

class FileDiscovery final : public DatabaseDiscovery {
 public:
  explicit FileDiscovery(std::string path) : path_(std::move(path)) {}

  std::vector<DatabaseEntry> find(const std::stop_token& /*stop*/) override {
    {
      // Taken before the file is read: has_changed() then detects a change in between.
      const auto stamp = stamp_of(path_);
      const std::lock_guard lock(mutex_);
      seen_ = stamp;
      was_read_ = true;
    }
    return entries_of(parsed());
  }

  bool has_changed() override {
    const auto stamp = stamp_of(path_);
    const std::lock_guard lock(mutex_);
    return was_read_ && stamp != seen_;
  }

 private:
  [[noreturn]] void fail(const toml::node& node, const std::string& problem) const {
    fail(node.source(), problem);
  }
  [[noreturn]] void fail(const toml::source_region& place, const std::string& problem) const {
    throw InvalidOperation(located(place, problem));
  }
  [[nodiscard]] std::string located(const toml::source_region& place,
                                    const std::string& problem) const {
    return path_ + ":" + std::to_string(place.begin.line) + ": " + problem;
  }

  [[nodiscard]] std::string text() const {
    errno = 0;
    std::ifstream file(path_, std::ios::binary);
    std::string text;
    for (std::array<char, 4096> part{}; file;) {
      file.read(part.data(), part.size());
      text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    }
    if (!file.is_open() || file.bad()) {
      throw InvalidOperation("cannot read " + path_ + ": " + std::strerror(errno));
    }
    return text;
  }

  [[nodiscard]] toml::table parsed() const {
    const auto content = text();
    try {
      return toml::parse(content);
    } catch (const toml::parse_error& error) {
      fail(error.source(), std::string{error.description()});
    }
  }

  [[nodiscard]] std::vector<DatabaseEntry> entries_of(const toml::table& file) const {
    const auto* databases = file.get("databases");
    if (databases == nullptr) {
      throw InvalidOperation(path_ + ": there is no table [databases]; it may be empty");
    }
    if (!databases->is_table()) fail(*databases, "databases must be a table: [databases]");
    std::vector<std::pair<toml::source_position, DatabaseEntry>> placed;
    for (const auto& [key, node] : *databases->as_table()) {
      placed.emplace_back(key.source().begin, entry_of(std::string{key.str()}, node));
    }
    // A TOML table has no order. The group has the order of the file.
    std::ranges::stable_sort(placed, {}, [](const auto& each) {
      return std::pair{each.first.line, each.first.column};
    });
    std::vector<DatabaseEntry> entries;
    entries.reserve(placed.size());
    for (auto& [place, entry] : placed) entries.push_back(std::move(entry));
    return entries;
  }

  /// A bad entry does not affect the others.
  [[nodiscard]] DatabaseEntry entry_of(std::string key, const toml::node& node) const {
    if (const auto* url = node.as_string()) return {.key = std::move(key), .url = url->get()};
    DatabaseEntry entry{.key = std::move(key)};
    const auto bad = [&](const toml::node& place, const std::string& problem) {
      return DatabaseEntry{.key = entry.key, .error = located(place.source(), problem)};
    };
    const auto* table = node.as_table();
    if (table == nullptr) return bad(node, entry.key + " must be a URL, or a table with a url");
    for (const auto& [field, value] : *table) {
      auto* target = field.str() == "url"      ? &entry.url
                     : field.str() == "schema" ? &entry.schema
                                               : nullptr;
      const auto name = entry.key + "." + std::string{field.str()};
      if (target == nullptr) {
        return bad(value, name + " is unknown: a database has url and schema");
      }
      if (!value.is_string()) return bad(value, name + " must be text in quotes");
      *target = value.as_string()->get();
    }
    if (!table->contains("url")) return bad(node, entry.key + " has no url");
    return entry;
  }

  const std::string path_;
  std::mutex mutex_;
  std::optional<FileStamp> seen_;
  bool was_read_ = false;
};

}  // namespace

std::shared_ptr<DatabaseDiscovery> file_discovery(std::string path) {
  if (path.empty()) throw std::invalid_argument("file_discovery: the path is empty");
  return std::make_shared<FileDiscovery>(std::move(path));
}

}  // namespace dovetail
