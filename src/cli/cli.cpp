#include "cli/cli.hpp"

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/group_file.hpp"
#include "cli/mistakes.hpp"
#include "cli/server_check.hpp"

namespace dovetail::cli {
namespace {

constexpr std::size_t max_topic_characters = 255;
constexpr int nothing_changed_code = 1;

bool starts_character(char c) {
  return (c & 0xC0) != 0x80;
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, starts_character));
}

std::string on_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
  return text;
}

std::string shown_seconds(std::chrono::milliseconds time) {
  std::ostringstream out;
  out << std::setprecision(12) << std::chrono::duration<double>(time).count();
  return out.str();
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Refuses an empty text, which a script gives by mistake, and a second, different value.
std::function<void(const std::string&)> set_once(const std::string& flag, std::string& target) {
  return [flag, &target](const std::string& value) {
    if (value.empty()) throw CLI::ValidationError(flag, "must not be empty");
    if (!target.empty() && target != value) {
      throw CLI::ValidationError(flag, "is given twice, with different values");
    }
    target = value;
  };
}

std::string no_group(const CLI::App& command) {
  return "`" + path_of(command) +
         "` works on one database: choose it with --only KEY, or give --database instead of "
         "--group "
         "or DOVETAIL_GROUP";
}

/// `--only a,b --only c`
void add_only_option(CLI::App& app, Globals& globals) {
  app.add_option_function<std::vector<std::string>>(
         "--only",
         [&globals](const std::vector<std::string>& values) {
           if (std::ranges::find(values, "") != values.end()) {
             throw CLI::ValidationError("--only", "must not be empty");
           }
           globals.only.insert(globals.only.end(), values.begin(), values.end());
         },
         "Only the databases of the group with these keys; may be repeated")
      ->type_name("KEY[,KEY]")
      ->allow_extra_args(false)
      ->group("");
}

}  // namespace

PlatformOptions Globals::options() const {
  auto options = service_options();
  options.deploy_schema = false;
  return options;
}

PlatformOptions Globals::service_options() const {
  auto options = loaded.settings.platform;
  options.schema = schema;
  options.log_sink = log_sink;
  return options;
}

GroupOptions Globals::group_service_options() const {
  auto options = loaded.settings.group_options();
  options.database = service_options();
  return options;
}

Platform Globals::open() const {
  return Platform::open(database, options());
}

config::Sources Globals::sources(const CLI::App& command) const {
  config::Sources sources{.file = config.empty() ? from_environment("DOVETAIL_CONFIG") : config,
                          .environment = config::process_environment(),
                          .flags = flags,
                          .prefer_database = !group_commands.contains(&command)};
  if (&command == server_command) sources.check = check_server;
  const auto add = [&](const char* name, const char* flag, const std::string& text) {
    if (!text.empty()) sources.flags.push_back({name, flag, text});
  };
  add("database.url", "--database", database);
  add("group.file", "--group", group);
  add("database.schema", "--schema", schema);
  add("database.pooled", "--pooled", pooled ? "true" : "");
  add("log.level", "--log-level", log_level);
  return sources;
}

void Globals::resolve(const CLI::App& command, const std::string& default_schema) {
  loaded_from = sources(command);
  loaded = config::load(loaded_from);
  log_sink = std::make_shared<config::LevelSink>(loaded.settings.log.level,
                                                 spdlog_log_sink(LogLevel::debug));
  database = loaded.settings.url;
  group = loaded.settings.group_file;
  schema =
      loaded.origins.contains("database.schema") ? loaded.settings.platform.schema : default_schema;
  const bool works_on_groups = group_commands.contains(&command);
  if (!group.empty() && !works_on_groups) choose_database(command);
  if (database.empty() && group.empty()) {
    throw std::invalid_argument(
        std::string{"--database is required: give -d sqlite:orders.db or "
                    "-d postgresql://localhost/orders, or set DOVETAIL_DATABASE"} +
        (works_on_groups ? "; for many databases, give --group FILE or set DOVETAIL_GROUP" : ""));
  }
  if (!only.empty() && group.empty()) {
    throw std::invalid_argument("--only chooses databases of a group: give --group FILE, too");
  }
}

void Globals::choose_database(const CLI::App& command) {
  if (only.empty()) throw std::invalid_argument(no_group(command));
  const auto databases = read_group(*this);
  if (databases.good.size() + databases.bad.size() != 1) {
    throw std::invalid_argument(no_group(command));
  }
  if (databases.good.empty()) throw std::invalid_argument(databases.bad.front().error);
  const auto& entry = databases.good.front();
  database = entry.url;
  if (!entry.schema.empty()) schema = entry.schema;
  group.clear();
  only.clear();
}

