#pragma once

#include "storage/migrator.hpp"
#include "storage/statement.hpp"

namespace dovetail::postgres {

/// The migrations of this engine, from migrations/*.sql.
std::span<const storage::Migration> migrations();

class MigrationStore final : public storage::MigrationStore {
 public:
  MigrationStore(const storage::StatementTexts& texts, std::string quoted_schema)
      : texts_(texts), quoted_schema_(std::move(quoted_schema)) {}

  [[nodiscard]] std::span<const storage::Migration> known() const override { return migrations(); }
  [[nodiscard]] std::string script(const storage::Migration& migration) const override;
  std::vector<storage::AppliedMigration> applied(storage::ReadSession& session) override;
  std::vector<storage::AppliedMigration> lock_and_list(storage::WriteSession& session) override;
  void apply(storage::WriteSession& session, const storage::Migration& migration) override;

 private:
  const storage::StatementTexts& texts_;
  std::string quoted_schema_;
};

}  // namespace dovetail::postgres
