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

/// The part of migrations that an engine implements.
class MigrationStore {
 public:
  virtual ~MigrationStore() = default;

  [[nodiscard]] virtual std::span<const Migration> known() const = 0;
  /// The script that applies `migration` by hand: it creates the table of migrations if necessary,
  /// applies the migration, and adds its entry to the table.
  [[nodiscard]] virtual std::string script(const Migration& migration) const = 0;

  /// The applied migrations, ordered by number. Empty if the database has no Dovetail schema.
  virtual std::vector<AppliedMigration> applied(ReadSession& session) = 0;

  /// Takes the migration lock until the transaction ends, creates the table of migrations, and
  /// returns the applied migrations.
  virtual std::vector<AppliedMigration> lock_and_list(WriteSession& session) = 0;
  virtual void apply(WriteSession& session, const Migration& migration) = 0;
};

/// `statement` with the values of `migration` in place of its first four parameters, which begin
/// with `mark` ('$' or '?'). Numbers, names and checksums of migrations need no escaping.
std::string with_values(std::string statement, char mark, const Migration& migration);

/// Applies the missing migrations in one transaction, and returns them. Several processes may call
/// it at once: one of them applies, the others find nothing to do. Throws SchemaMismatch if the
/// database is too new for this library, or if applied files have changed since.
std::vector<Migration> migrate(Database& database);

/// Returns the migrations that migrate() would apply. Writes nothing.
std::vector<Migration> pending_migrations(Database& database, const ReadOptions& options = {});

/// Throws SchemaMismatch, with the command to run, unless the schema is the one that this library
/// needs, or a newer compatible one.
void verify_schema(Database& database, const ReadOptions& options = {});

}  // namespace dovetail::storage
