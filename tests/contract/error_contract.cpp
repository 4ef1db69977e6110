// The kinds of database errors, on both engines.
#include "support/backend.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;

class ErrorContract : public BackendTest {
 protected:
  static ErrorKind kind_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.kind();
    }
    ADD_FAILURE() << "nothing failed";
    return ErrorKind::other;
  }
};
DOVETAIL_CONTRACT(ErrorContract);

TEST_P(ErrorContract, AMissingTableIsAMatterOfTheSchema) {
  auto platform = backend.open();
  backend.sql("drop table " + backend.table("lease") + (backend.is_postgres() ? " cascade" : ""));
  EXPECT_EQ(kind_of([&] { (void)platform.leases().try_acquire("a", "me", 1s); }),
            ErrorKind::schema);
}

TEST_P(ErrorContract, ASchemaErrorOfSqliteNamesTheFile) {
  if (backend.is_postgres()) GTEST_SKIP() << "the URL names the server";
  auto platform = backend.open();
  backend.sql("drop table " + backend.table("lease"));
  try {
    (void)platform.leases().list();
    FAIL() << "the table is missing";
  } catch (const Error& error) {
    const auto file = std::filesystem::path{backend.url()}.filename().string();
    EXPECT_THAT(error.what(), ::testing::HasSubstr(file));
  }
}

TEST_P(ErrorContract, ATableThatIsDroppedAfterItsStatementsWereUsedIsAMatterOfTheSchema) {
  auto platform = backend.open();
  EXPECT_TRUE(platform.leases().try_acquire("a", "me", 1s).has_value());
  backend.sql("drop table " + backend.table("lease") + (backend.is_postgres() ? " cascade" : ""));
  EXPECT_EQ(kind_of([&] { (void)platform.leases().try_acquire("b", "me", 1s); }),
            ErrorKind::schema);
}

TEST_P(ErrorContract, StatementsOfTheUsersThatAreWrongAreNotASchemaOfOurs) {
  auto platform = backend.open();
  auto transaction = platform.begin();
  EXPECT_NE(kind_of([&] { transaction.execute("selec 1"); }), ErrorKind::schema);
}

TEST_P(ErrorContract, ARunnerThatCannotRenewOrReleaseSaysSo) {
  const auto lines = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = lines;
  auto platform = Platform::open(backend.url(), options);
  {
    auto runner = LeaseRunner::try_start(platform.leases(), "a", {.duration = 60s});
    ASSERT_TRUE(runner.has_value());
    backend.sql("drop table " + backend.table("lease") + (backend.is_postgres() ? " cascade" : ""));
    EXPECT_FALSE(runner->try_renew_now());
    EXPECT_EQ(lines->count("lease.renewal_failed"), 1);
  }
  EXPECT_EQ(lines->count("lease.release_failed"), 1);
}

}  // namespace
}  // namespace dovetail::testing
