// The SQL contract of PostgreSQL, called with psql, as from any language.
#include <algorithm>
#include <fstream>

#include "support/backend.hpp"
#include "support/paths.hpp"
#include "support/postgres_session.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class PostgresSql : public ::testing::Test {
 protected:
  CommandResult psql(const std::string& sql) {
    return run_command(
        {"psql", "--no-psqlrc", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", backend.url()},
        "set search_path = pg_catalog;\n" + sql + "\n");
  }
  std::string answer(const std::string& sql) {
    const auto result = psql(sql);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.substr(0, result.out.find_last_not_of('\n') + 1);
  }

  Backend backend{BackendKind::postgres, Tables::may_exist};
  Platform platform = backend.open();
  std::string infra = backend.schema();
};

TEST_F(PostgresSql, AMessageIsEnqueuedClaimedAndAckedByPlainSql) {
  const auto id =
      answer("select " + infra + ".outbox_enqueue(topic => 'email.send', payload => '{}');");
  const auto owner = OwnerToken::generate().to_string();
  EXPECT_EQ(
      answer("select id, topic, claim_epoch from " + infra + ".outbox_claim(owner_token => '" +
             owner + "', batch_size => 5, lease => '1 minute');"),
      id + "|email.send|1");
  const auto ack = "select " + infra + ".outbox_ack('" + owner + "', array['" + id +
                   "'::uuid], array[1::bigint]);";
  EXPECT_EQ(answer(ack), "1");
  EXPECT_EQ(answer(ack), "0");
}

TEST_F(PostgresSql, AClaimTakesItsTopicsAndLetsNoMessageDieUnlessItHasALimit) {
  const auto id = answer("select " + infra + ".outbox_enqueue(topic => 'a', payload => '');");
  answer("select " + infra + ".outbox_enqueue(topic => 'b', payload => '');");
  answer("update " + infra + ".outbox set attempts = 13, lost_leases = 13 where topic = 'a';");
  const auto claim = [&](const std::string& more) {
    return answer("select id, topic from " + infra + ".outbox_claim(gen_random_uuid(), " + more +
                  ");");
  };
  EXPECT_EQ(claim("topics => array['c']"), "");
  EXPECT_EQ(claim("topics => array['a'], lease => '1 millisecond'"), id + "|a");
  answer("select pg_sleep(0.01);");
  EXPECT_EQ(claim("topics => array['a'], max_attempts => 10"), "");
  EXPECT_EQ(answer("select status from " + infra + ".outbox_messages where topic = 'a';"), "3");
  EXPECT_EQ(answer("select status from " + infra + ".outbox_messages where topic = 'b';"), "0");
}

TEST_F(PostgresSql, AnAckWalksNoQueueWhateverTheStatisticsSay) {
  // One message at the end of a long empty table: few rows in many pages mislead the planner.
  answer("insert into " + infra + ".outbox (id, topic, payload) select " + infra +
         ".uuid_v7(), 't', repeat('x', 100) from generate_series(1, 5000);");
  answer("delete from " + infra + ".outbox where ready_at < (select max(ready_at) from " + infra +
         ".outbox);");
  answer("vacuum analyze " + infra + ".outbox;");
  const auto owner = OwnerToken::generate().to_string();
  const auto id = answer("select id from " + infra + ".outbox_claim('" + owner + "');");
  const auto scans = [&](const std::string& index) {
    return answer("select idx_scan from pg_stat_user_indexes where schemaname = '" + infra +
                  "' and indexrelname = '" + index + "';");
  };
  const auto queue = scans("outbox_queue");
  const auto ids = scans("outbox_pkey");
  EXPECT_EQ(answer("select " + infra + ".outbox_ack('" + owner + "', array['" + id +
                   "'::uuid], array[1::bigint]);"),
            "1");
  EXPECT_EQ(scans("outbox_queue"), queue);
  EXPECT_NE(scans("outbox_pkey"), ids);
}

