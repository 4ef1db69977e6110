#include <algorithm>
#include <iostream>

#include "cli/ask_each.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;
using Changes = std::vector<SchemaChange>;
using ChangesOfDatabase = DatabaseAnswer<Changes>;

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

ordered_json changes_json(const char* word, const Changes& changes) {
  ordered_json answer{{word, ordered_json::array()}};
  for (const auto& change : changes)
    answer[word].push_back({{"number", change.number}, {"name", change.name}});
  return answer;
}

void print_changes_as_json(const Globals& globals, const char* word, const Changes& changes) {
  ordered_json answer{{"schema", globals.schema}};
  answer.update(changes_json(word, changes));
  std::cout << answer.dump(2) << '\n';
}

// --- one database

void check(const Globals& globals) {
  const auto changes = Platform::pending_changes(globals.database, globals.options());
  if (globals.json) {
    print_changes_as_json(globals, "pending", changes);
  } else if (changes.empty()) {
    std::cout << "schema " << globals.schema << " is up to date\n";
  }
  if (changes.empty()) return;
  for (const auto& change : changes) {
    if (!globals.json) std::cout << "pending " << change.number << " " << change.name << '\n';
  }
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
  if (globals.json) return print_changes_as_json(globals, "applied", changes);
  for (const auto& change : changes)
    std::cout << "applied " << change.number << " " << change.name << '\n';
  if (changes.empty()) std::cout << "schema " << globals.schema << " is up to date\n";
}

// --- a group

std::string plural_of_migrations(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " migration" : " migrations");
}

/// Prints a line for each database as it ends.
class MigrationLines {
 public:
  MigrationLines(const GroupDatabases& databases, std::string word, bool silent)
      : word_(std::move(word)), silent_(silent) {
    for (const auto& each : databases.good) width_ = std::max(width_, each.key.size());
    for (const auto& each : databases.bad) width_ = std::max(width_, each.key.size());
  }

  void print(const ChangesOfDatabase& result) const {
    if (silent_) return;
    std::cout << result.key << std::string(width_ + 2 - std::min(width_, result.key.size()), ' ');
    if (result.failure) {
      std::cout << "FAILED: " << result.failure->error;
    } else if (result.answer->empty()) {
      std::cout << "up to date";
    } else {
      std::cout << plural_of_migrations(result.answer->size()) << ' ' << word_;
    }
    std::cout << std::endl;  // at once: the next database may take long
  }

 private:
  std::size_t width_ = 0;
  std::string word_;
  bool silent_;
};

struct MigrationTotals {
  std::size_t changed = 0;
  std::size_t up_to_date = 0;
  std::size_t failed = 0;

  explicit MigrationTotals(const std::vector<ChangesOfDatabase>& results) {
    for (const auto& each : results)
      ++(each.failure ? failed : each.answer->empty() ? up_to_date : changed);
  }
  [[nodiscard]] std::string summary(const std::string& word) const {
    return count_of_databases(changed + up_to_date + failed) + ": " + std::to_string(changed) +
           " " + word + ", " + std::to_string(up_to_date) + " up to date, " +
           std::to_string(failed) + " failed";
  }
};

ChangesOfDatabase result_of(const GroupMigration& migration) {
  if (migration.error.empty()) return {.key = migration.key, .answer = migration.applied};
  return {.key = migration.key, .failure = DatabaseFailure{migration.error}};
}

std::vector<ChangesOfDatabase> migrate_databases(const Globals& globals,
                                                 const GroupDatabases& databases,
                                                 const MigrationLines& lines) {
  PlatformGroup group({.database = globals.options()});
  for (const auto& each : databases.good) group.add(each.key, each.url, each.schema);
  std::vector<ChangesOfDatabase> results;
  for (const auto& each :
       group.migrate([&](const GroupMigration& one) { lines.print(result_of(one)); })) {
    results.push_back(result_of(each));
  }
  return results;
}

std::vector<ChangesOfDatabase> pending_of_databases(const Globals& globals,
                                                    const GroupDatabases& databases,
                                                    const MigrationLines& lines) {
  std::vector<std::shared_ptr<ChangesOfDatabase>> places;
  std::vector<std::function<void()>> tasks;
  for (const auto& entry : databases.good) {
    places.push_back(std::make_shared<ChangesOfDatabase>(ChangesOfDatabase{.key = entry.key}));
    tasks.emplace_back([entry, place = places.back(), options = options_of(globals, entry)] {
      try {
        place->answer = Platform::pending_changes(entry.url, options);
      } catch (const std::exception& error) {
        place->failure = {error.what()};
      }
    });
  }
  run_tasks(tasks, std::nullopt, [&](std::size_t index, bool) { lines.print(*places[index]); });
  std::vector<ChangesOfDatabase> results;
  results.reserve(places.size());
  for (const auto& place : places) results.push_back(*place);
  return results;
}

void print_group_scripts(const std::vector<ChangesOfDatabase>& results) {
  for (const auto& each : results) {
    if (!each.answer || each.answer->empty()) continue;
    std::cout << "-- database " << each.key << '\n';
    print_scripts(*each.answer);
  }
}

void migrate_group(const Globals& globals, const MigrateArguments& arguments) {
  const auto databases = read_group(globals);
  const bool reads_only = arguments.check || arguments.dry_run;
  const std::string word = reads_only ? "pending" : "applied";
  const MigrationLines lines(databases, word, globals.json || arguments.dry_run);
  auto results = reads_only ? pending_of_databases(globals, databases, lines)
                            : migrate_databases(globals, databases, lines);
  for (const auto& each : databases.bad) {
    results.push_back({.key = each.key, .failure = DatabaseFailure{each.error}});
    lines.print(results.back());
  }
  const MigrationTotals totals(results);
  const auto summary = totals.summary(reads_only ? "not up to date" : "migrated");
  if (arguments.dry_run) {
    print_group_scripts(results);
    std::cerr << summary << '\n';
    return finish_group(globals, results);
  }
  if (globals.json) {
    const auto form = [&](const Changes& changes) { return changes_json(word.c_str(), changes); };
    std::cout << group_json<Changes>(results, form).dump(2) << '\n';
  } else {
    std::cout << summary << '\n';
  }
  if (!reads_only && totals.failed > 0) {
    std::cerr << "Run the same command again when the cause is removed: it leaves databases alone "
                 "that are up to date.\n";
  }
  if (totals.failed > 0 || (arguments.check && totals.changed > 0)) throw ExitCode{pending_code};
}

}  // namespace

void add_migrate(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<MigrateArguments>();
  auto& command = add_command(
      app, globals, "migrate", "Create or upgrade Dovetail's schema", [&globals, arguments] {
        globals.has_group() ? migrate_group(globals, *arguments) : migrate(globals, *arguments);
      });
  allow_group(command, globals);
  auto* dry_run = command.add_flag("--dry-run", arguments->dry_run,
                                   "Print the SQL that would run, and change nothing");
  command
      .add_flag(
          "--check", arguments->check,
          "List the migrations that are pending, and change nothing; exit code 1 if there are any")
      ->excludes(dry_run);
  command.add_flag("--json", globals.json, "Answer in JSON")->excludes(dry_run);
}

}  // namespace dovetail::cli
