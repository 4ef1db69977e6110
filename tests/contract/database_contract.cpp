// A database as the components see it: its name, and the connections that it holds.
#include <filesystem>

#include "runtime/engines.hpp"
#include "storage/migrator.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;

class DatabaseContract : public BackendTest {
 protected:
  /// The number of connections of open(); on SQLite, the number of file descriptors.
  [[nodiscard]] std::int64_t connections() const {
    if (backend.is_postgres()) {
      return backend.number("select count(*) from pg_stat_activity where application_name = '" +
                            backend.schema() + "'");
    }
    const auto path = backend.url().substr(backend.url().find(':') + 1);
    std::int64_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone);
      if (!gone && target.string().starts_with(path)) ++count;
    }
    return count;
  }
  [[nodiscard]] std::unique_ptr<storage::Database> open() const {
    storage::DatabaseOptions options{.schema = backend.schema(), .clock = backend.options().clock};
    const auto separator = backend.url().find('?') == std::string::npos ? "?" : "&";
    const auto url = backend.is_postgres()
                         ? backend.url() + separator + "application_name=" + backend.schema()
                         : backend.url();
    return runtime::open_database(url, options);
  }
  static void look_at(storage::Database& database) {
    const auto one = [](storage::ReadSession& session) {
      EXPECT_EQ(session.query("select 1", {}).size(), 1U);
    };
    database.read(one);
    database.read(one, {.service = true});
  }
};
DOVETAIL_CONTRACT(DatabaseContract);

TEST_P(DatabaseContract, OBX_071_ALabelIsTheNameOfTheDatabase) {
  const auto named = backend.open_database({.label = "tenant-a"});
  EXPECT_EQ(named->name(), "tenant-a");
  const auto nameless = backend.open_database();
  EXPECT_THAT(nameless->name(), HasSubstr(backend.is_postgres() ? "postgres" : "sqlite:"));
}

TEST_P(DatabaseContract, CloseIdleClosesConnectionsAndTheNextCallOpensOne) {
  const auto database = open();
  storage::migrate(*database);
  look_at(*database);
  EXPECT_GT(connections(), 0);
  database->close_idle();
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
  look_at(*database);
  database->write({}, [&](storage::WriteSession& session, const storage::Attempt&) {
    session.execute("delete from " + backend.table("outbox"), {});
  });
  EXPECT_GT(connections(), 0);
  database->close_idle();
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_P(DatabaseContract, CloseIdleLeavesConnectionsInUseAlone) {
  const auto database = open();
  storage::migrate(*database);
  const auto table = backend.table("outbox_paused");
  auto transaction = database->begin();
  transaction->session().execute("insert into " + table + " (topic, paused_at) values ('t', " +
                                     (backend.is_postgres() ? "now()" : "1") + ")",
                                 {});
  database->close_idle();
  transaction->commit();
  EXPECT_EQ(backend.number("select count(*) from " + table), 1);
  // The transaction has ended: its object holds no connection.
  database->close_idle();
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

}  // namespace
}  // namespace dovetail::testing
