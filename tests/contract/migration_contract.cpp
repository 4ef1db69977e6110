// Migrations of the schema, on both engines.
#include "postgres/sql.hpp"
#include "sqlite/sql.hpp"
#include "storage/migrator.hpp"
#include "storage/queue_store.hpp"
#include "support/backend.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class MigrationContract : public EmptyBackendTest {
 protected:
  PlatformOptions without_deployment() {
    auto options = backend.options();
    options.deploy_schema = false;
    return options;
  }
  std::string refusal() {
    try {
      (void)Platform::open(backend.url(), without_deployment());
    } catch (const SchemaMismatch& error) {
      return error.what();
    }
    return "opened";
  }
  std::int64_t last_known() {
    return backend.open_database()->store<storage::MigrationStore>().known().back().number;
  }
  /// A migration of a later version.
  void add_future(std::int64_t number, std::int64_t compatible_with) {
    backend.sql("insert into " + backend.table("schema_migrations") +
                " (number, name, checksum, compatible_with) values (" + std::to_string(number) +
                ", 'future', 'x', " + std::to_string(compatible_with) + ")");
  }
};
DOVETAIL_CONTRACT(MigrationContract);

TEST_P(MigrationContract, OBX_109_WithoutDeploymentAMissingSchemaIsAnErrorThatNamesTheCommand) {
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is missing"),
                               HasSubstr("dovetail migrate --schema " + backend.schema())));
  EXPECT_THAT(refusal(), HasSubstr("is missing")) << "the first look created something";
}

TEST_P(MigrationContract, OBX_108_DeploymentCreatesWhatIsMissing) {
  auto platform = Platform::open(backend.url(), backend.options());
  platform.outbox().enqueue({.topic = "t"});
  EXPECT_EQ(refusal(), "opened");
}

TEST_P(MigrationContract, OBX_110_MigratingTwiceChangesNothing) {
  EXPECT_THAT(Platform::migrate(backend.url(), backend.options()), Not(IsEmpty()));
  backend.open().outbox().enqueue({.topic = "kept"});
  EXPECT_THAT(Platform::migrate(backend.url(), backend.options()), IsEmpty());
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox")), 1);
}

TEST_P(MigrationContract, ADryRunShowsTheSqlAndWritesNothing) {
  const auto pending = Platform::pending_changes(backend.url(), backend.options());
  ASSERT_THAT(pending, Not(IsEmpty()));
  EXPECT_THAT(pending[0].sql, HasSubstr("create table"));
  EXPECT_THAT(pending[0].sql, HasSubstr(backend.schema()));
  EXPECT_THAT(pending[0].sql, Not(HasSubstr("{schema}")));
  EXPECT_THAT(refusal(), HasSubstr("is missing"));
  if (!backend.is_postgres()) {
    EXPECT_FALSE(std::filesystem::exists(backend.url().substr(7)));
  }
}

TEST_P(MigrationContract, ADryRunsScriptDoesByHandWhatMigratingDoes) {
  for (const auto& change : Platform::pending_changes(backend.url(), backend.options()))
    backend.sql(change.sql);
  EXPECT_EQ(refusal(), "opened");
  EXPECT_THAT(Platform::migrate(backend.url(), backend.options()), IsEmpty());
}

TEST_P(MigrationContract, ANewerSchemaThatIsCompatibleIsUsed) {
  Platform::migrate(backend.url(), backend.options());
  const auto last = last_known();
  add_future(last + 1, last);
  add_future(last + 2, last - 1);
  EXPECT_EQ(refusal(), "opened");
  auto platform = Platform::open(backend.url(), backend.options());  // with deployment
  platform.outbox().enqueue({.topic = "t"});
  EXPECT_THAT(Platform::migrate(backend.url(), backend.options()), IsEmpty());
  EXPECT_EQ(backend.number("select max(number) from " + backend.table("schema_migrations")),
            last + 2);
}

