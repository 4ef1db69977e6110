#include <iostream>

#include "cli/cli.hpp"

namespace dovetail::cli {
namespace {

struct GrantsArguments {
  std::string role;
  bool producer = false;
  bool worker = false;
};

void print_grants(const Globals& globals, const GrantsArguments& arguments) {
  const auto purpose = arguments.producer ? RolePurpose::producer : RolePurpose::worker;
  const auto statements =
      Platform::grants(globals.database, arguments.role, purpose, globals.options());
  if (statements.empty()) {
    std::cerr << "SQLite has no roles: who may write the file may do everything\n";
    return;
  }
  std::cout << statements;
}

}  // namespace

void add_grants(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<GrantsArguments>();
  auto& command =
      add_command(app, globals, "grants", "Print the GRANT statements for a database role",
                  [&globals, arguments] { print_grants(globals, *arguments); });
  command.add_option("--role", arguments->role, "The role that is granted the rights")->required();
  auto* producer =
      command.add_flag("--producer", arguments->producer,
                       "May only enqueue into the outbox and schedule timers; cannot read "
                       "payloads");
  command.add_flag("--worker", arguments->worker, "May do everything but migrate (default)")
      ->excludes(producer);
}

}  // namespace dovetail::cli
