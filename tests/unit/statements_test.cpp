#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "postgres/migration_store.hpp"
#include "postgres/sql.hpp"
#include "sqlite/migration_store.hpp"
#include "sqlite/sql.hpp"
#include "storage/migrator.hpp"
#include "storage/statement.hpp"

namespace {

using namespace dovetail;
using storage::Migration;
using storage::Statement;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

using Statements = std::span<const Statement* const>;

struct Engine {
  std::string name;
  Statements statements;
  std::span<const Migration> migrations;
};

std::vector<Engine> engines() {
  return {{"postgres", postgres::sql::statements(), postgres::migrations()},
          {"sqlite", sqlite::sql::statements(), sqlite::migrations()}};
}

std::set<std::string_view> names_of(Statements statements) {
  std::set<std::string_view> names;
  for (const auto* statement : statements) names.insert(statement->name);
  return names;
}

/// The names without the suffix of steps. An engine may divide a statement into steps
/// (`outbox_claim_step_park`).
std::set<std::string_view> main_names_of(Statements statements) {
  std::set<std::string_view> names;
  for (const auto name : names_of(statements)) names.insert(name.substr(0, name.find("_step_")));
  return names;
}

std::vector<std::pair<std::int64_t, std::string_view>> labels_of(
    std::span<const Migration> migrations) {
  std::vector<std::pair<std::int64_t, std::string_view>> labels;
  for (const auto& migration : migrations) labels.emplace_back(migration.number, migration.name);
  return labels;
}

TEST(Statements, HaveTheSameNamesInBothEngines) {
  EXPECT_THAT(names_of(postgres::sql::statements()), Not(IsEmpty()));
  EXPECT_EQ(main_names_of(postgres::sql::statements()), main_names_of(sqlite::sql::statements()));
}

TEST(Statements, HaveNamesOfTheirOwn) {
  for (const auto& engine : engines()) {
    EXPECT_THAT(names_of(engine.statements), SizeIs(engine.statements.size())) << engine.name;
  }
}

TEST(Statements, StandAtTheirIndex) {
  for (const auto& engine : engines()) {
    for (std::size_t i = 0; i < engine.statements.size(); ++i) {
      EXPECT_EQ(engine.statements[i]->index, i) << engine.name << ' ' << engine.statements[i]->name;
    }
  }
}

TEST(Statements, AreFoundByTheNameOfTheirVariable) {
  EXPECT_EQ(postgres::sql::outbox_claim.name, "outbox_claim");
  EXPECT_EQ(sqlite::sql::outbox_claim.name, "outbox_claim");
  EXPECT_EQ(postgres::sql::statements()[postgres::sql::outbox_ack.index],
            &postgres::sql::outbox_ack);
  EXPECT_EQ(sqlite::sql::statements()[sqlite::sql::outbox_ack.index], &sqlite::sql::outbox_ack);
}

TEST(Statements, HaveATextWithoutTheNextOnesName) {
  for (const auto& engine : engines()) {
    for (const auto* statement : engine.statements) {
      EXPECT_THAT(statement->text, Not(IsEmpty())) << engine.name << ' ' << statement->name;
      EXPECT_THAT(std::string{statement->text}, Not(HasSubstr("-- name:")))
          << engine.name << ' ' << statement->name;
    }
  }
}

TEST(StatementTexts, FillInTheSchemaForEachStatement) {
  const Statement first{0, "first", "select 1 from {schema}.t", ""};
  const Statement second{1, "second", "select 2", ""};
  const std::vector<const Statement*> statements{&first, &second};
  const storage::StatementTexts texts{statements, "infra"};
  EXPECT_EQ(texts.of(first), "select 1 from infra.t");
  EXPECT_EQ(texts.of(second), "select 2");
}

TEST(StatementTexts, LeaveNoMarkInTheEnginesStatements) {
  for (const auto& engine : engines()) {
    const storage::StatementTexts texts{engine.statements, "infra"};
    for (const auto* statement : engine.statements) {
      EXPECT_THAT(texts.of(*statement), Not(HasSubstr("{schema}")))
          << engine.name << ' ' << statement->name;
    }
  }
}

TEST(Migrations, HaveTheSameNumbersAndNamesInBothEngines) {
  EXPECT_THAT(labels_of(postgres::migrations()), Not(IsEmpty()));
  EXPECT_EQ(labels_of(postgres::migrations()), labels_of(sqlite::migrations()));
}

TEST(Migrations, AreNumberedFromOneWithoutGaps) {
  for (const auto& engine : engines()) {
    std::int64_t expected = 1;
    for (const auto& migration : engine.migrations)
      EXPECT_EQ(migration.number, expected++) << engine.name;
  }
}

TEST(Migrations, CarryASha256AndAText) {
  for (const auto& engine : engines()) {
    for (const auto& migration : engine.migrations) {
      EXPECT_THAT(std::string{migration.checksum}, MatchesRegex("[0-9a-f]+")) << engine.name;
      EXPECT_THAT(migration.checksum, SizeIs(64)) << engine.name;
      EXPECT_THAT(std::string{migration.sql}, HasSubstr("{schema}")) << engine.name;
    }
  }
}

TEST(Migrations, OfOneNumberDifferBetweenTheEngines) {
  const auto theirs = postgres::migrations();
  const auto ours = sqlite::migrations();
  for (std::size_t i = 0; i < theirs.size() && i < ours.size(); ++i) {
    EXPECT_NE(theirs[i].checksum, ours[i].checksum) << theirs[i].name;
  }
}

}  // namespace