TEST_P(MigrationContract, OneIncompatibleMigrationAmongNewerOnesIsEnoughToRefuse) {
  Platform::migrate(backend.url(), backend.options());
  const auto last = last_known();
  add_future(last + 1, last + 1);
  add_future(last + 2, last);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("newer than this Dovetail"),
                               HasSubstr("knows migration " + std::to_string(last + 1)),
                               HasSubstr("This one knows " + std::to_string(last))));
}

TEST_P(MigrationContract, ACompatibleNewerSchemaStillNeedsTheKnownMigrationsUnchanged) {
  Platform::migrate(backend.url(), backend.options());
  add_future(last_known() + 1, last_known());
  backend.sql("update " + backend.table("schema_migrations") +
              " set checksum = 'changed' where number = 1");
  EXPECT_THAT(refusal(), HasSubstr("append-only"));
}

TEST_P(MigrationContract, ANewerSchemaIsAnErrorAndIsLeftAlone) {
  Platform::migrate(backend.url(), backend.options());
  add_future(9999, 9999);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("newer than this Dovetail"), HasSubstr("9999 (future)")));
  EXPECT_THROW(Platform::migrate(backend.url(), backend.options()), SchemaMismatch);
  EXPECT_THROW((void)Platform::open(backend.url(), backend.options()), SchemaMismatch);
}

TEST_P(MigrationContract, AMigrationThatWasChangedAfterwardsIsAnError) {
  Platform::migrate(backend.url(), backend.options());
  backend.sql("update " + backend.table("schema_migrations") +
              " set checksum = 'changed' where number = 1");
  EXPECT_THAT(refusal(), HasSubstr("append-only"));
  EXPECT_THROW(Platform::migrate(backend.url(), backend.options()), SchemaMismatch);
}

TEST_P(MigrationContract, ASchemaThatLacksItsLastMigrationIsAnErrorThatNamesTheCommand) {
  Platform::migrate(backend.url(), backend.options());
  auto database = backend.open_database();
  const auto last = database->store<storage::MigrationStore>().known().back().number;
  backend.sql("delete from " + backend.table("schema_migrations") +
              " where number = " + std::to_string(last));
  EXPECT_THAT(refusal(), HasSubstr("dovetail migrate --schema"));
}

TEST_P(MigrationContract, TwoSchemasOfOneDatabaseDoNotMeet) {
  auto first = backend.open();
  auto options = backend.options();
  options.schema = backend.schema() + "_b";
  auto second = Platform::open(backend.url(), options);
  first.outbox().enqueue({.topic = "first"});
  EXPECT_THAT(second.outbox().claim({.owner = OwnerToken::generate()}), IsEmpty());
  EXPECT_THAT(first.outbox().claim({.owner = OwnerToken::generate()}), SizeIs(1));

  // The same with one transaction for both.
  auto transaction = first.begin();
  second.outbox().enqueue(transaction, {.topic = "b"});
  first.outbox().enqueue(transaction, {.topic = "a"});
  second.outbox().enqueue(transaction, {.topic = "b"});
  transaction.commit();
  EXPECT_THAT(second.outbox().claim({.owner = OwnerToken::generate()}), SizeIs(2));
  EXPECT_THAT(first.outbox().claim({.owner = OwnerToken::generate()}), SizeIs(1));
  if (backend.is_postgres()) backend.sql("drop schema " + options.schema + " cascade");
}

TEST_P(MigrationContract, AHostileSchemaNameIsRefusedBeforeAnyIo) {
  for (const char* name : {"", "Infra", "a b", "a;drop", "\"x\"", "1a", "x.y", "ä"}) {
    auto options = backend.options();
    options.schema = name;
    EXPECT_THROW((void)Platform::open(backend.url(), options), std::invalid_argument) << name;
  }
}

