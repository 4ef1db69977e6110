// The SQL contract of PostgreSQL, called by plain psql as any language would.
#include "support/backend.hpp"
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

  Backend backend{BackendKind::postgres};
  Platform platform = backend.open();
  std::string infra = backend.schema();
};

TEST_F(PostgresSql, AMessageIsEnqueuedClaimedAndAckedByPlainSql) {
  const auto id = answer("select " + infra + ".outbox_enqueue(topic => 'email.send', payload => '{}');");
  const auto owner = OwnerToken::generate().to_string();
  EXPECT_EQ(answer("select id, topic, claim_epoch from " + infra + ".outbox_claim(owner_token => '" + owner +
                   "', batch_size => 5, lease => '1 minute');"),
            id + "|email.send|1");
  const auto ack =
      "select " + infra + ".outbox_ack('" + owner + "', array['" + id + "'::uuid], array[1::bigint]);";
  EXPECT_EQ(answer(ack), "1");
  EXPECT_EQ(answer(ack), "0");
}

TEST_F(PostgresSql, AMessageFollowsTheCallersTransaction) {
  answer("begin; select " + infra + ".outbox_enqueue(topic => 't', payload => 'gone'); rollback;");
  answer("begin; select " + infra + ".outbox_enqueue(topic => 't', payload => 'kept'); commit;");
  const auto claimed = platform.outbox().claim({.owner = OwnerToken::generate()});
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.payload, "kept");
}

TEST_F(PostgresSql, DefaultsAndNamedArgumentsWork) {
  const auto id = OutboxMessageId::generate();
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
       {"outbox_enqueue(topic => '', payload => '')", "outbox_enqueue(topic => null, payload => '')",
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

// A claim with misled statistics and forbidden plans still leases what it returns and not one more.
TEST_F(PostgresSql, OBX_017_OBX_026_NoPlanMakesAClaimExceedItsBatch) {
  platform.outbox().enqueue_many(std::vector<EnqueueRequest>(500, {.topic = "t"}));
  const std::vector<std::string> settings{"plan_cache_mode = force_generic_plan",
                                          "enable_indexscan = off",
                                          "enable_seqscan = off",
                                          "enable_bitmapscan = off",
                                          "enable_hashjoin = off",
                                          "enable_nestloop = off",
                                          "enable_tidscan = off",
                                          "enable_sort = off"};
  int expected = 0;
  for (const auto& setting : settings) {
    expected += 2;
    EXPECT_EQ(
        answer("set " + setting + "; select count(*) from " + infra + ".outbox_claim(gen_random_uuid(), 2);"),
        "2");
    EXPECT_EQ(answer("select count(*) from " + infra + ".outbox where status = 1;"), std::to_string(expected))
        << setting;
  }
}

}  // namespace
}  // namespace dovetail::testing
