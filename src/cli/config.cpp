// The configuration: `config check`, `config show`, `config example`.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/cli.hpp"
#include "cli/server_check.hpp"
#include "config/show.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;

constexpr int mistakes_found_code = 1;

void check_config(Globals& globals, const CLI::App& command, const std::string& file) {
  if (!file.empty()) {
    if (!globals.config.empty() && globals.config != file)
      throw std::invalid_argument("FILE and --config name different files; give one of them");
    globals.config = file;
  }
  try {
    auto sources = globals.sources(command);
    sources.check = check_server;
    const auto loaded = config::load(sources);
    for (const auto& warning : loaded.warnings) std::cerr << "warning: " << warning << '\n';
    std::cout << "the configuration is correct\n";
  } catch (const config::ConfigError& error) {
    for (const auto& problem : error.problems()) std::cerr << problem << '\n';
    std::cerr << error.problems().size()
              << (error.problems().size() == 1 ? " mistake" : " mistakes") << '\n';
    throw ExitCode{mistakes_found_code};
  }
}

ordered_json value_json(const config::Setting& setting, const config::Value& value) {
  if (setting.secret == config::Secret::none) {
    if (const auto* boolean = std::get_if<bool>(&value)) return *boolean;
    const auto* number = std::get_if<std::int64_t>(&value);
    const bool is_plain = setting.shown(value).find('"') == std::string::npos;
    if (number != nullptr && is_plain) return *number;
    if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return *list;
  }
  if (value == config::Value{std::string{}}) return nullptr;
  const auto shown = setting.shown(value);  // a TOML string, which is a JSON string, too
  return ordered_json::parse(shown);
}

/// The object of a section such as `auth.tokens.grafana`.
ordered_json& section_in(ordered_json& answer, const std::string& section) {
  auto* place = &answer;
  for (const auto& name : CLI::detail::split(section, '.')) place = &(*place)[name];
  return *place;
}

ordered_json config_json(const config::Loaded& loaded) {
  ordered_json answer;
  for (const auto& [setting, entry] : config::places_in(loaded.settings)) {
    const auto origin = loaded.origin_of(setting->name(entry));
    ordered_json shown{{"value", value_json(*setting, setting->get(loaded.settings, entry))},
                       {"origin", config::to_string(origin.layer)}};
    if (!origin.place.empty()) shown["place"] = origin.place;
    section_in(answer, setting->section_of(entry))[setting->key] = std::move(shown);
  }
  return answer;
}

void show_config(const Globals& globals, const CLI::App& command, bool with_origin) {
  const auto loaded = config::load(globals.sources(command));
  if (globals.json) {
    std::cout << config_json(loaded).dump(2) << '\n';
  } else {
    std::cout << config::shown_toml(loaded, with_origin);
  }
}

}  // namespace

void add_config(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "config", "The configuration; see docs/configuration.md");
  const auto file = std::make_shared<std::string>();
  auto& check = *group.add_subcommand(
      "check", "Check the configuration file and the environment, and name all mistakes");
  add_global_options(check, globals);
  check.add_option("FILE", *file, "The configuration file; --config or DOVETAIL_CONFIG if absent");
  check.callback([&globals, &check, file] { check_config(globals, check, *file); });
  check.footer("Exit code: 0: correct. 1: mistakes. 2: the call is wrong. It does not connect.");

  const auto with_origin = std::make_shared<bool>(false);
  auto& show = *group.add_subcommand("show", "Show the effective settings; secrets are hidden");
  add_global_options(show, globals);
  show.add_flag("--origin", *with_origin, "Say where each value comes from");
  show.add_flag("--json", globals.json, "Answer in JSON, with origins");
  show.callback([&globals, &show, with_origin] { show_config(globals, show, *with_origin); });

  group
      .add_subcommand("example", "Print a configuration file with all settings and their defaults")
      ->callback([] { std::cout << config::example_file(); });
}

}  // namespace dovetail::cli
