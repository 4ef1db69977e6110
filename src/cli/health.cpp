#include <iostream>

#include "cli/cli.hpp"
#include "json/to_json.hpp"

namespace dovetail::cli {
namespace {

void show_health(const Globals& globals) {
  const auto report = globals.open().health();
  if (globals.json) {
    std::cout << json::to_json(report).dump(2) << '\n';
  } else {
    std::cout << to_string(report.status) << '\n';
    for (const auto& finding : report.findings) {
      std::cout << finding.name << ": " << to_string(finding.status) << ": " << finding.message
                << '\n';
    }
  }
  if (report.status != HealthStatus::healthy) throw ExitCode{1};
}

}  // namespace

void add_health(CLI::App& app, Globals& globals) {
  auto& command = add_command(app, globals, "health",
                              "Check the clock, topics that nobody handles and blocked streams",
                              [&globals] { show_health(globals); });
  command.footer(
      "Exit code: 0: healthy. 1: degraded or unhealthy, or the database cannot be opened.\n"
      "The services of other processes are not asked.");
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
