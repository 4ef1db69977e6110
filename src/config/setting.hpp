// The table of all settings. Parsing, validation, the names of environment variables, `dovetail
// config show` and the reference in docs/configuration.md come from it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "config/value.hpp"

namespace dovetail::config {

enum class Secret {
  none,
  whole,  ///< The value is never shown.
  url,    ///< The password in the URL is never shown.
};

/// The allowed values of a number, a size or a duration.
struct Range {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

struct Setting {
  /// `worker`, or `auth.tokens.*`: then there is one value for each entry, such as that of
  /// [auth.tokens.grafana].
  std::string section{};
  std::string key{};
  Kind kind = Kind::text;
  Range range{};
  std::vector<std::string> words{};  ///< Of Kind::word.
  Secret secret = Secret::none;      ///< A secret has a twin: `key_file` names a file that has it.
  bool reloadable = false;           ///< A reload changes it in a running process.
  bool whole_seconds = false;
  std::string variable{};  ///< A short environment variable, in addition to variable_of().
  std::string description{};
  std::function<Value(const Settings&, const std::string& entry)> read{};
  std::function<void(Settings&, const std::string& entry, const Value&)> write{};
  std::function<std::vector<std::string>(const Settings&)> entries{};  ///< Null without entries.
  /// Checks a text. Throws like check().
  std::function<void(const std::string& text)> rule{};

  [[nodiscard]] Value get(const Settings& settings, const std::string& entry = {}) const {
    return read(settings, entry);
  }
  void set(Settings& settings, const Value& value, const std::string& entry = {}) const {
    write(settings, entry, value);
  }
  /// `auth.tokens.grafana`
  [[nodiscard]] std::string section_of(const std::string& entry) const;
  /// `worker.lease`, `auth.tokens.grafana.role`
  [[nodiscard]] std::string name(const std::string& entry = {}) const {
    return section_of(entry) + "." + key;
  }
  /// The allowed values, for people: `100ms to 1d`.
  [[nodiscard]] std::string allowed() const;
  /// Throws std::invalid_argument, whose text follows the words "must be".
  void check(const Value& value) const;
  /// Parses the text of an environment variable or a flag. Throws like check().
  [[nodiscard]] Value parse(std::string_view text) const;
  /// The value as TOML, with secrets hidden.
  [[nodiscard]] std::string shown(const Value& value) const;
};

/// All settings, by section.
[[nodiscard]] std::span<const Setting> table();
/// The setting with this name, which exists.
[[nodiscard]] const Setting& setting(const std::string& name);

/// A setting with a value: for each entry, if it has entries.
struct Place {
  const Setting* setting = nullptr;
  std::string entry{};  ///< Empty without entries.
};
/// All settings with values in `settings`, by section.
[[nodiscard]] std::vector<Place> places_in(const Settings& settings);

/// `DOVETAIL_WORKER__LEASE`
[[nodiscard]] std::string variable_of(const Setting& setting);

/// `url` with its password, and all parameters that may be secret, replaced by `***`.
[[nodiscard]] std::string masked_url(std::string_view url);

}  // namespace dovetail::config
