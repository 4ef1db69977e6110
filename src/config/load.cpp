#include "config/load.hpp"

#include <algorithm>
#include <array>

#include "config/given.hpp"
#include "core/text.hpp"
#include "dovetail/clock.hpp"
#include "runtime/engines.hpp"

namespace dovetail::config {
namespace {

constexpr const char* url_name = "database.url";
constexpr const char* group_name = "group.file";

std::string joined(const Problems& problems) {
  std::string text;
  for (const auto& problem : problems) text += (text.empty() ? "" : "\n") + problem;
  return text;
}

/// Puts the layers together.
class Loader {
 public:
  explicit Loader(const Sources& sources) : sources_(sources) {}

  Loaded load() {
    GivenValues file(problems_);
    GivenValues environment(problems_);
    GivenValues flags(problems_);
    FileExtras extras;
    if (!sources_.file.empty()) read_file(sources_.file, file, extras);
    read_environment(sources_.environment, environment);
    read_flags(sources_.flags, flags);
    std::map<std::string, Given> effective;
    for (const auto* layer : {&file, &environment, &flags}) {
      for (const auto& [name, given] : layer->all()) effective.insert_or_assign(name, given);
    }
    choose_database(effective);
    for (const auto& [name, given] : effective) apply(name, given);
    apply(std::move(extras));
    check_url();
    check_polls();
    check_entries();
    if (problems_.empty() && sources_.check) check_further();
    if (!problems_.empty()) throw ConfigError(problems_);
    return std::move(loaded_);
  }

 private:
  void complain(const Origin& origin, const std::string& problem) {
    problems_.push_back(origin.place.empty() ? problem : origin.place + ": " + problem);
  }

  /// One database or a group: the greater layer decides.
  void choose_database(std::map<std::string, Given>& effective) {
    const auto url = effective.find(url_name);
    const auto group = effective.find(group_name);
    if (url == effective.end() || group == effective.end()) return;
    const auto one = url->second.origin;
    const auto many = group->second.origin;
    if (one.layer < many.layer) {
      effective.erase(url);
    } else if (one.layer > many.layer ||
               (sources_.prefer_database && one.layer == Layer::environment)) {
      effective.erase(group);
    } else {
      problems_.push_back(two_databases(one, many));
    }
  }

  static std::string two_databases(const Origin& one, const Origin& many) {
    if (one.layer == Layer::flag)
      return "--database and --group are both given: --database names one database, --group a file "
             "with many; give one of them";
    if (one.layer == Layer::environment)
      return one.place + " and " + many.place +
             " are both set: give --database or --group, or unset one of them";
    return one.place + ": database.url names one database, and " + many.place +
           " a group of many; remove one of them";
  }

  void apply(const std::string& name, const Given& given) {
    auto value = given.value;
    if (given.secret_file.empty()) {
      warn_of_readable_file(given);
    } else {
      try {
        value = given.at.setting->parse(read_secret(given.secret_file, loaded_.warnings));
        given.at.setting->check(value);
      } catch (const std::invalid_argument& error) {
        complain(given.origin, name + "_file: " + error.what());
        return;
      }
    }
    given.at.setting->set(loaded_.settings, value, given.at.entry);
    loaded_.origins.insert_or_assign(name, given.origin);
  }

  void apply(FileExtras extras) {
    auto& settings = loaded_.settings;
    settings.transports = std::move(extras.transports);
    std::ranges::move(extras.warnings, std::back_inserter(loaded_.warnings));
    if (extras.has_secrets) warn_of_readable_file();
    if (settings.transports.empty() || settings.group_file.empty()) return;
    problems_.push_back(sources_.file +
                        ": [[publish]] and [[consume]] work on one database, not on a group");
  }

  void warn_of_readable_file(const Given& given) {
    const auto secret = given.at.setting->secret;
    if (secret == Secret::none || given.origin.layer != Layer::file) return;
    const auto* text = std::get_if<std::string>(&given.value);
    const bool is_public = secret == Secret::url && text != nullptr && masked_url(*text) == *text;
    if (!is_public) warn_of_readable_file();
  }

  /// Once for the file.
  void warn_of_readable_file() {
    if (warned_of_file_ || !everybody_can_read(sources_.file)) return;
    warned_of_file_ = true;
    loaded_.warnings.push_back(readable_secret(sources_.file));
  }

  /// Does not connect.
  void check_url() {
    const auto check = [&](const char* name, const auto& checked) {
      try {
        checked();
      } catch (const std::invalid_argument& error) {
        complain(loaded_.origin_of(name), error.what());
      }
    };
    const auto& settings = loaded_.settings;
    if (loaded_.origins.contains(url_name)) {
      check(url_name, [&] {
        static_cast<void>(runtime::open_database(settings.url, {.clock = system_clock()}));
      });
    }
    check("database.schema", [&] { core::require_identifier("schema", settings.platform.schema); });
  }

  /// The default of the one gives way to a value of the other.
  void check_polls() {
    auto& worker = loaded_.settings.platform.worker;
    if (worker.idle_poll_interval >= worker.poll_interval) return;
    const auto idle = loaded_.origin_of("worker.idle_poll_interval");
    if (idle.layer == Layer::defaults) {
      worker.idle_poll_interval = worker.poll_interval;
    } else if (loaded_.origin_of("worker.poll_interval").layer == Layer::defaults) {
      worker.poll_interval = worker.idle_poll_interval;
    } else {
      complain(idle, "worker.idle_poll_interval must not be less than worker.poll_interval");
    }
  }

  /// Tokens and users need their secrets.
  void check_entries() {
    for (const auto& [setting, entry] : places_in(loaded_.settings)) {
      if (entry.empty() || setting->secret == Secret::none) continue;
      const auto section = setting->section_of(entry) + ".";
      if (!std::get<std::string>(setting->get(loaded_.settings, entry)).empty()) continue;
      const auto given = loaded_.origins.lower_bound(section);
      complain(given->second, setting->name(entry) + " is missing");
    }
  }

  void check_further() {
    const auto found = sources_.check(loaded_.settings);
    for (const auto& [setting, text] : found.problems) complain(loaded_.origin_of(setting), text);
    auto& warnings = loaded_.warnings;
    warnings.insert(warnings.end(), found.warnings.begin(), found.warnings.end());
  }

  const Sources& sources_;
  Problems problems_;
  Loaded loaded_;
  bool warned_of_file_ = false;
};

}  // namespace

GroupOptions Settings::group_options() const {
  auto options = group;
  options.database = platform;
  if (selection == "drain_first") options.selection = drain_first();
  if (selection == "fair") options.selection = fair();
  return options;
}

std::string_view to_string(Layer layer) {
  constexpr std::array<std::string_view, 4> names{"default", "file", "environment", "flag"};
  return names.at(static_cast<std::size_t>(layer));
}

Origin Loaded::origin_of(const std::string& name) const {
  const auto found = origins.find(name);
  return found == origins.end() ? Origin{} : found->second;
}

ConfigError::ConfigError(std::vector<std::string> problems)
    : std::invalid_argument(joined(problems)), problems_(std::move(problems)) {}

Loaded load(const Sources& sources) {
  return Loader(sources).load();
}

}  // namespace dovetail::config