TEST_F(PostgresSql, EveryFunctionPinsItsSearchPathOrWasResolvedWhenItWasCreated) {
  // prosqlbody: the parsed body of a function with a SQL-standard body.
  EXPECT_EQ(
      answer("select string_agg(p.proname, ', ') from pg_proc p where p.pronamespace = '" + infra +
             "'::regnamespace and p.prosqlbody is null"
             " and not coalesce(p.proconfig, '{}') @> array['search_path=pg_catalog, pg_temp'];"),
      "");
  EXPECT_EQ(answer("select string_agg(p.proname, ', ' order by p.proname) from pg_proc p where "
                   "p.pronamespace = '" +
                   infra + "'::regnamespace and p.prosqlbody is not null;"),
            "_fanout_spread, _inbox_work_item, _outbox_work_item, _queue_backoff, _work_micros, "
            "_work_stored, _work_time, clock, stream_partition, uuid_v7");
}

TEST_F(PostgresSql, ExactlyWhatIsPublicHasAComment) {
  const auto functions =
      "select string_agg(distinct p.proname, ', ') from pg_proc p where p.pronamespace = '" +
      infra + "'::regnamespace and ";
  EXPECT_EQ(answer(functions +
                   "p.proname not like '\\_%' and obj_description(p.oid, 'pg_proc') is null;"),
            "")
      << "a public function needs a comment; the name of an internal one begins with _";
  EXPECT_EQ(answer(functions +
                   "p.proname like '\\_%' and obj_description(p.oid, 'pg_proc') is not null;"),
            "");
  EXPECT_EQ(answer("select string_agg(c.relname, ', ') from pg_class c where c.relkind = 'v' and "
                   "c.relnamespace = '" +
                   infra + "'::regnamespace and obj_description(c.oid, 'pg_class') is null;"),
            "");
  EXPECT_THAT(answer("select obj_description('" + infra + "'::regnamespace, 'pg_namespace');"),
              HasSubstr("Dovetail"));
}

TEST_F(PostgresSql, AJobLivesByPlainSql) {
  auto& jobs = platform.jobs();
  const auto call = [&](const std::string& function) {
    return answer("select " + infra + "." + function + ";");
  };
  const auto create =
      std::string{"jobs_create_or_update('j', 'work', cron => '0 * * * * *', payload => 'p')"};
  const auto id = call(create);
  EXPECT_EQ(call(create), id) << "again, as services do";
  EXPECT_EQ(jobs.find("j")->id.to_string(), id);
  EXPECT_FALSE(jobs.find("j")->next_due_at) << "the calendar is a scheduler's";
  EXPECT_EQ(jobs.schedule_due(), 0U);
  ASSERT_TRUE(jobs.find("j")->next_due_at);
  EXPECT_GT(*jobs.find("j")->next_due_at, backend.now());
  backend.advance(std::chrono::minutes{1});
  EXPECT_EQ(jobs.schedule_due(), 1U);
  const auto run = call("jobs_trigger('j')");
  EXPECT_EQ(jobs.runs("j").at(0).id.to_string(), run);
  EXPECT_EQ(jobs.schedule_due(), 0U) << "one is under way";
  EXPECT_EQ(call("jobs_disable('j')"), "t");
  EXPECT_FALSE(jobs.find("j")->enabled);
  EXPECT_EQ(call("jobs_enable('j')"), "t");
  EXPECT_EQ(jobs.schedule_due(), 0U);
  EXPECT_TRUE(jobs.find("j")->next_due_at);
  EXPECT_EQ(call("jobs_remove('j')"), "t");
  EXPECT_THAT(jobs.list(), SizeIs(0));
  for (const auto* each : {"jobs_remove('j')", "jobs_enable('j')", "jobs_disable('j')"})
    EXPECT_EQ(call(each), "f");
  EXPECT_EQ(call("jobs_trigger('j')"), "");
}

