#include "postgres/migration_store.hpp"

#include "core/text.hpp"
#include "postgres/session.hpp"
#include "postgres/sql.hpp"

namespace dovetail::postgres {
namespace {

std::vector<storage::AppliedMigration> list(SessionCore& session,
                                            const storage::StatementTexts& texts) {
  using Column = sql::columns::migration_list;
  const auto result = session.run(texts, sql::migration_list, {});
  std::vector<storage::AppliedMigration> applied;
  applied.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    applied.push_back({result.integer(row, Column::number), result.text(row, Column::name),
                       result.text(row, Column::checksum),
                       result.integer(row, Column::compatible_with)});
  }
  return applied;
}

}  // namespace

std::string MigrationStore::script(const storage::Migration& migration) const {
  return texts_.of(sql::migration_prepare) + ";\n\n" +
         core::with_schema(migration.sql, quoted_schema_) + "\n" +
         storage::with_values(texts_.of(sql::migration_record), '$', migration) + ";\n";
}

std::vector<storage::AppliedMigration> MigrationStore::applied(storage::ReadSession& session) {
  auto& core = ReadSession::of(session);
  if (!core.run(texts_, sql::migration_exists, {}).boolean(0, 0)) return {};
  return list(core, texts_);
}

std::vector<storage::AppliedMigration> MigrationStore::lock_and_list(
    storage::WriteSession& session) {
  auto& core = WriteSession::of(session);
  core.run(texts_, sql::migration_prepare, {});
  return list(core, texts_);
}

void MigrationStore::apply(storage::WriteSession& session, const storage::Migration& migration) {
  auto& core = WriteSession::of(session);
  core.run_script(migration.name, core::with_schema(migration.sql, quoted_schema_));
  Params params;
  params.add(migration.number)
      .add(migration.name)
      .add(migration.checksum)
      .add(migration.compatible_with);
  core.run(texts_, sql::migration_record, params);
}

}  // namespace dovetail::postgres
