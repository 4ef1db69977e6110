#include <iostream>

#include "cli/cli.hpp"

namespace dovetail::cli {
namespace {

struct MigrateArguments {
  bool dry_run = false;
  bool check = false;
};

constexpr int pending_code = 1;

/// A script with the same effect as migrate.
void print_scripts(const std::vector<SchemaChange>& changes) {
  if (changes.empty()) return;
  std::cout << "begin;\n\n";
  for (const auto& change : changes) {
    std::cout << "-- migration " << change.number << ": " << change.name << '\n'
              << change.sql << '\n';
  }
  std::cout << "commit;\n";
}

void check(const Globals& globals) {
  const auto changes = Platform::pending_changes(globals.database, globals.options());
  if (changes.empty()) {
    std::cout << "schema " << globals.schema << " is up to date\n";
    return;
  }
  for (const auto& change : changes)
    std::cout << "pending " << change.number << " " << change.name << '\n';
  std::cerr << "schema " << globals.schema << " is not up to date. Run: dovetail migrate --schema "
            << globals.schema << '\n';
  throw ExitCode{pending_code};
}

void migrate(const Globals& globals, const MigrateArguments& arguments) {
  if (arguments.check) return check(globals);
  if (arguments.dry_run) {
    const auto changes = Platform::pending_changes(globals.database, globals.options());
    print_scripts(changes);
    std::cerr << changes.size() << " migration(s) would be applied\n";
    return;
  }
  const auto changes = Platform::migrate(globals.database, globals.options());
  for (const auto& change : changes)
    std::cout << "applied " << change.number << " " << change.name << '\n';
  if (changes.empty()) std::cout << "schema " << globals.schema << " is up to date\n";
}

}  // namespace

void add_migrate(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<MigrateArguments>();
  auto& command = add_command(app, globals, "migrate", "Create or upgrade Dovetail's schema",
                              [&globals, arguments] { migrate(globals, *arguments); });
  auto* dry_run = command.add_flag("--dry-run", arguments->dry_run,
                                   "Print the SQL that would run, and change nothing");
  command
      .add_flag(
          "--check", arguments->check,
          "List the migrations that are pending, and change nothing; exit code 1 if there are any")
      ->excludes(dry_run);
}

}  // namespace dovetail::cli