TEST_F(PostgresSql, ABrokenJobOfPlainSqlSaysWhyUntilItIsMended) {
  auto& jobs = platform.jobs();
  const auto create = [&](const std::string& cron) {
    answer("select " + infra + ".jobs_create_or_update('j', 'work', '" + cron + "');");
  };
  create("every day");
  EXPECT_EQ(jobs.schedule_due(), 0U);
  EXPECT_THAT(answer("select last_error from " + infra + ".jobs;"), HasSubstr("every day"));
  create("0 * * * * *");
  EXPECT_EQ(answer("select last_error from " + infra + ".jobs;"), "");
  jobs.schedule_due();
  backend.advance(std::chrono::minutes{1});
  EXPECT_EQ(jobs.schedule_due(), 1U) << "looked at at once";
}

TEST_F(PostgresSql, ADatabaseInLatin1IsMigrated) {
  const auto name = infra + "_latin1";
  answer("create database " + name + " encoding 'LATIN1' locale 'C' template template0;");
  const auto url = backend.url().substr(0, backend.url().rfind('/') + 1) + name;
  EXPECT_NO_THROW(Platform::migrate(url));
  {
    auto latin1 = Platform::open(url);
    latin1.outbox().enqueue({.topic = "t", .payload = "caf\u00e9"});
    const auto claimed = latin1.outbox().claim({.owner = OwnerToken::generate()});
    ASSERT_THAT(claimed, SizeIs(1));
    EXPECT_EQ(claimed[0].message.payload, "caf\u00e9");
  }
  answer("drop database " + name + ";");
}

TEST_F(PostgresSql, AMessageFollowsTheCallersTransaction) {
  answer("begin; select " + infra + ".outbox_enqueue(topic => 't', payload => 'gone'); rollback;");
  answer("begin; select " + infra + ".outbox_enqueue(topic => 't', payload => 'kept'); commit;");
  const auto claimed = platform.outbox().claim({.owner = OwnerToken::generate()});
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.payload, "kept");
}

TEST_F(PostgresSql, DefaultsAndNamedArgumentsWork) {
  const auto id = MessageId::generate();
  const auto call = "select " + infra +
                    ".outbox_enqueue(payload => 'p', topic => 't', correlation_id => '', " +
                    "message_id => '" + id.to_string() + "', due_at => now() - interval '1 day');";
  EXPECT_EQ(answer(call), id.to_string());
  EXPECT_EQ(answer(call), id.to_string());
  const auto claimed = platform.outbox().claim({.owner = OwnerToken::generate()});
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.message_id, id);
  EXPECT_EQ(claimed[0].message.correlation_id, std::nullopt);
}

TEST_F(PostgresSql, OBX_004_OBX_005_BadArgumentsAreRefusedByTheDatabaseToo) {
  for (const auto& call :
       {"outbox_enqueue(topic => '', payload => '')",
        "outbox_enqueue(topic => null, payload => '')",
        "outbox_enqueue(topic => 't', payload => null)",
        "outbox_enqueue(topic => repeat('x', 256), payload => '')",
        "outbox_enqueue(topic => 't', payload => '', correlation_id => repeat('x', 256))",
        "outbox_claim(owner_token => null)",
        "outbox_claim(owner_token => gen_random_uuid(), batch_size => 0)",
        "outbox_claim(owner_token => gen_random_uuid(), lease => interval '0')",
        "outbox_ack(gen_random_uuid(), array[gen_random_uuid()], array[]::bigint[])"}) {
    EXPECT_EQ(psql("select " + infra + "." + call + ";").code, 3) << call;
  }
  EXPECT_EQ(answer("select count(*) from " + infra + ".outbox;"), "0");
}

TEST_F(PostgresSql, IdsOfTheDatabaseAreVersionSevenAndOrdered) {
  const auto first = answer("select " + infra + ".uuid_v7();");
  EXPECT_EQ(first[14], '7');
  EXPECT_THAT(std::string{"89ab"}, HasSubstr(std::string(1, first[19])));
  answer("select pg_sleep(0.002);");
  EXPECT_LT(first, answer("select " + infra + ".uuid_v7();"));
}

