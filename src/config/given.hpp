// The values that one layer gives, before the layers are put together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/load.hpp"

namespace dovetail::config {

using Problems = std::vector<std::string>;

struct Given {
  Place at{};
  Value value{};
  Origin origin{};
  std::string secret_file{};  ///< The value of the twin `key_file`; then `value` is not used.

  [[nodiscard]] std::string name() const { return at.setting->name(at.entry); }
};

/// The values of one layer, by name.
class GivenValues {
 public:
  explicit GivenValues(Problems& problems) : problems_(problems) {}

  /// Two values of one setting are a mistake.
  void add(Given given);
  void complain(const std::string& place, const std::string& problem) {
    problems_.push_back(place + ": " + problem);
  }
  [[nodiscard]] const std::map<std::string, Given>& all() const { return values_; }
  /// The number of mistakes so far, of all layers.
  [[nodiscard]] std::size_t count() const { return problems_.size(); }

 private:
  Problems& problems_;
  std::map<std::string, Given> values_;
};

/// A name of a setting, or of the twin of a secret.
struct NamedSetting {
  Place at{};  ///< Without a setting: there is none of that name.
  bool is_file_twin = false;
};
/// `section` names the entry: `auth.tokens.grafana`.
[[nodiscard]] NamedSetting setting_named(const std::string& section, const std::string& key);

/// Whether `name` is a section, or the first part of one.
[[nodiscard]] bool is_section(const std::string& name);
/// "; did you mean worker?", or a list of what there is.
[[nodiscard]] std::string section_hint(const std::string& name);
[[nodiscard]] std::string key_hint(const std::string& section, const std::string& key);

/// `worker.lease must be 100ms to 1d, got "5ms"`. The value of a secret is left out.
[[nodiscard]] std::string bad_value(const Place& at, const std::string& must_be,
                                    const std::string& got);

/// What a file has beside the table of settings.
struct FileExtras {
  TransportSettings transports{};
  std::vector<std::string> warnings{};
  bool has_secrets = false;  ///< Of transports, in the file itself.
};

/// Reads the file, and adds its mistakes.
void read_file(const std::string& path, GivenValues& values, FileExtras& extras);
void read_environment(const std::vector<std::string>& environment, GivenValues& values);
void read_flags(const std::vector<FlagValue>& flags, GivenValues& values);

/// The text of the file that has a secret, without its last line break. Throws
/// std::invalid_argument. Adds a warning when everybody can read the file.
[[nodiscard]] std::string read_secret(const std::string& path, std::vector<std::string>& warnings);

[[nodiscard]] bool everybody_can_read(const std::string& path);
/// The warning about a file with a secret that everybody can read.
[[nodiscard]] std::string readable_secret(const std::string& path);

}  // namespace dovetail::config
