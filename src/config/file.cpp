// The configuration file.
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include "config/given.hpp"
#include "config/read_text.hpp"
#include "config/transport_tables.hpp"

namespace dovetail::config {
namespace {

constexpr const char* databases_section = "databases";

struct Entry {
  std::string key;
  toml::source_position place;
  const toml::node* node;
};

/// A TOML table has no order: in the order of the file.
std::vector<Entry> entries_of(const toml::table& table) {
  std::vector<Entry> entries;
  for (const auto& [key, node] : table)
    entries.push_back({std::string{key.str()}, key.source().begin, &node});
  std::ranges::sort(entries, {}, [](const Entry& each) {
    return std::tuple{each.place.line, each.key};
  });
  return entries;
}

std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return toml_string(text->get());
  std::ostringstream out;
  node.visit([&out](const auto& each) { out << each; });
  return out.str();
}

Value list_of(const toml::array& array) {
  std::vector<std::string> list;
  for (const auto& each : array) {
    const auto* text = each.as_string();
    if (text == nullptr) throw std::invalid_argument("an array of texts in quotes");
    list.push_back(text->get());
  }
  return list;
}

/// The value, which may be out of range. Throws std::invalid_argument, whose text follows "must
/// be".
Value value_of(const Setting& setting, const toml::node& node) {
  const bool is_number =
      setting.kind == Kind::number || setting.kind == Kind::size || setting.kind == Kind::limit;
  if (const auto* number = node.as_integer(); number != nullptr && is_number) return number->get();
  if (const auto* boolean = node.as_boolean(); boolean != nullptr && setting.kind == Kind::boolean)
    return boolean->get();
  if (const auto* array = node.as_array(); array != nullptr && setting.kind == Kind::list)
    return list_of(*array);
  const auto* text = node.as_string();
  switch (setting.kind) {
    case Kind::number:
      throw std::invalid_argument("a whole number without quotes");
    case Kind::boolean:
      throw std::invalid_argument("true or false, without quotes");
    case Kind::list:
      throw std::invalid_argument("an array of texts in quotes");
    case Kind::duration:
    case Kind::size:
    case Kind::limit:
      return setting.parse(text != nullptr ? text->get() : std::string{});
    case Kind::text:
    case Kind::path:
    case Kind::word:
      if (text == nullptr) throw std::invalid_argument("text in quotes");
  }
  return text->get();
}

class FileReader {
 public:
  FileReader(std::string path, GivenValues& values, FileExtras& extras)
      : path_(std::move(path)), values_(values), extras_(extras) {}

  void read(const toml::table& file) {
    read_transports(file, path_, values_, extras_);
    for (const auto& [key, place, node] : entries_of(file)) {
      const auto* section = node->as_table();
      if (is_transport_section(key)) continue;
      if (key == databases_section) {
        add_databases(place, section != nullptr);
      } else if (!is_section(key)) {
        complain(place, unknown_at_top(key, section != nullptr));
      } else {
        read_node(key, place, *node);
      }
    }
  }

 private:
  [[nodiscard]] std::string line_of(const toml::source_position& place) const {
    return path_ + ":" + std::to_string(place.line);
  }
  void complain(const toml::source_position& place, const std::string& problem) {
    values_.complain(line_of(place), problem);
  }

  static std::string unknown_at_top(const std::string& key, bool is_table) {
    if (is_table) return "there is no section [" + key + "]" + section_hint(key);
    return "there is no setting " + key + " outside of the sections" + key_hint("", key);
  }

  void read_node(const std::string& section, const toml::source_position& place,
                 const toml::node& node) {
    if (const auto* table = node.as_table()) return read_section(section, *table);
    complain(place, section + " must be a section: [" + section + "]");
  }

  void read_section(const std::string& section, const toml::table& table) {
    for (const auto& [key, place, node] : entries_of(table)) {
      const auto [at, is_twin] = setting_named(section, key);
      const auto name = section + "." + key;
      if (at.setting == nullptr && is_section(name)) {
        read_node(name, place, *node);
      } else if (at.setting == nullptr) {
        complain(place, "there is no setting " + name + key_hint(section, key));
      } else if (is_twin) {
        add_twin(at, place, *node);
      } else {
        add(at, place, *node);
      }
    }
  }

  void add(const Place& at, const toml::source_position& place, const toml::node& node) {
    try {
      auto value = value_of(*at.setting, node);
      at.setting->check(value);
      if (at.setting->kind == Kind::path) value = beside_this_file(std::get<std::string>(value));
      values_.add({.at = at, .value = std::move(value), .origin = origin(place)});
    } catch (const std::invalid_argument& error) {
      complain(place, bad_value(at, error.what(), text_of(node)));
    }
  }

  void add_twin(const Place& at, const toml::source_position& place, const toml::node& node) {
    const auto* text = node.as_string();
    if (text == nullptr || text->get().empty()) {
      complain(place, at.setting->name(at.entry) + "_file must be the path of a file, in quotes");
      return;
    }
    values_.add({.at = at, .origin = origin(place), .secret_file = beside_this_file(text->get())});
  }

  /// The group is in this file.
  void add_databases(const toml::source_position& place, bool is_table) {
    if (!is_table) return complain(place, "databases must be a section: [databases]");
    values_.add({.at = setting_named("group", "file").at, .value = path_, .origin = origin(place)});
  }

  [[nodiscard]] Origin origin(const toml::source_position& place) const {
    return {Layer::file, line_of(place)};
  }
  [[nodiscard]] std::string beside_this_file(const std::string& path) const {
    const std::filesystem::path given{path};
    if (path.empty() || given.is_absolute()) return path;
    return (std::filesystem::path{path_}.parent_path() / given).string();
  }

  const std::string path_;
  GivenValues& values_;
  FileExtras& extras_;
};

}  // namespace

void read_file(const std::string& path, GivenValues& values, FileExtras& extras) {
  try {
    const auto text = read_text(path);
    FileReader(path, values, extras).read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    values.complain(path + ":" + std::to_string(error.source().begin.line),
                    std::string{error.description()});
  } catch (const std::system_error& error) {
    values.complain(path, "cannot be read: " + error.code().message());
  }
}

}  // namespace dovetail::config
