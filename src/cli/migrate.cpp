#include <iostream>

#include "cli/cli.hpp"

namespace dovetail::cli {
namespace {

struct MigrateArguments {
  bool dry_run = false;
};

/// A script that does by hand what migrate does.
void print_dry_run(const std::vector<SchemaChange>& changes) {
  if (changes.empty()) return;
  std::cout << "begin;\n\n";
  for (const auto& change : changes) {
    std::cout << "-- migration " << change.number << ": " << change.name << '\n' << change.sql << '\n';
  }
  std::cout << "commit;\n";
}

void migrate(const Globals& globals, const MigrateArguments& arguments) {
  if (arguments.dry_run) {
    const auto changes = Platform::pending_changes(globals.database, globals.options());
    print_dry_run(changes);
    std::cerr << changes.size() << " migration(s) would be applied\n";
    return;
  }
  const auto changes = Platform::migrate(globals.database, globals.options());
  for (const auto& change : changes) std::cout << "applied " << change.number << " " << change.name << '\n';
  if (changes.empty()) std::cout << "schema " << globals.schema << " is up to date\n";
}

}  // namespace

void add_migrate(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<MigrateArguments>();
  auto& command = add_command(app, globals, "migrate", "Create or upgrade Dovetail's schema",
                              [&globals, arguments] { migrate(globals, *arguments); });
  command.add_flag("--dry-run", arguments->dry_run, "Print the SQL that would run, and change nothing");
}

}  // namespace dovetail::cli