// --- the other functions

TEST_F(PostgresSql, OBX_112_OBX_120_EveryStepOfAMessagesLifeIsAFunction) {
  const auto owner = "'" + OwnerToken::generate().to_string() + "'::uuid";
  const auto call = [&](const std::string& function) {
    return answer("select " + infra + "." + function + ";");
  };
  const auto id = call(
      "outbox_enqueue(topic => 't', payload => 'p', headers => '{\"traceparent\": \"00-1\"}', "
      "priority => 2, unique_key => 'k', expires_at => now() + interval '1 day')");
  EXPECT_EQ(call("outbox_enqueue(topic => 't', payload => 'p', unique_key => 'k')"), id);
  EXPECT_EQ(answer("select id, stored from " + infra +
                   ".outbox_try_enqueue('t', 'p', unique_key => 'k');"),
            id + "|f");
  const auto claim = [&] {
    return answer("select claim_epoch, attempts, priority, headers->>'traceparent' from " + infra +
                  ".outbox_claim(" + owner + ", 5);");
  };
  const auto claims = [&](int epoch) {
    return owner + ", array['" + id + "'::uuid], array[" + std::to_string(epoch) + "::bigint]";
  };
  EXPECT_EQ(claim(), "1|0|2|00-1");
  EXPECT_EQ(call("outbox_renew(" + claims(1) + ", lease => '1 hour')"), id);
  EXPECT_EQ(call("outbox_snooze(" + claims(1) + ", delay => '0')"), "1");
  EXPECT_EQ(claim(), "2|0|2|00-1");
  EXPECT_EQ(call("outbox_abandon(" + claims(2) + ", error => 'smtp: 451', delay => '0')"), "1");
  EXPECT_EQ(claim(), "3|1|2|00-1");
  EXPECT_EQ(call("outbox_reap_expired()"), "0");
  EXPECT_EQ(call("outbox_ack(" + claims(2) + ")"), "0") << "an older epoch";
  EXPECT_EQ(call("outbox_fail(" + claims(3) + ", error => 'no such address')"), "1");
  EXPECT_EQ(call("outbox_replay(only_topic => 't')"), "1");
  EXPECT_EQ(claim(), "4|0|2|00-1");
  EXPECT_EQ(call("outbox_ack(" + claims(4) + ")"), "1");
  EXPECT_EQ(call("outbox_pause('t')"), "t");
  EXPECT_EQ(call("outbox_pause('t')"), "f");
  EXPECT_EQ(call("outbox_resume('t')"), "t");
  EXPECT_EQ(call("outbox_purge(with_status => 2)"), "1");
}

TEST_F(PostgresSql, TheDocumentedExamplesRunAsTheyStand) {
  std::ifstream file{std::string{testing::source_directory} + "/docs/sql.md"};
  std::string script;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      inside = line == "```sql";
    } else if (inside) {
      for (std::size_t at = 0; (at = line.find("infra.", at)) != std::string::npos;)
        line.replace(at, 5, infra);
      script += line + "\n";
    }
  }
  const auto result = psql(script);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(answer("select count(*) from " + infra + ".outbox_messages where status = 2;"), "1")
      << result.out;
}

TEST_F(PostgresSql, TheFailedAttemptsOfAMessageAreRows) {
  const auto id = answer("select " + infra + ".outbox_enqueue(topic => 't', payload => 'p');");
  const auto owner = OwnerToken::generate().to_string();
  const std::string claimed = "array['" + id + "']::uuid[], array[1::bigint]";
  answer("select * from " + infra + ".outbox_claim('" + owner + "');");
  answer("select " + infra + ".outbox_abandon('" + owner + "', " + claimed + ", 'no luck');");
  EXPECT_EQ(answer("select attempt, kind, error, owner_token, at between now() - interval '1 hour' "
                   "and clock_timestamp() from " +
                   infra + ".outbox_failures('" + id + "');"),
            "1|failed|no luck|" + owner + "|t");
  EXPECT_EQ(answer("select count(*) from " + infra + ".outbox_failures(" + infra + ".uuid_v7());"),
            "0");
}