void add_global_options(CLI::App& app, Globals& globals, const std::string& default_schema) {
  // No envname(): CLI11 applies the variable to every command, so it would override the flag of the
  // command that runs.
  app.add_option_function<std::string>(
         "--config", set_once("--config", globals.config),
         "Configuration file, see `dovetail config`; DOVETAIL_CONFIG if absent")
      ->type_name("FILE");
  app.add_option_function<std::string>(
         "-d,--database", set_once("--database", globals.database),
         "sqlite:<path> or postgresql://…; DOVETAIL_DATABASE if absent")
      ->type_name("URL");
  // Hidden unless allow_group() shows them. Other commands accept them too, to explain the
  // alternative.
  app.add_option_function<std::string>(
         "--group", set_once("--group", globals.group),
         "TOML file with the section [databases], instead of --database; DOVETAIL_GROUP if absent")
      ->type_name("FILE")
      ->group("");
  add_only_option(app, globals);
  app.add_option_function<std::string>(
         "--schema", set_once("--schema", globals.schema),
         "PostgreSQL schema, or prefix of SQLite's tables; DOVETAIL_SCHEMA or " + default_schema +
             " if absent")
      ->type_name("NAME");
  app.add_option("--log-level", globals.log_level, "debug, info, warn, error or off")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->default_str("warn");
  app.add_flag("--pooled", globals.pooled, "PostgreSQL is behind PgBouncer in transaction mode");
}

CLI::App& add_command(CLI::App& parent, Globals& globals, const std::string& name,
                      const std::string& description, std::function<void()> run,
                      const std::string& default_schema) {
  auto& command = *parent.add_subcommand(name, description);
  add_global_options(command, globals, default_schema);
  command.callback([&globals, &command, default_schema, run = std::move(run)] {
    globals.resolve(command, default_schema);
    run();
  });
  return command;
}

void allow_group(CLI::App& command, Globals& globals) {
  for (const auto* name : {"--group", "--only"}) command.get_option(name)->group("Options");
  globals.group_commands.insert(&command);
}

void add_setting(CLI::App& command, Globals& globals, const std::string& flag,
                 const std::string& name, const std::string& description) {
  const auto& setting = config::setting(name);
  const auto set = [&globals, flag, name](const std::string& text) {
    globals.flags.push_back({name, flag, text});
  };
  if (setting.kind == config::Kind::boolean) {
    command.add_flag_callback(
        flag, [set] { set("true"); }, description);
    return;
  }
  if (setting.kind == config::Kind::list) {
    command
        .add_option_function<std::vector<std::string>>(
            flag, [set](const std::vector<std::string>& texts) { set(CLI::detail::join(texts)); },
            description)
        ->allow_extra_args(false);
    return;
  }
  auto& option = *command.add_option_function<std::string>(flag, set, description);
  auto shown = setting.shown(setting.get({}));
  std::erase(shown, '"');
  if (!shown.empty()) option.default_str(shown);
}

CLI::App& add_group(CLI::App& app, Globals& globals, const std::string& name,
                    const std::string& description) {
  auto& group = *app.add_subcommand(name, description);
  group.require_subcommand(1);
  add_global_options(group, globals);
  return group;
}

void print_table(const std::vector<std::string>& headings,
                 const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < headings.size(); ++column) {
    auto width = width_of(headings[column]);
    for (const auto& row : rows) width = std::max(width, width_of(row[column]));
    widths.push_back(width);
  }
  const auto print = [&](const std::vector<std::string>& cells) {
    for (std::size_t column = 0; column < cells.size(); ++column) {
      std::cout << on_one_line(cells[column]);
      if (column + 1 < cells.size())
        std::cout << std::string(widths[column] - width_of(cells[column]) + 2, ' ');
    }
    std::cout << '\n';
  };
  print(headings);
  for (const auto& row : rows) print(row);
}

void print_effect(const Globals& globals, const Effect& effect) {
  if (globals.json) {
    nlohmann::ordered_json answer{{effect.word, effect.count}};
    if (effect.asked) answer["asked"] = *effect.asked;
    std::cout << answer.dump() << '\n';
  } else {
    std::cout << effect.word << ' ' << effect.count;
    if (effect.asked) std::cout << " of " << *effect.asked;
    std::cout << '\n';
  }
  if (!effect.asked || effect.count >= *effect.asked) return;
  std::cerr << "dovetail: " << (effect.count == 0 ? "nothing" : "not everything") << " was "
            << effect.word << ": " << effect.why_not << '\n';
  if (effect.count == 0) throw ExitCode{nothing_changed_code};
}

std::string or_dash(const std::optional<WallTime>& time) {
  return time ? to_string(*time) : "-";
}

std::string shortened(const std::string& text, std::size_t characters) {
  if (width_of(text) <= characters) return text;
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if (starts_character(text[end]) && ++seen == characters) break;
  }
  return text.substr(0, end) + "…";
}

CLI::Validator topic_rule() {
  const auto check = [](const std::string& topic) -> std::string {
    if (!topic.empty() && width_of(topic) <= max_topic_characters) return {};
    return "a topic has 1 to " + std::to_string(max_topic_characters) + " characters";
  };
  return {check, {}};
}

void warn_of_commas(const std::vector<std::string>& topics) {
  for (const auto& topic : topics) {
    if (topic.find(',') == std::string::npos) continue;
    std::cerr << "dovetail: --topic " << topic
              << " names one topic; repeat --topic for several topics\n";
  }
}

std::chrono::milliseconds parse_seconds(const std::string& what, double seconds,
                                        const SecondsRange& range) {
  const std::chrono::duration<double> time{seconds};
  if (!(time >= range.least && time <= range.most)) {
    throw std::out_of_range(what + " must be " + shown_seconds(range.least) + " to " +
                            shown_seconds(range.most) + " seconds");
  }
  return std::chrono::round<std::chrono::milliseconds>(time);
}

}  // namespace dovetail::cli
