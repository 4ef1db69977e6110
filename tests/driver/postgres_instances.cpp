// Instances in PostgreSQL: the public view, and the rows that the check for unhandled topics reads.
#include <algorithm>
#include <limits>

#include "storage/instance_store.hpp"
#include "support/backend.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

class PostgresInstances : public ::testing::Test {
 protected:
  std::string psql(const std::string& sql) {
    const auto result = run_command(
        {"psql", "--no-psqlrc", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", backend.url()},
        sql);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.substr(0, result.out.find_last_not_of('\n') + 1);
  }

  Backend backend{BackendKind::postgres, Tables::may_exist};
  Platform platform = backend.open();
  std::string infra = backend.schema();
};

TEST_F(PostgresInstances, TheViewHasPlainColumns) {
  const auto database = backend.open_database();
  const std::vector<InstanceQueue> queues{{"inbox", {}, true}, {"outbox", {"a", "b"}, false}};
  const storage::InstanceEntry entry{.id = InstanceId::generate(),
                                     .host = "here",
                                     .pid = 7,
                                     .version = "1.0",
                                     .handlers = storage::handlers_json(queues),
                                     .started_at = std::nullopt};
  database->write({}, [&](storage::WriteSession& session) {
    database->store<storage::InstanceStore>().beat(session, entry, InstanceState::draining);
  });
  EXPECT_EQ(psql("select instance_id, host, pid, version, state, stale, queues, "
                 "started_at = heartbeat_at or started_at < heartbeat_at from " +
                 infra + ".instances"),
            entry.id.to_string() + "|here|7|1.0|draining|f|{inbox,outbox}|t");
  EXPECT_EQ(psql("select handlers @> '{\"outbox\": {\"topics\": [\"b\"]}}', "
                 "handlers @> '{\"inbox\": {\"all_topics\": true}}' from " +
                 infra + ".instances"),
            "t|t");
}

TEST_F(PostgresInstances, TheLookForUnhandledTopicsReadsOnlyTheFrontOfTheQueue) {
  // The plan is made while the table is empty, and without statistics.
  const auto look = "select * from " + infra + "._outbox_due_topics(interval '0', 100)";
  const auto plan =
      psql(look + "; insert into " + infra + ".outbox (id, topic, payload) select " + infra +
           ".uuid_v7(), 't', repeat('x', 100) from generate_series(1, 20000); " +
           repeated("explain (analyze, buffers, format json) " + look + "; ", 5));
  // Other tests change the catalog meanwhile, and sessions read it again. The smallest of several
  // counts is the count of the check itself.
  const std::string key = "\"Shared Hit Blocks\": ";
  int fewest = std::numeric_limits<int>::max();
  for (auto at = plan.find("\"Plan\": {"); at != std::string::npos;
       at = plan.find("\"Plan\": {", at + 1)) {
    fewest = std::min(fewest, std::stoi(plan.substr(plan.find(key, at) + key.size())));
  }
  EXPECT_LT(fewest, 200) << plan;
  EXPECT_THAT(psql(look), HasSubstr("t|100|"));
  EXPECT_GT(std::stoi(psql("select pg_relation_size('" + infra + ".outbox') / 8192")), 500);
}

}  // namespace
}  // namespace dovetail::testing
