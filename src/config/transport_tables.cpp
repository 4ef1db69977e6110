#include "config/transport_tables.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "config/transport_settings.hpp"
#include "core/nearest.hpp"

namespace dovetail::config {
namespace {

using transport::Key;

constexpr const char* brokers_section = "transports";
constexpr std::string_view twin = "_file";

/// The keys of every [[publish]] and [[consume]].
const std::vector<Key>& common_keys(Key::Place place) {
  using Type = Key::Type;
  static const std::vector<Key> connection{{.name = "url", .secret = true}};
  static const std::vector<Key> publish{{.name = "topic"},
                                        {.name = "to"},
                                        {.name = "window", .type = Type::number},
                                        {.name = "timeout", .type = Type::duration},
                                        {.name = "max_attempts", .type = Type::number},
                                        {.name = "on_stream_failure"},
                                        {.name = "first_probe", .type = Type::duration},
                                        {.name = "longest_probe", .type = Type::duration},
                                        {.name = "source"}};
  static const std::vector<Key> consume{{.name = "from"},
                                        {.name = "source"},
                                        {.name = "topic"},
                                        {.name = "prefetch", .type = Type::number}};
  if (place == Key::Place::publish) return publish;
  return place == Key::Place::consume ? consume : connection;
}

/// A table of the file, with the values that it gives as texts.
struct Table {
  std::string place;  // file and line
  transport::Settings given{};
};

class TransportReader {
 public:
  TransportReader(const std::string& path, GivenValues& values, FileExtras& extras)
      : path_(path), values_(values), extras_(extras) {}

  void read(const toml::table& file) {
    if (const auto* section = file.get(brokers_section)) read_brokers(*section);
    read_array(file, "publish", Key::Place::publish);
    read_array(file, "consume", Key::Place::consume);
  }

 private:
  void read_brokers(const toml::node& node) {
    const auto* section = node.as_table();
    if (section == nullptr) {
      return complain(node, "transports must have sections: [transports.NAME]");
    }
    for (const auto& [name, entry] : *section) {
      const auto* table = entry.as_table();
      if (table == nullptr) {
        complain(entry, "transports." + std::string{name.str()} + " must be a section");
      } else {
        add_broker(std::string{name.str()}, *table);
      }
    }
  }

  void add_broker(const std::string& name, const toml::table& table) {
    const auto what = "transports." + name;
    const auto* url = table.get("url");
    const auto* url_file = table.get("url_file");
    if (url == nullptr && url_file == nullptr) return complain(table, what + ".url is missing");
    Table broker{.place = place_of(table)};
    read_key(table, what, common_keys(Key::Place::connection).front(), broker);
    broker.given.url = broker.given.text("url");
    broker.given.values.erase("url");
    if (broker.given.url.empty()) return complain(table, what + ".url must not be empty");
    if (const auto* kind = kind_of(broker)) {
      read_keys(table, what, *kind, Key::Place::connection, broker);
      brokers_.emplace(name, std::move(broker));
    }
  }

  void read_array(const toml::table& file, const char* name, Key::Place place) {
    const auto* node = file.get(name);
    if (node == nullptr) return;
    const auto* array = node->as_array();
    if (array == nullptr) {
      return complain(*node, std::string{name} + " must be an array: [[" + name + "]]");
    }
    for (const auto& each : *array) {
      const auto* table = each.as_table();
      if (table == nullptr) {
        complain(each, std::string{name} + " must be an array of tables: [[" + name + "]]");
      } else {
        add_entry(*table, name, place);
      }
    }
  }

  void add_entry(const toml::table& table, const std::string& name, Key::Place place) {
    const auto problems = values_.count();
    const auto* const link = place == Key::Place::publish ? "to" : "from";
    Table entry{.place = place_of(table)};
    for (const auto& key : common_keys(place)) read_key(table, name, key, entry);
    const auto target = entry.given.find(link);
    if (!target) return complain(table, name + "." + link + " is missing");
    const auto broker = broker_of(*target, name + "." + link, entry.place);
    if (!broker) return;
    const auto* kind = kind_of(*broker);
    if (kind == nullptr) return;
    auto settings = *broker;
    settings.place = entry.place;
    read_keys(table, name, *kind, place, settings);
    if (values_.count() != problems) return;
    try {
      add(*kind, entry.given, settings.given, place);
    } catch (const std::logic_error& error) {  // std::invalid_argument or std::out_of_range
      values_.complain(entry.place, name + ": " + error.what());
    }
  }

  void add(const transport::Kind& kind, const transport::Settings& common,
           const transport::Settings& broker, Key::Place place) {
    if (place == Key::Place::publish) {
      extras_.transports.publish.push_back(publish_settings(kind, common, broker));
    } else {
      extras_.transports.consume.push_back(consume_settings(kind, common, broker));
    }
  }