TEST_F(PostgresSql, TheViewShowsTheSpecificationsColumns) {
  const std::string columns =
      "id, topic, payload, created_at, status, locked_until, owner_token, is_processed, "
      "processed_at, "
      "processed_by, "
      "retry_count, last_error, next_attempt_at, message_id, correlation_id, due_time_utc";
  answer("select " + infra +
         ".outbox_enqueue(topic => 't', payload => 'p', correlation_id => 'c');");
  EXPECT_EQ(
      answer(
          "select topic, payload, status, is_processed, retry_count, correlation_id, id = "
          "message_id, "
          "next_attempt_at = created_at, locked_until is null, due_time_utc is null from (select " +
          columns + " from " + infra + ".outbox_messages) m;"),
      "t|p|0|f|0|c|t|t|t|t");
  const auto owner = OwnerToken::generate().to_string();
  answer("select * from " + infra + ".outbox_claim('" + owner + "');");
  EXPECT_EQ(answer("select status, is_processed, owner_token, locked_until > now() from " + infra +
                   ".outbox_messages;"),
            "1|f|" + owner + "|t");
  answer("select " + infra + ".outbox_ack('" + owner + "', array_agg(id), array[1::bigint]) from " +
         infra + ".outbox_messages;");
  EXPECT_EQ(
      answer("select status, is_processed, processed_by, processed_at <= clock_timestamp() from " +
             infra + ".outbox_messages;"),
      "2|t|" + owner + "|t");
}

TEST_F(PostgresSql, BadArgumentsOfTheRestAreRefusedToo) {
  const std::string claims = "gen_random_uuid(), array[gen_random_uuid()], array[1::bigint]";
  for (const auto& call : std::vector<std::string>{
           "outbox_enqueue(topic => 't', payload => '', priority => 6)",
           "outbox_enqueue(topic => 't', payload => '', due_at => 'infinity')",
           "outbox_enqueue(topic => 't', payload => '', due_at => now(), delay => '1 s')",
           "outbox_enqueue(topic => 't', payload => '', delay => '-1 s')",
           "timers_schedule(topic => 't', payload => '')",
           "timers_schedule(topic => 't', payload => '', due_at => now(), delay => '1 s')",
           "timers_reschedule(gen_random_uuid())",
           "timers_reschedule(gen_random_uuid(), delay => '-1 s')",
           "jobs_create_or_update('', 't', '@daily')",
           "jobs_create_or_update('j', '', '@daily')",
           "jobs_create_or_update('j', 't', '')",
           "jobs_create_or_update('j', 't', '@daily', time_zone => '')",
           "jobs_create_or_update('j', 't', '@daily', misfire => 'never')",
           "jobs_create_or_update('j', 't', '@daily', misfire_limit => 0)",
           "jobs_create_or_update('j', 't', '@daily', max_concurrent_runs => -1)",
           "jobs_create_or_update('j', 't', '@daily', jitter => '2 hours')",
           "outbox_enqueue(topic => 't', payload => '', expires_at => '-infinity')",
           "outbox_enqueue(topic => 't', payload => '', headers => '[1]')",
           "outbox_enqueue(topic => 't', payload => '', headers => '{\"a\": 1}')",
           "outbox_enqueue(topic => 't', payload => '', unique_key => repeat('x', 256))",
           "outbox_claim(owner_token => gen_random_uuid(), max_attempts => 0)",
           "outbox_fail(" + claims + ", null)",
           "outbox_abandon(" + claims + ", delay => '-1 second')",
           "outbox_abandon(" + claims + ", max_attempts => 0)",
           "outbox_snooze(" + claims + ", delay => '-1 second')",
           "outbox_renew(" + claims + ", lease => '0')",
           "outbox_renew(null, array[]::uuid[], array[]::bigint[])",
           "outbox_purge(with_status => 1)",
           "outbox_pause('')"}) {
    EXPECT_EQ(psql("select " + infra + "." + call + ";").code, 3) << call;
  }
}

