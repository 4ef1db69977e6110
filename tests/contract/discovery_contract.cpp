// The discovery by a query on a control database.
#include "dovetail/discovery.hpp"

#include "support/backend.hpp"

namespace dovetail::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class DiscoveryContract : public EmptyBackendTest {
 protected:
  DiscoveryContract() {
    if (backend.is_postgres()) backend.sql("create schema " + backend.schema());
    backend.sql("create table " + tenants + " (id integer primary key, k text, u text, s text)");
  }
  std::vector<DatabaseEntry> found_by(const std::string& query) {
    return query_discovery(backend.url(), query)->find({});
  }
  std::string error_of(const std::string& query) {
    try {
      (void)found_by(query);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  std::string tenants = backend.table("tenants");
};
DOVETAIL_CONTRACT(DiscoveryContract);

TEST_P(DiscoveryContract, OBX_075_AQueryReturnsKeysAddressesAndSchemas) {
  const auto discovery =
      query_discovery(backend.url(), "select k, u, s from " + tenants + " order by id");
  EXPECT_THAT(discovery->find({}), IsEmpty());
  backend.sql("insert into " + tenants +
              " values (1, 'b', 'sqlite:b.db', null), (2, 'a', 'postgresql://h/a', 'jobs')");
  const DatabaseEntry first{.key = "b", .url = "sqlite:b.db"};
  const DatabaseEntry second{.key = "a", .url = "postgresql://h/a", .schema = "jobs"};
  EXPECT_THAT(discovery->find({}), ElementsAre(first, second));
  EXPECT_THAT(found_by("select k, u from " + tenants + " where s is null"), ElementsAre(first));
  EXPECT_THAT(found_by("select id, u from " + tenants + " where id = 1"),
              ElementsAre(DatabaseEntry{.key = "1", .url = "sqlite:b.db"}))
      << "keys may be numbers";
}

TEST_P(DiscoveryContract, ARowWithoutAKeyOrAnAddressIsABadEntry) {
  backend.sql("insert into " + tenants +
              " values (1, 'a', 'sqlite:a.db', null), (2, null, 'postgresql://u:swordfish@h/b', "
              "null), (3, 'c', null, null)");
  const auto entries = found_by("select k, u from " + tenants + " order by id");
  ASSERT_EQ(entries.size(), 3U) << "it does not affect the others";
  EXPECT_EQ(entries[0], (DatabaseEntry{.key = "a", .url = "sqlite:a.db"}));
  EXPECT_THAT(entries[1].error,
              AllOf(HasSubstr("row 2: the column key is NULL"), Not(HasSubstr("swordfish"))));
  EXPECT_EQ(entries[2].key, "c");
  EXPECT_THAT(entries[2].error, HasSubstr("row 3: the column url is NULL"));
  EXPECT_THAT(found_by("select k, id from " + tenants + " where id = 1").at(0).error,
              HasSubstr("the column url is not text"));
  EXPECT_THAT(error_of("select k from " + tenants), HasSubstr("returns 1 columns"));
  EXPECT_THAT(error_of("select k, u, s, id from " + tenants), HasSubstr("returns 4 columns"));
}

TEST_P(DiscoveryContract, TheQueryCannotWrite) {
  EXPECT_THAT(error_of("insert into " + tenants + " values (1, 'a', 'b', 'c') returning k, u"),
              Not(IsEmpty()));
  EXPECT_EQ(backend.number("select count(*) from " + tenants), 0);
}

TEST_P(DiscoveryContract, MistakesAreErrors) {
  EXPECT_THAT(error_of("select k, u from " + tenants + "_of_nobody"), HasSubstr("of_nobody"));
  EXPECT_THROW(query_discovery(backend.url(), ""), std::invalid_argument);
  EXPECT_THROW(query_discovery("mysql://u:swordfish@h/d", "select 1"), std::invalid_argument);
}

TEST(DiscoveryOfAMissingFile, SaysThatTheControlDatabaseDoesNotExist) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "control.db";
  EXPECT_THROW((void)query_discovery("sqlite:" + path.string(), "select 1, 2")->find({}),
               InvalidOperation);
  EXPECT_FALSE(std::filesystem::exists(path)) << "looking does not create it";
}

}  // namespace
}  // namespace dovetail::testing