TEST_P(MigrationContract, TwentyProcessesMigrateAtOnceAndOneDoesIt) {
  const auto url = backend.url();
  const auto schema = backend.schema();
  std::vector<ChildProcess> children;
  for (int i = 0; i < 20; ++i) {
    children.emplace_back([&] {
      const auto applied = Platform::migrate(url, {.schema = schema, .log_sink = null_log_sink()});
      ::_exit(applied.empty() ? 10 : 20);
    });
  }
  int appliers = 0;
  for (auto& child : children) {
    const int code = child.wait();
    EXPECT_TRUE(code == 10 || code == 20) << code;
    appliers += code == 20 ? 1 : 0;
  }
  EXPECT_EQ(appliers, 1);
  EXPECT_EQ(refusal(), "opened");
}

TEST_P(MigrationContract, AKilledMigrationLeavesNothingHalfDone) {
  const auto url = backend.url();
  const auto schema = backend.schema();
  for (int i = 0; i < 10; ++i) {
    ChildProcess child(
        [&] { Platform::migrate(url, {.schema = schema, .log_sink = null_log_sink()}); });
    ::usleep(static_cast<useconds_t>(1'000 * i));
    child.signal(SIGKILL);
    child.wait();
  }
  Platform::migrate(url, backend.options());
  EXPECT_EQ(refusal(), "opened");
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("schema_migrations")),
            static_cast<std::int64_t>(
                backend.open_database()->store<storage::MigrationStore>().known().size()));
}

/// The names of the columns of a result, in the form of Statement::columns.
template <class Name>
std::string joined(int count, const Name& name) {
  std::string names;
  for (int i = 0; i < count; ++i) names += std::string{i == 0 ? "" : ", "} + name(i);
  return names;
}

// Each statement can be prepared on a migrated database, and returns the columns that its block
// declares.
TEST_P(MigrationContract, EveryStatementPreparesOnAFreshSchema) {
  auto platform = backend.open();
  if (backend.is_postgres()) {
    const storage::StatementTexts texts(postgres::sql::statements(), '"' + backend.schema() + '"');
    const std::unique_ptr<PGconn, decltype(&PQfinish)> connection{
        PQconnectdb(backend.url().c_str()), &PQfinish};
    for (const auto* statement : postgres::sql::statements()) {
      const std::unique_ptr<PGresult, decltype(&PQclear)> result{
          PQprepare(connection.get(), "", texts.of(*statement).c_str(), 0, nullptr), &PQclear};
      EXPECT_EQ(PQresultStatus(result.get()), PGRES_COMMAND_OK)
          << statement->name << ": " << PQerrorMessage(connection.get());
      if (statement->columns.empty()) continue;
      const std::unique_ptr<PGresult, decltype(&PQclear)> described{
          PQdescribePrepared(connection.get(), ""), &PQclear};
      EXPECT_EQ(
          joined(PQnfields(described.get()), [&](int i) { return PQfname(described.get(), i); }),
          statement->columns)
          << statement->name;
    }
  } else {
    const storage::StatementTexts texts(sqlite::sql::statements(), backend.schema());
    sqlite3* connection = nullptr;
    ASSERT_EQ(sqlite3_open(backend.url().substr(7).c_str(), &connection), SQLITE_OK);
    for (const auto* statement : sqlite::sql::statements()) {
      sqlite3_stmt* prepared = nullptr;
      EXPECT_EQ(
          sqlite3_prepare_v2(connection, texts.of(*statement).c_str(), -1, &prepared, nullptr),
          SQLITE_OK)
          << statement->name << ": " << sqlite3_errmsg(connection);
      if (!statement->columns.empty()) {
        EXPECT_EQ(joined(sqlite3_column_count(prepared),
                         [&](int i) { return sqlite3_column_name(prepared, i); }),
                  statement->columns)
            << statement->name;
      }
      sqlite3_finalize(prepared);
    }
    sqlite3_close(connection);
  }
}

}  // namespace
}  // namespace dovetail::testing
