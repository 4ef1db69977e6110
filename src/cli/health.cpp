#include <algorithm>
#include <fstream>
#include <iostream>

#include "cli/ask_each.hpp"
#include "cli/cli.hpp"
#include "cli/http_get.hpp"
#include "dovetail/error.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

/// The time limit of a report, and of opening a database.
constexpr milliseconds probe_timeout{2'000};
/// A server answers within its time limit, and a little more.
constexpr milliseconds url_timeout{5'000};
constexpr milliseconds group_timeout{10'000};
constexpr int could_not_ask = 2;

struct HealthArguments {
  std::string question = "all";
  std::string url;
  std::string token_file;
  std::string ca_file;
  std::vector<std::string> tags;
  bool strict = false;
};

[[noreturn]] void give_up(const std::string& why) {
  std::cerr << "dovetail: " << why << '\n';
  throw ExitCode{could_not_ask};
}

HealthReport failed_report(const char* check, const std::exception& error) {
  return {.status = HealthStatus::unhealthy,
          .checks = {{.name = check,
                      .status = HealthStatus::unhealthy,
                      .description = error.what(),
                      .tags = {"database"}}}};
}

HealthReport ask_platform(Platform& platform, const HealthArguments& arguments) {
  return arguments.question == "ready" ? platform.health().ready() : platform.health().all();
}

HealthReport ask_database(const Globals& globals, const HealthArguments& arguments) {
  auto options = globals.options();
  options.connect_timeout = probe_timeout;
  try {
    auto platform = Platform::open(globals.database, options);
    return ask_platform(platform, arguments);
  } catch (const SchemaMismatch& error) {
    return failed_report("schema", error);
  } catch (const Error& error) {
    return failed_report("database", error);
  }
}

// --- a running server

std::string token_of(const std::string& file) {
  if (file.empty()) return {};
  std::ifstream stream(file);
  std::string token;
  if (!std::getline(stream, token) || token.empty()) {
    give_up("--token-file " + file + " cannot be read, or is empty");
  }
  return token;
}

HealthStatus status_named(const ordered_json& name) {
  for (const auto status :
       {HealthStatus::healthy, HealthStatus::degraded, HealthStatus::unhealthy}) {
    if (name == std::string{to_string(status)}) return status;
  }
  throw std::runtime_error("the answer has an unknown status");
}

std::chrono::microseconds duration_of(const ordered_json& milliseconds_number) {
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::duration<double, std::milli>{milliseconds_number.get<double>()});
}

HealthReport report_from(const ordered_json& answer) {
  HealthReport report{.status = status_named(answer.at("status")),
                      .checks = {},
                      .total_duration = duration_of(answer.at("total_duration_ms"))};
  for (const auto& each : answer.at("checks")) {
    report.checks.push_back({.name = each.at("name"),
                             .status = status_named(each.at("status")),
                             .duration = duration_of(each.at("duration_ms")),
                             .description = each.at("description"),
                             .data = each.at("data"),
                             .tags = each.at("tags")});
  }
  return report;
}

HealthReport ask_server(const HealthArguments& arguments) {
  const auto path =
      arguments.question == "all" ? std::string{"/health"} : "/health/" + arguments.question;
  try {
    const auto answer = http_get({.url = arguments.url,
                                  .path = path,
                                  .bearer_token = token_of(arguments.token_file),
                                  .ca_file = arguments.ca_file,
                                  .limit = url_timeout});
    if (answer.status == 401 || answer.status == 403) {
      give_up(arguments.url + path + " refuses to answer (" + std::to_string(answer.status) +
              "): give --token-file with the token of a viewer");
    }
    if (answer.status != 200 && answer.status != 503) {
      give_up(arguments.url + path + " answered with the status " + std::to_string(answer.status));
    }
    return report_from(ordered_json::parse(answer.body));
  } catch (const std::runtime_error& error) {
    give_up("cannot ask " + arguments.url + path + ": " + error.what());
  } catch (const nlohmann::json::exception&) {
    give_up(arguments.url + path + " did not answer with a health report");
  }
}

// --- tags

bool has_tag(const HealthReport& report, const std::string& tag) {
  return std::ranges::any_of(report.checks, [&](const HealthCheck& check) {
    return std::ranges::find(check.tags, tag) != check.tags.end();
  });
}

/// A tag that no check has is a mistake of the call, and not a healthy answer.
void require_tags(const std::vector<HealthReport>& reports, const std::vector<std::string>& tags) {
  for (const auto& tag : tags) {
    const auto has_it = [&](const HealthReport& report) { return has_tag(report, tag); };
    if (std::ranges::none_of(reports, has_it)) give_up("no check has the tag " + tag);
  }
}

/// The checks with these tags. Where one of the tags is absent in an unhealthy report, the whole
/// report: without its database, a process has no other checks.
HealthReport chosen(const HealthReport& full, const std::vector<std::string>& tags) {
  const bool has_all =
      std::ranges::all_of(tags, [&](const std::string& tag) { return has_tag(full, tag); });
  if (!has_all && full.status == HealthStatus::unhealthy) return full;
  return with_tags(full, tags);
}

// --- output

void print_complaints(const HealthReport& report, const std::string& indent) {
  for (const auto& check : report.checks) {
    if (check.status == HealthStatus::healthy) continue;
    std::cout << indent << check.name << ": " << to_string(check.status) << ": "
              << check.description << '\n';
  }
}

void end_with(HealthStatus status, const HealthArguments& arguments) {
  const auto worst_good = arguments.strict ? HealthStatus::healthy : HealthStatus::degraded;
  if (status > worst_good) throw ExitCode{1};
}

void show_report(const HealthReport& full, const Globals& globals,
                 const HealthArguments& arguments) {
  if (full.status != HealthStatus::unhealthy) require_tags({full}, arguments.tags);
  const auto report = chosen(full, arguments.tags);
  if (globals.json) {
    std::cout << json::to_json(report).dump(2) << '\n';
  } else {
    std::cout << to_string(report.status) << '\n';
    print_complaints(report, "");
  }
  end_with(report.status, arguments);
}

void choose_tags(std::vector<DatabaseAnswer<HealthReport>>& answers,
                 const std::vector<std::string>& tags) {
  std::vector<HealthReport> full;
  for (const auto& each : answers) {
    if (each.answer && each.answer->status != HealthStatus::unhealthy) full.push_back(*each.answer);
  }
  if (!full.empty() && full.size() == answers.size()) require_tags(full, tags);
  for (auto& each : answers) {
    if (each.answer) each.answer = chosen(*each.answer, tags);
  }
}

/// One report for each database. A database that cannot be asked is unhealthy.
void show_group(const Globals& globals, const HealthArguments& arguments) {
  const std::function<HealthReport(Platform&)> ask = [&](Platform& platform) {
    return ask_platform(platform, arguments);
  };
  auto answers = ask_each<HealthReport>(globals, ask, group_timeout);
  choose_tags(answers, arguments.tags);
  auto worst = HealthStatus::healthy;
  for (const auto& each : answers) {
    worst = std::max(worst, each.answer ? each.answer->status : HealthStatus::unhealthy);
  }
  if (globals.json) {
    auto document = group_json<HealthReport>(
        answers, [](const HealthReport& report) { return json::to_json(report); });
    std::cout << document.dump(2) << '\n';
  } else {
    std::cout << to_string(worst) << '\n';
    for (const auto& each : answers) {
      if (each.answer && each.answer->status == HealthStatus::healthy) continue;
      std::cout << each.key << ": "
                << to_string(each.answer ? each.answer->status : HealthStatus::unhealthy) << '\n';
      if (each.answer) print_complaints(*each.answer, "  ");
    }
  }
  finish_group(globals, answers);
  end_with(worst, arguments);
}

void show_health(const Globals& globals, const HealthArguments& arguments) {
  if (!arguments.url.empty()) return show_report(ask_server(arguments), globals, arguments);
  if (arguments.question == "live") {
    throw std::invalid_argument("`live` asks a running process: give --url http://host:port");
  }
  if (globals.has_group()) return show_group(globals, arguments);
  show_report(ask_database(globals, arguments), globals, arguments);
}

void add_health_options(CLI::App& command, Globals& globals, HealthArguments& arguments) {
  command
      .add_option("QUESTION", arguments.question,
                  "live: the process runs (with --url); ready: it can do its work; all: every "
                  "check")
      ->check(CLI::IsMember({"live", "ready", "all"}))
      ->capture_default_str();
  auto* url = command
                  .add_option("--url", arguments.url,
                              "Ask a running `dovetail server`: http://host:port, or https://")
                  ->type_name("URL");
  command
      .add_option("--token-file", arguments.token_file,
                  "With --url: a file with the token of a viewer, for `all`")
      ->type_name("FILE")
      ->needs(url);
  command
      .add_option("--ca-file", arguments.ca_file,
                  "With --url https://: the certificates to trust, in PEM format, instead of those "
                  "of the system")
      ->type_name("FILE")
      ->needs(url);
  command.add_option("--tag", arguments.tags, "Only checks with this tag; may be repeated")
      ->type_name("TAG")
      ->allow_extra_args(false);
  command.add_flag("--strict", arguments.strict, "Exit with 1 if degraded, too");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace

void add_health(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<HealthArguments>();
  auto& command = *app.add_subcommand("health", "Check the health of a server or of a database");
  add_global_options(command, globals);
  allow_group(command, globals);
  command.callback([&globals, &command, arguments] {
    if (arguments->url.empty()) {
      globals.resolve(command, "infra");
    } else if (!globals.database.empty() || globals.has_group()) {
      throw std::invalid_argument("--url asks a server: give no --database and no --group with it");
    }
    show_health(globals, *arguments);
  });
  command.footer(
      "Exit code: 0: healthy, or degraded without --strict. 1: unhealthy, or degraded with "
      "--strict.\n"
      "2: the call is wrong, or the server could not be asked.\n"
      "Without --url, the command itself checks the database. It does not ask other processes.");
  add_health_options(command, globals, *arguments);
}

}  // namespace dovetail::cli