  /// The broker of this name, or with this URL.
  std::optional<Table> broker_of(const std::string& target, const std::string& what,
                                 const std::string& place) {
    if (target.find("://") != std::string::npos) {
      return Table{.place = place, .given = {.url = target}};
    }
    const auto found = brokers_.find(target);
    if (found != brokers_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, broker] : brokers_) names.push_back(name);
    const auto meant = core::nearest(target, names);
    values_.complain(place, what + ": there is no section [transports." + target + "]" +
                                (meant ? "; did you mean " + *meant + "?" : std::string{}));
    return std::nullopt;
  }

  const transport::Kind* kind_of(const Table& broker) {
    try {
      return &transport::kind_of(broker.given.url);
    } catch (const std::invalid_argument& error) {
      values_.complain(broker.place, error.what());
      return nullptr;
    }
  }

  /// The keys of a kind. All others are mistakes.
  void read_keys(const toml::table& table, const std::string& what, const transport::Kind& kind,
                 Key::Place place, Table& into) {
    std::vector<std::string> known;
    const auto add = [&](const Key& key) {
      known.push_back(key.name);
      if (key.secret) known.push_back(key.name + std::string{twin});
    };
    for (const auto& key : common_keys(place)) add(key);
    for (const auto& key : kind.keys) {
      if (key.place != place) continue;
      add(key);
      read_key(table, what, key, into);
    }
    for (const auto& [name, node] : table) {
      const std::string text{name.str()};
      if (std::ranges::find(known, text) != known.end()) continue;
      const auto meant = core::nearest(text, known);
      complain(node, "there is no setting " + what + "." + text + " of " + kind.name +
                         (meant ? "; did you mean " + *meant + "?" : std::string{}));
    }
  }

  void read_key(const toml::table& table, const std::string& what, const Key& key, Table& into) {
    const auto* node = table.get(key.name);
    const auto* file = key.secret ? table.get(key.name + std::string{twin}) : nullptr;
    if (node != nullptr && file != nullptr) {
      return complain(*file, what + "." + key.name + " is given twice; remove one of them");
    }
    try {
      if (file != nullptr) {
        const auto path = beside_this_file(text_of(*file));
        into.given.values[key.name] = {read_secret(path, extras_.warnings)};
      } else if (node != nullptr) {
        into.given.values[key.name] = texts_of(*node, key);
        const bool is_url = key.name == "url";
        const auto& text = into.given.values[key.name].front();
        extras_.has_secrets = extras_.has_secrets ||
                              (key.secret && (!is_url || transport::without_secrets(text) != text));
      }
    } catch (const std::invalid_argument& error) {
      complain(node != nullptr ? *node : *file, what + "." + key.name + " " + error.what());
    }
  }

  /// Throws std::invalid_argument, whose text follows the name.
  [[nodiscard]] std::vector<std::string> texts_of(const toml::node& node, const Key& key) const {
    using Type = Key::Type;
    if (key.type == Type::list && node.is_array()) {
      std::vector<std::string> texts;
      for (const auto& each : *node.as_array()) texts.push_back(text_of(each));
      if (texts.empty()) throw std::invalid_argument("must not be empty");
      return texts;
    }
    if (key.type == Type::number) {
      if (!node.is_integer()) throw std::invalid_argument("must be a whole number without quotes");
      return {std::to_string(node.as_integer()->get())};
    }
    if (key.type == Type::boolean) {
      if (!node.is_boolean()) throw std::invalid_argument("must be true or false, without quotes");
      return {node.as_boolean()->get() ? "true" : "false"};
    }
    auto text = text_of(node);
    return {key.is_path ? beside_this_file(text) : text};
  }

  static std::string text_of(const toml::node& node) {
    const auto* text = node.as_string();
    if (text == nullptr) throw std::invalid_argument("must be text in quotes");
    return text->get();
  }

  [[nodiscard]] std::string beside_this_file(const std::string& path) const {
    const std::filesystem::path given{path};
    if (path.empty() || given.is_absolute()) return path;
    return (std::filesystem::path{path_}.parent_path() / given).string();
  }
  [[nodiscard]] std::string place_of(const toml::node& node) const {
    return path_ + ":" + std::to_string(node.source().begin.line);
  }
  void complain(const toml::node& node, const std::string& problem) {
    values_.complain(place_of(node), problem);
  }

  const std::string& path_;
  GivenValues& values_;
  FileExtras& extras_;
  std::map<std::string, Table> brokers_;
};

}  // namespace

bool is_transport_section(std::string_view key) {
  return key == brokers_section || key == "publish" || key == "consume";
}

void read_transports(const toml::table& file, const std::string& path, GivenValues& values,
                     FileExtras& extras) {
  TransportReader(path, values, extras).read(file);
}

}  // namespace dovetail::config