TEST_F(PostgresSql, OBX_123_OBX_124_AUserNeedsTheTablesAndTheFunctionsAndNothingElse) {
  const auto role = "r_" + infra;
  backend.sql("create role " + role + " nologin");
  const std::shared_ptr<void> cleanup(nullptr, [&](void*) {
    backend.sql("drop owned by " + role);
    backend.sql("drop role " + role);
  });
  const auto as_role = [&](const std::string& sql) {
    return psql("set role " + role + ";\n" + sql);
  };
  const auto enqueue = "select " + infra + ".outbox_enqueue('t', 'p');";
  EXPECT_NE(as_role(enqueue).code, 0) << "without any right";
  backend.sql("grant usage on schema " + infra + " to " + role);
  EXPECT_NE(as_role(enqueue).code, 0) << "without the tables";
  backend.sql("grant select, insert, update, delete on all tables in schema " + infra + " to " +
              role);
  const auto life = enqueue + "with c as (select * from " + infra +
                    ".outbox_claim('0190163d-8694-439b-aea5-966c26f8ad91')) select " + infra +
                    ".outbox_ack('0190163d-8694-439b-aea5-966c26f8ad91', array_agg(id), "
                    "array_agg(claim_epoch)) from c;";
  EXPECT_EQ(as_role(life).code, 0) << as_role(life).err;
  backend.sql("revoke execute on all functions in schema " + infra + " from public");
  EXPECT_NE(as_role(enqueue).code, 0) << "without the functions";
  backend.sql("grant execute on all functions in schema " + infra + " to " + role);
  EXPECT_EQ(as_role(life).code, 0) << as_role(life).err;
}

TEST_F(PostgresSql, OBX_126_EncryptionIsTheConnectionStringsToAskFor) {
  // The server of the tests has no encryption: a client that requires it gets an error.
  try {
    (void)Platform::open(backend.url() + "?sslmode=require&connect_timeout=2", backend.options());
    FAIL() << "sslmode was ignored";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("SSL"));
  }
}

TEST_F(PostgresSql, APurgeOfDoneMessagesKeepsToItsArguments) {
  const auto owner = OwnerToken::generate();
  for (const auto* topic : {"a", "b"}) platform.outbox().enqueue({.topic = topic});
  for (const auto& each : platform.outbox().claim({.owner = owner}))
    platform.outbox().ack(owner, std::array{each.claim});
  EXPECT_EQ(answer("select " + infra + ".outbox_purge(2, only_topic => 'nothing');"), "0");
  EXPECT_EQ(answer("select " + infra + ".outbox_purge(2, ids => array[gen_random_uuid()]);"), "0");
  EXPECT_EQ(answer("select " + infra + ".outbox_purge(2, only_topic => 'a');"), "1");
}

TEST_F(PostgresSql, AnOpenResumeDoesNotHoldUpClaims) {
  platform.outbox().enqueue({.topic = "other"});
  platform.outbox().pause("t");
  UserConnection user(backend);
  user.execute("begin");
  user.execute("select " + infra + ".outbox_resume('t')");
  EXPECT_EQ(answer("set statement_timeout = '10s'; select count(*) from " + infra +
                   ".outbox_claim(gen_random_uuid());"),
            "1");
  user.execute("rollback");
}

// --- plans

