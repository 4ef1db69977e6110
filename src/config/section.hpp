// How the table of settings is written: one call per setting.
#pragma once

#include <chrono>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/setting.hpp"

namespace dovetail::config {

using Table = std::vector<Setting>;

/// The words of a setting and their meanings.
template <class Enum>
using Words = std::vector<std::pair<std::string, Enum>>;

template <class Field>
constexpr bool is_seconds = std::is_same_v<Field, std::chrono::seconds>;

/// Fields that are a Value as they are.
template <class Field>
constexpr bool is_value = std::is_same_v<Field, bool> || std::is_same_v<Field, std::string> ||
                          std::is_same_v<Field, std::vector<std::string>>;

/// The setting with access to its field. `field` returns a reference into a Settings.
template <class Field>
Setting with_field(Setting setting, Field field) {
  using Type = std::remove_cvref_t<decltype(field(std::declval<Settings&>()))>;
  setting.whole_seconds = is_seconds<Type>;
  setting.read = [field](const Settings& settings, const std::string&) -> Value {
    const auto& value = field(settings);
    if constexpr (is_value<Type>) {
      return value;
    } else if constexpr (std::is_integral_v<Type>) {
      return static_cast<std::int64_t>(value);
    } else {
      return std::chrono::milliseconds{value}.count();
    }
  };
  setting.write = [field](Settings& settings, const std::string&, const Value& value) {
    auto& target = field(settings);
    if constexpr (is_value<Type>) {
      target = std::get<Type>(value);
    } else if constexpr (std::is_integral_v<Type>) {
      target = static_cast<Type>(std::get<std::int64_t>(value));
    } else {
      target = std::chrono::duration_cast<Type>(
          std::chrono::milliseconds{std::get<std::int64_t>(value)});
    }
  };
  return setting;
}

/// The settings of one section.
class Section {
 public:
  Section(Table& table, std::string name) : table_(table), name_(std::move(name)) {}

  template <class Field>
  Setting& text(const char* key, Field field, const char* description) {
    return add(key, Kind::text, field, description);
  }
  template <class Field>
  Setting& path(const char* key, Field field, const char* description) {
    return add(key, Kind::path, field, description);
  }
  template <class Field>
  Setting& list(const char* key, Field field, const char* description) {
    return add(key, Kind::list, field, description);
  }
  template <class Field>
  Setting& boolean(const char* key, Field field, const char* description) {
    return add(key, Kind::boolean, field, description);
  }
  template <class Field>
  Setting& number(const char* key, Range range, Field field, const char* description) {
    auto& added = add(key, Kind::number, field, description);
    added.range = range;
    return added;
  }
  template <class Field>
  Setting& limit(const std::string& key, Field field, const std::string& description) {
    auto& added = add(key, Kind::limit, field, description);
    added.range = {0, std::numeric_limits<std::int64_t>::max()};
    return added;
  }
  template <class Field>
  Setting& size(const char* key, Range range, Field field, const char* description) {
    auto& added = add(key, Kind::size, field, description);
    added.range = range;
    return added;
  }
  template <class Field>
  Setting& duration(const char* key, std::chrono::milliseconds least,
                    std::chrono::milliseconds most, Field field, const char* description) {
    auto& added = add(key, Kind::duration, field, description);
    added.range = {least.count(), most.count()};
    return added;
  }
  template <class Enum, class Field>
  Setting& word(const char* key, const Words<Enum>& words, Field field, const char* description) {
    Setting setting{.section = name_, .key = key, .kind = Kind::word, .description = description};
    for (const auto& [word, value] : words) setting.words.push_back(word);
    setting.read = [words, field](const Settings& settings, const std::string&) -> Value {
      for (const auto& [word, value] : words) {
        if (value == field(settings)) return word;
      }
      return std::string{};
    };
    setting.write = [words, field](Settings& settings, const std::string&, const Value& given) {
      for (const auto& [word, value] : words) {
        if (word == std::get<std::string>(given)) field(settings) = value;
      }
    };
    return table_.emplace_back(std::move(setting));
  }

 private:
  template <class Field>
  Setting& add(const std::string& key, Kind kind, Field field, const std::string& description) {
    return table_.emplace_back(with_field(
        Setting{.section = name_, .key = key, .kind = kind, .description = description}, field));
  }

  Table& table_;
  std::string name_;
};

/// A field of a part: `within(&Settings::platform, &PlatformOptions::worker)`.
template <class First, class... More>
auto within(First first, More... more) {
  return [=](auto& settings) -> auto& {
    auto&& part = settings.*first;
    if constexpr (sizeof...(more) == 0) {
      return part;
    } else {
      return within(more...)(part);
    }
  };
}

/// The settings of `dovetail server`.
void add_server(Table& table);
void add_auth(Table& table);
void add_health(Table& table);
void add_tracing(Table& table);
void add_webhooks(Table& table);

}  // namespace dovetail::config
