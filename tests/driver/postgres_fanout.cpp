// Fan-outs in plain SQL: the public functions and views of the schema.
#include "support/backend.hpp"
#include "support/postgres_session.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;

class PostgresFanout : public ::testing::Test {
 protected:
  CommandResult run(const std::string& sql) const {
    return run_command(
        {"psql", "--no-psqlrc", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", backend.url()},
        "set search_path to " + backend.schema() + ", public;\n" + sql);
  }
  std::string psql(const std::string& sql) const {
    const auto result = run(sql);
    EXPECT_EQ(result.code, 0) << sql << result.err;
    return result.out.substr(0, result.out.find_last_not_of('\n') + 1);
  }
  std::string refused(const std::string& sql) const {
    const auto result = run(sql);
    EXPECT_NE(result.code, 0) << sql;
    return result.err;
  }

  Backend backend{BackendKind::postgres, Tables::may_exist};
  Platform platform = backend.open();
};

TEST_F(PostgresFanout, ATeamWithSqlOnlyPlansAndCompletesSlices) {
  psql("select fanout_register('etl', 'payments', interval '10 minutes', interval '0')");
  EXPECT_EQ(psql("select fanout_enqueue_due('etl', 'payments', array['b', 'a', 'a'])"), "2");
  EXPECT_EQ(psql("select fanout_enqueue_due('etl', 'payments', array['a', 'b'])"), "0");
  EXPECT_EQ(psql("select topic, payload from outbox_messages order by payload limit 1"),
            "fanout:etl:payments|{\"topic\":\"etl\",\"work_key\":\"payments\","
            "\"shard_key\":\"a\",\"window_start\":null}");
  EXPECT_EQ(psql("select shard_key, status from fanout_cursors order by shard_key"),
            "a|ready\nb|ready");
  const std::string key = "fanout_mark_completed('etl', 'payments', 'a', ";
  EXPECT_EQ(psql("select " + key + "null, clock())"), "t");
  EXPECT_EQ(psql("select " + key + "null, clock())"), "f");
  EXPECT_EQ(psql("select " + key +
                 "(select last_completed_at from fanout_cursors "
                 "where shard_key = 'a'), clock())"),
            "t");
  EXPECT_EQ(psql("select status, message_id is null from fanout_cursors where shard_key = 'a'"),
            "idle|t");
  EXPECT_EQ(psql("select fanout_set_cadence('etl', 'payments', interval '1 hour')"), "t");
  psql("select fanout_register('etl', 'payments', interval '5 minutes')");
  EXPECT_EQ(psql("select every, default_every, jitter, set_by_operator from fanout_policies"),
            "01:00:00|00:05:00|00:01:00|t");
  EXPECT_EQ(psql("select fanout_reset_cadence('etl', 'payments')"), "t");
  EXPECT_EQ(psql("select every from fanout_policies"), "00:05:00");
}

TEST_F(PostgresFanout, BadCallsAreRefusedWithTheReason) {
  EXPECT_THAT(refused("select fanout_register('a:b')"), HasSubstr("no colon"));
  EXPECT_THAT(refused("select fanout_register('etl', 'done')"), HasSubstr("must not be done"));
  EXPECT_THAT(refused("select fanout_register('etl', 'k', interval '0')"),
              HasSubstr("every must be"));
  EXPECT_THAT(refused("select fanout_enqueue_due('etl', 'k', array['a'])"),
              HasSubstr("call fanout_register first"));
  psql("select fanout_register('etl')");
  EXPECT_THAT(refused("select fanout_enqueue_due('etl', 'k', array['a', null])"),
              HasSubstr("1 to 256 characters"));
  EXPECT_THAT(refused("select fanout_mark_completed('etl', 'k', 'a', clock(), clock() - "
                      "interval '1 second')"),
              HasSubstr("before window_start"));
  EXPECT_EQ(psql("select fanout_set_cadence('none', 'k', interval '1 s')"), "f");
}

TEST_F(PostgresFanout, RunNowTriggersTheJobs) {
  const auto nobody = [](const FanoutPlan&) { return std::vector<FanoutCandidate>{}; };
  platform.fanout().add({.topic = "etl", .work_key = "payments"}, nobody);
  platform.fanout().add({.topic = "etl"}, nobody);
  EXPECT_EQ(psql("select count(*) from fanout_run_now('etl')"), "2");
  EXPECT_EQ(psql("select count(*) from fanout_run_now('etl', 'vendors')"), "1") << "all keys";
  EXPECT_EQ(psql("select count(*) from fanout_run_now('etl', 'payments')"), "1");
  EXPECT_EQ(psql("select count(*) from fanout_run_now('reports')"), "0");
  EXPECT_EQ(platform.jobs().runs("fanout:etl:payments").size(), 2U);
}

// The snapshot of a second coordinator does not show the message that the first one has enqueued.
TEST_F(PostgresFanout, ACoordinatorThatWaitedForAnotherEnqueuesNothingTwice) {
  psql("select fanout_register('etl', 'payments', interval '1 s', interval '0')");
  const std::string call = "select " + backend.schema() +
                           ".fanout_enqueue_due('etl', 'payments', array['new', 'known'])";
  psql("select fanout_mark_completed('etl', 'payments', 'known', null, clock() - interval '1 h')");
  PostgresSession first(backend);
  PostgresSession second(backend);
  EXPECT_EQ(first.run(call), "2");
  auto waiting = second.start(call);
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds{300}), std::future_status::timeout);
  first.run("commit");
  EXPECT_EQ(waiting.get(), "0");
  second.run("commit");
  EXPECT_EQ(psql("select count(*) from outbox"), "2");
}

}  // namespace
}  // namespace dovetail::testing
