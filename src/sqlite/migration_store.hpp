#pragma once

#include "storage/migrator.hpp"
#include "storage/statement.hpp"

namespace dovetail::sqlite {

/// The migrations of this engine, from migrations/*.sql.
std::span<const storage::Migration> migrations();

class MigrationStore final : public storage::MigrationStore {
 public:
  MigrationStore(const storage::StatementTexts& texts, std::string schema)
      : texts_(texts), schema_(std::move(schema)) {}

  [[nodiscard]] std::span<const storage::Migration> known() const override { return migrations(); }
  [[nodiscard]] std::string script(const storage::Migration& migration) const override;
  std::vector<storage::AppliedMigration> applied(storage::ReadSession& session) override;
  std::vector<storage::AppliedMigration> lock_and_list(storage::WriteSession& session) override;
  void apply(storage::WriteSession& session, const storage::Migration& migration) override;

 private:
  const storage::StatementTexts& texts_;
  std::string schema_;
};

}  // namespace dovetail::sqlite