// The rows that a claim reads depend neither on the number of waiting messages nor on history.
TEST_F(PostgresSql, OBX_119_TheCostOfAClaimDependsNeitherOnTheQueueNorOnHistory) {
  const auto fill = [&](int count) {
    answer("insert into " + infra +
           ".outbox (id, topic, payload) select gen_random_uuid(), 't', repeat('x', 100) from "
           "generate_series(1, " +
           std::to_string(count) + ");");
  };
  const auto pages = [&] {
    const auto plan = answer("begin; explain (analyze, buffers, format json) select * from " +
                             infra + ".outbox_claim(gen_random_uuid(), 50); rollback;");
    const std::string key = "\"Shared Hit Blocks\": ";
    const std::string read = "\"Shared Read Blocks\": ";
    return std::stol(plan.substr(plan.find(key) + key.size())) +
           std::stol(plan.substr(plan.find(read) + read.size()));
  };
  fill(1'000);
  (void)pages();
  const auto small = pages();
  fill(60'000);
  answer("insert into " + infra +
         ".outbox_archive (processed_at, created_at, claim_epoch, attempts, past_attempts, "
         "status, priority, id, topic, payload) select now(), now(), 1, 0, 0, 2, 0, "
         "gen_random_uuid(), 't', "
         "'p' from "
         "generate_series(1, 60000);");
  answer("insert into " + infra +
         ".outbox (id, topic, payload, ready_at) select gen_random_uuid(), 't', 'p', now() + "
         "interval '1 day' from generate_series(1, 20000);");
  // Each call reads the catalog, whose size varies with the objects of other tests. The 60,000
  // messages fill more than 1,500 pages.
  (void)pages();
  EXPECT_LE(std::min({pages(), pages(), pages()}), small + 500) << small << " with a short queue";
}

TEST_F(PostgresSql, WhenTheNextComesDueIsFoundAtOnceHoweverManyAreDue) {
  answer("insert into " + infra +
         ".outbox (id, topic, payload) select gen_random_uuid(), 't', 'p' from generate_series(1, "
         "50000);");
  const auto plan =
      answer("select " + infra + ".outbox_next_due(); explain (analyze, buffers) select " + infra +
             ".outbox_next_due();");
  const std::string key = "shared hit=";
  ASSERT_NE(plan.find(key), std::string::npos) << plan;
  EXPECT_LT(std::stol(plan.substr(plan.find(key) + key.size())), 200) << plan;
}

// A plan is made once per session, often for a small table. It must also suit a large table.
TEST_F(PostgresSql, APlanMadeForASmallTableServesALargeOne) {
  const auto owner = "'" + OwnerToken::generate().to_string() + "'::uuid";
  const auto claim =
      "claimed as materialized (select array_agg(id order by id) as ids, array_agg(claim_epoch "
      "order by id) "
      "as epochs, "
      "array_agg(row_at order by id) as rows from " +
      infra + ".outbox_claim(" + owner + ", 5))";
  const std::string by_rows = ", ids, epochs, true, rows";
  std::string warm;
  for (int i = 0; i < 8; ++i) {
    for (const auto& [call, arguments] : std::initializer_list<std::pair<const char*, std::string>>{
             {"outbox_renew", ", ids, epochs"},
             {"outbox_snooze", ", ids, epochs"},
             {"outbox_ack", ", ids, epochs"},
             {"outbox_ack", by_rows}}) {
      warm += "with " + claim + " select count(*) from claimed, lateral " + infra + "." + call +
              "(" + owner + arguments + ") x;\n";
    }
  }
  const auto fill = [&](int count) {
    return "insert into " + infra +
           ".outbox (id, topic, payload) select gen_random_uuid(), 't', repeat('x', 100) from "
           "generate_series(1, " +
           std::to_string(count) + ");\n";
  };
  const auto claim_into = [&](const std::string& table) {
    return "with " + claim + " select 1 from claimed;\ncreate temporary table " + table +
           " as select array_agg(id order by id) as ids, array_agg(claim_epoch order by id) as "
           "epochs, "
           "array_agg(ctid order by id) as rows from " +
           infra + ".outbox where owner_token = " + owner + ";\n";
  };
  const auto measure = [&](const std::string& table, const std::string& call) {
    return "explain (analyze, buffers, timing off) select x from " + table + ", lateral " + infra +
           "." + call + " x;\n";
  };
  const auto measured =
      answer(fill(100) + "vacuum analyze " + infra + ".outbox;\n" + warm + fill(50'000) +
             claim_into("c") + measure("c", "outbox_renew(" + owner + ", ids, epochs)") +
             measure("c", "outbox_ack(" + owner + ", ids, epochs)") + claim_into("d") +
             measure("d", "outbox_ack(" + owner + by_rows + ")"));
  int looked_at = 0;
  for (std::size_t at = 0; (at = measured.find("Function Scan", at)) != std::string::npos; ++at) {
    const auto buffers = measured.find("shared hit=", at);
    ASSERT_NE(buffers, std::string::npos);
    EXPECT_LT(std::stol(measured.substr(buffers + 11)), 1'500) << measured.substr(at, 200);
    ++looked_at;
  }
  EXPECT_EQ(looked_at, 3) << measured;
}

// An old snapshot does not see that a message is done. If it enqueues the message again, the
// message must not block the others.
TEST_F(PostgresSql, AMessageEnqueuedTwiceUnderAnOldSnapshotIsSettledLikeAnyOther) {
  auto& outbox = platform.outbox();
  const auto owner = OwnerToken::generate();
  const auto id = MessageId::generate();
  UserConnection user(backend);
  user.execute("begin isolation level repeatable read");
  user.execute("select 1 from " + infra + ".outbox_messages");
  outbox.enqueue({.topic = "t", .message_id = id});
  const auto ack_all = [&] {
    std::size_t acked = 0;
    for (const auto& each : outbox.claim({.owner = owner}))
      acked += outbox.ack(owner, std::array{each.claim});
    return acked;
  };
  EXPECT_EQ(ack_all(), 1U);
  {
    auto transaction = user.borrow();
    EXPECT_TRUE(outbox.enqueue(transaction, {.topic = "t", .message_id = id}).stored());
  }
  user.execute("commit");
  outbox.enqueue({.topic = "t"});
  EXPECT_EQ(ack_all(), 2U);
  EXPECT_EQ(outbox.counts().done, 2);
}

// With wrong statistics and disabled plans, a claim still leases exactly the messages it returns.
TEST_F(PostgresSql, OBX_017_OBX_026_NoPlanMakesAClaimExceedItsBatch) {
  platform.outbox().enqueue_many(std::vector<EnqueueRequest>(500, {.topic = "t"}));
  const std::vector<std::string> settings{"plan_cache_mode = force_generic_plan",
                                          "enable_indexscan = off",
                                          "enable_seqscan = off",
                                          "enable_bitmapscan = off",
                                          "enable_hashjoin = off",
                                          "enable_nestloop = off",
                                          "enable_tidscan = off",
                                          "enable_sort = off",
                                          "enable_material = off",
                                          "enable_memoize = off",
                                          "default_statistics_target = 1"};
  // Statistics of an empty table: the planner expects one row.
  backend.sql("update pg_class set reltuples = 1, relpages = 1 where oid = '" + infra +
              ".outbox'::regclass");
  int expected = 0;
  for (const auto& setting : settings) {
    expected += 2;
    EXPECT_EQ(answer("set " + setting + "; select count(*) from " + infra +
                     ".outbox_claim(gen_random_uuid(), 2);"),
              "2");
    EXPECT_EQ(answer("select count(*) from " + infra + ".outbox where lease_until is not null;"),
              std::to_string(expected))
        << setting;
  }
}

// An old snapshot does not show the runs that other workers have opened since.
TEST_F(PostgresSql, AClaimNeedsReadCommitted) {
  platform.outbox().enqueue({.topic = "t"});
  const auto claim = "select " + backend.schema() + ".outbox_claim(gen_random_uuid())";
  for (const std::string level : {"repeatable read", "serializable"}) {
    PostgresSession session(backend);
    session.run("rollback; begin isolation level " + level);
    EXPECT_EQ(session.error_of(claim), "25000") << level;
  }
  PostgresSession session(backend);
  EXPECT_NE(session.run(claim), "");
}

}  // namespace
}  // namespace dovetail::testing
