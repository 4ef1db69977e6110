#include "sqlite/migration_store.hpp"

#include "core/text.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"

namespace dovetail::sqlite {
namespace {

std::vector<storage::AppliedMigration> list(Connection& connection,
                                            const storage::StatementTexts& texts) {
  using Column = sql::columns::migration_list;
  auto cursor = connection.run(texts, sql::migration_list);
  std::vector<storage::AppliedMigration> applied;
  while (cursor.step()) {
    applied.push_back({cursor.integer(Column::number), cursor.text(Column::name),
                       cursor.text(Column::checksum), cursor.integer(Column::compatible_with)});
  }
  return applied;
}

}  // namespace

std::string MigrationStore::script(const storage::Migration& migration) const {
  return texts_.of(sql::migration_prepare) + ";\n\n" + core::with_schema(migration.sql, schema_) +
         "\n" + storage::with_values(texts_.of(sql::migration_record), '?', migration) + ";\n";
}

std::vector<storage::AppliedMigration> MigrationStore::applied(storage::ReadSession& session) {
  auto& connection = ReadSession::of(session);
  auto exists = connection.run(texts_, sql::migration_exists);
  if (!exists.step() || exists.integer(0) == 0) return {};
  return list(connection, texts_);
}

std::vector<storage::AppliedMigration> MigrationStore::lock_and_list(
    storage::WriteSession& session) {
  auto& connection = WriteSession::of(session);
  connection.run(texts_, sql::migration_prepare).run();
  return list(connection, texts_);
}

void MigrationStore::apply(storage::WriteSession& session, const storage::Migration& migration) {
  auto& connection = WriteSession::of(session);
  connection.script(migration.name, core::with_schema(migration.sql, schema_));
  auto record = connection.run(texts_, sql::migration_record);
  record.bind(migration.number).bind(migration.name).bind(migration.checksum);
  record.bind(migration.compatible_with).run();
}

}  // namespace dovetail::sqlite
