#include "storage/migrator.hpp"

#include <algorithm>
#include <array>

#include "dovetail/error.hpp"

namespace dovetail::storage {
namespace {

std::string label(std::int64_t number, std::string_view name) {
  return std::to_string(number) + " (" + std::string{name} + ")";
}

/// Throws unless each migration that this library does not know is compatible with it.
void require_window(const std::string& where, std::int64_t last_known,
                    std::span<const AppliedMigration> unknown) {
  for (const auto& migration : unknown) {
    if (migration.compatible_with <= last_known) continue;
    throw SchemaMismatch(
        where + " is newer than this Dovetail: it has migration " +
        label(migration.number, migration.name) + ", which needs a library that knows migration " +
        std::to_string(migration.compatible_with) + ". This one knows " +
        std::to_string(last_known) +
        ". Use a newer Dovetail; `dovetail migrate --dry-run` of that version shows what "
        "differs.");
  }
}

/// Throws unless the applied migrations begin with the known ones, byte for byte, and the rest is
/// compatible.
void require_compatible(const Database& database, std::span<const Migration> known,
                        std::span<const AppliedMigration> applied) {
  const auto where = "schema \"" + database.schema() + "\" of " + database.name();
  const auto common = std::min(known.size(), applied.size());
  require_window(where, known.empty() ? 0 : known.back().number, applied.subspan(common));
  for (std::size_t i = 0; i < common; ++i) {
    if (applied[i].number != known[i].number || applied[i].checksum != known[i].checksum) {
      throw SchemaMismatch(
          where + " was migrated by another migration " +
          label(applied[i].number, applied[i].name) + " than this library's " +
          label(known[i].number, known[i].name) +
          ": migrations are append-only. `dovetail migrate --dry-run` refuses it as well; restore "
          "the original files or use another --schema.");
    }
  }
}

std::vector<Migration> rest(std::span<const Migration> known, std::size_t applied) {
  const auto missing = known.subspan(std::min(applied, known.size()));
  return {missing.begin(), missing.end()};
}

}  // namespace

std::string with_values(std::string statement, char mark, const Migration& migration) {
  const std::array<std::string, 4> values{
      std::to_string(migration.number), "'" + std::string{migration.name} + "'",
      "'" + std::string{migration.checksum} + "'", std::to_string(migration.compatible_with)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto parameter = mark + std::to_string(i + 1);
    statement.replace(statement.find(parameter), parameter.size(), values[i]);
  }
  return statement;
}

std::vector<Migration> migrate(Database& database) {
  auto& store = database.store<MigrationStore>();
  std::vector<Migration> missing;
  database.write({.repeatable = true}, [&](WriteSession& session) {
    const auto applied = store.lock_and_list(session);
    require_compatible(database, store.known(), applied);
    missing = rest(store.known(), applied.size());
    for (const auto& migration : missing) store.apply(session, migration);
  });
  return missing;
}

std::vector<Migration> pending_migrations(Database& database, const ReadOptions& options) {
  auto& store = database.store<MigrationStore>();
  std::vector<AppliedMigration> applied;
  if (database.exists())
    database.read([&](ReadSession& session) { applied = store.applied(session); }, options);
  require_compatible(database, store.known(), applied);
  return rest(store.known(), applied.size());
}

void verify_schema(Database& database, const ReadOptions& options) {
  const auto missing = pending_migrations(database, options);
  if (missing.empty()) return;
  const auto total = database.store<MigrationStore>().known().size();
  const auto state = !database.exists() ? std::string{"is missing: there is no such file"}
                     : missing.size() == total
                         ? std::string{"is missing"}
                         : "is old: " + std::to_string(missing.size()) + " of " +
                               std::to_string(total) + " migrations are not applied";
  throw SchemaMismatch("schema \"" + database.schema() + "\" of " + database.name() + " " + state +
                       ". Run: dovetail migrate --schema " + database.schema() +
                       " --database <url>");
}

}  // namespace dovetail::storage
