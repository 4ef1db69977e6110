// Migrations: numbered, checksummed, append-only; and the rules by which they are applied and
// verified.
//
// A schema may be newer than the library, as long as each migration that the library does not know
// says that it is compatible with it: during a rolling upgrade, workers of the old version go on
// and may restart.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/database.hpp"

namespace dovetail::storage {

struct Migration {
  std::int64_t number;
  std::string_view name;
  std::string_view checksum;     // SHA-256 of the file
  std::int64_t compatible_with;  // the oldest library that works with it, by the last migration
                                 // that it knows
  std::string_view sql;          // with {schema} where the schema's name goes
};

struct AppliedMigration {
  std::int64_t number;
  std::string name;
  std::string checksum;
  std::int64_t compatible_with;
};

/// What a backend does for the migrator.
class MigrationStore {
 public:
  virtual ~MigrationStore() = default;

  [[nodiscard]] virtual std::span<const Migration> known() const = 0;
  /// Everything that applying `migration` does, as a script to be run by hand: the table of
  /// migrations if need be, the migration, and its entry in that table.
  [[nodiscard]] virtual std::string script(const Migration& migration) const = 0;

  /// What the database says was applied, in the order of the numbers; empty when it has no Dovetail
  /// schema.
  virtual std::vector<AppliedMigration> applied(ReadSession& session) = 0;

  /// Takes the migration lock until the transaction ends, makes the table of migrations, and lists
  /// what was applied.
  virtual std::vector<AppliedMigration> lock_and_list(WriteSession& session) = 0;
  virtual void apply(WriteSession& session, const Migration& migration) = 0;
};

/// `statement` with the values of `migration` in place of its first four parameters, which `mark`
/// ('$' or
/// '?') starts. Numbers, names and checksums of migrations are plain words: there is nothing in
/// them to escape.
std::string with_values(std::string statement, char mark, const Migration& migration);

/// Applies what is missing, in one transaction; answers what it applied. Many processes may call it
/// at once: one applies, the others find nothing to do. Throws SchemaMismatch when the database is
/// too new for this library or was migrated by files that have changed since.
std::vector<Migration> migrate(Database& database);

/// What migrate() would apply, without writing anything.
std::vector<Migration> pending_migrations(Database& database, const ReadOptions& options = {});

/// Throws SchemaMismatch, with the command to run, unless the schema is the one this library needs,
/// or a newer one that is compatible with it.
void verify_schema(Database& database, const ReadOptions& options = {});

}  // namespace dovetail::storage
