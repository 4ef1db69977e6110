// Reads the configuration of a process: flags > environment > file > defaults.
//
// Guarantees
//   * All mistakes are reported at once, each with its place: file and line, variable or flag.
//   * Unknown names and values out of range are mistakes.
//   * Neither mistakes nor descriptions contain secrets.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/setting.hpp"
#include "config/settings.hpp"

namespace dovetail::config {

/// Where a value comes from. A greater layer overrides a smaller one.
enum class Layer { defaults, file, environment, flag };

[[nodiscard]] std::string_view to_string(Layer layer);

struct Origin {
  Layer layer = Layer::defaults;
  std::string place{};  ///< `dovetail.toml:12`, `DOVETAIL_WORKER__LEASE`, `--schema`; or empty.
};

/// A flag of the command line that is a setting.
struct FlagValue {
  std::string name;  ///< Of the setting.
  std::string flag;  ///< For people: `--schema`.
  std::string text;
};

/// What a part of the process would refuse, or warn of.
struct Findings {
  struct Problem {
    std::string setting{};  ///< Its name: `server.address`.
    std::string text{};
  };
  std::vector<Problem> problems{};
  std::vector<std::string> warnings{};
};

struct Sources {
  std::string file{};                      ///< The path of the configuration file; empty: none.
  std::vector<std::string> environment{};  ///< Texts such as `DOVETAIL_WORKER__LEASE=30s`.
  std::vector<FlagValue> flags{};
  /// Of a database and a group in the environment, the database is used. For commands that work on
  /// one database.
  bool prefer_database = false;
  /// Checks what the table of settings cannot, such as files and the relations of settings. Called
  /// if there are no other mistakes.
  std::function<Findings(const Settings&)> check{};
};

struct Loaded {
  Settings settings{};
  std::map<std::string, Origin> origins{};  ///< By name; without those that have their defaults.
  /// Files with secrets that everybody can read, and the warnings of Sources::check.
  std::vector<std::string> warnings{};

  [[nodiscard]] Origin origin_of(const std::string& name) const;
};

/// The configuration has mistakes.
class ConfigError : public std::invalid_argument {
 public:
  explicit ConfigError(std::vector<std::string> problems);
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<std::string> problems_;
};

/// The environment of this process.
[[nodiscard]] std::vector<std::string> process_environment();

/// Throws ConfigError.
[[nodiscard]] Loaded load(const Sources& sources);

}  // namespace dovetail::config
