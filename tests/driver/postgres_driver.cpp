// The PostgreSQL driver with a real server.
#include <thread>

#include "postgres/connection.hpp"
#include "postgres/session.hpp"
#include "storage/queue_store.hpp"
#include "support/backend.hpp"
#include "support/cutting_proxy.hpp"

namespace dovetail::postgres {
namespace {

using ::testing::AllOf;
using testing::Backend;
using testing::BackendKind;
using testing::CuttingProxy;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class PostgresDriver : public ::testing::Test {
 protected:
  Result ask(const std::string& sql) { return connection->run({.name = "ask", .text = sql}); }
  static Error failure_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error;
    }
    return Error({ErrorKind::other, "", "none"}, "nothing failed");
  }

  Backend backend{BackendKind::postgres};
  ConnectionSettings settings{backend.url()};
  std::unique_ptr<Connection> connection = Connection::open(settings);
};

TEST_F(PostgresDriver, ConnectionsCarryKeepalivesAndAName) {
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"keepalives", "1"},
                                                        {"keepalives_idle", "10"},
                                                        {"keepalives_interval", "5"},
                                                        {"keepalives_count", "3"},
                                                        {"tcp_user_timeout", "15000"},
                                                        {"target_session_attrs", "read-write"},
                                                        {"application_name", "dovetail"}}) {
    EXPECT_EQ(settings.get(key), value) << key;
  }
  EXPECT_EQ(ask("show application_name").text(0, 0), "dovetail");
  const ConnectionSettings own(backend.url() + "?application_name=mine&keepalives_idle=60");
  EXPECT_EQ(own.get("application_name"), "mine");
  EXPECT_EQ(own.get("keepalives_idle"), "60");
}

TEST_F(PostgresDriver, AFailureNamesItsStatementAndCode) {
  const auto error =
      failure_of([&] { connection->run({.name = "outbox_claim", .text = "select 1/0"}); });
  EXPECT_EQ(error.statement(), "outbox_claim");
  EXPECT_EQ(error.native_code(), "22012");
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("outbox_claim"), HasSubstr("22012"), HasSubstr("division by zero")));
  EXPECT_EQ(ask("select 1::int8").integer(0, 0), 1) << "the connection goes on";
}

TEST_F(PostgresDriver, APipelineTakesOneRoundTripAndStopsAtTheFirstFailure) {
  Params one;
  one.add(std::int32_t{1});
  const Command good{.name = "good", .text = "select $1::int", .params = &one, .prepare = true};
  const Command bad{.name = "bad", .text = "select 1/0"};
  EXPECT_THAT(connection->run_pipelined(std::array{good, good, good}), SizeIs(3));
  const auto error = failure_of([&] { connection->run_pipelined(std::array{good, bad, good}); });
  EXPECT_EQ(error.statement(), "bad");
  EXPECT_EQ(connection->run(good).integer(0, 0), 1);
  EXPECT_TRUE(connection->usable());
}

TEST_F(PostgresDriver, AStatementThatDoesNotPrepareIsTriedAnewTheNextTime) {
  const Command command{
      .name = "late", .text = "select count(*) from pg_temp.late", .prepare = true};
  EXPECT_EQ(failure_of([&] { connection->run(command); }).kind(), ErrorKind::schema);
  ask("create temporary table late (id int)");
  EXPECT_EQ(connection->run(command).integer(0, 0), 0);
}

TEST_F(PostgresDriver, ACopyAsAStatementIsRefusedAndTheConnectionGivenUp) {
  auto platform = backend.open();
  for (const char* copy : {"copy (select 1) to stdout", "copy pg_temp.nothing from stdin"}) {
    auto first = platform.begin();
    EXPECT_ANY_THROW(first.execute(copy)) << "as the first statement";
    auto later = platform.begin();
    later.execute("create temporary table nothing (id int) on commit drop");
    EXPECT_THROW(later.execute(copy), InvalidOperation) << "as a later one";
  }
  EXPECT_NO_THROW(platform.outbox().enqueue({.topic = "t"}));
}

TEST_F(PostgresDriver, ATransactionThatAStatementEndedTakesNothingMore) {
  auto platform = backend.open();
  auto transaction = platform.begin();
  transaction.execute("commit");
  EXPECT_THROW(platform.outbox().enqueue(transaction, {.topic = "t"}), InvalidOperation);
  EXPECT_THROW(transaction.commit(), InvalidOperation);
}

TEST_F(PostgresDriver, TextWithNulIsRefusedInsteadOfCut) {
  auto platform = backend.open();
  auto transaction = platform.begin();
  EXPECT_THROW((void)transaction.query("select $1::text", std::string{"a\0b", 3}),
               std::invalid_argument);
}

TEST_F(PostgresDriver, DeallocatedStatementsCostOneConnectionNotAllCallsToCome) {
  auto options = backend.options();
  options.max_connections = 1;
  auto platform = Platform::open(backend.url(), options);
  const auto enqueue = [&] {  // by the same statement each time
    platform.outbox().enqueue({.topic = "t", .message_id = MessageId::generate()});
  };
  enqueue();
  auto transaction = platform.begin();
  transaction.execute("deallocate all");
  transaction.commit();
  EXPECT_ANY_THROW(enqueue());
  EXPECT_NO_THROW(enqueue());
}

TEST_F(PostgresDriver, AStopTokenEndsARunningStatement) {
  std::stop_source source;
  std::jthread stopper([&] {
    while (backend.number("select count(*) from pg_stat_activity where query like 'select "
                          "pg_sleep(600)%' and pid <> "
                          "pg_backend_pid()") == 0) {
    }
    source.request_stop();
  });
  const auto error = failure_of([&] {
    connection->run({.name = "slow", .text = "select pg_sleep(600)"}, source.get_token());
  });
  EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  EXPECT_EQ(ask("select 1::int8").integer(0, 0), 1) << "the connection goes on";
}

TEST_F(PostgresDriver, AStopTokenEndsConnecting) {
  std::stop_source source;
  source.request_stop();
  const auto error = failure_of([&] { (void)Connection::open(settings, source.get_token()); });
  EXPECT_EQ(error.kind(), ErrorKind::cancelled);
}

TEST_F(PostgresDriver, AnIdleConnectionThatTheServerEndedIsNotUsable) {
  const auto pid = ask("select pg_backend_pid()").integer(0, 0);
  EXPECT_TRUE(connection->usable());
  backend.sql("select pg_terminate_backend(" + std::to_string(pid) + ", 5000)");
  EXPECT_FALSE(connection->usable());
}

TEST_F(PostgresDriver, ALostConnectionIsClassifiedByWhatItWasDoing) {
  const auto pid = ask("select pg_backend_pid()").integer(0, 0);
  ask("begin");
  backend.sql("select pg_terminate_backend(" + std::to_string(pid) + ", 5000)");
  const auto error = failure_of([&] { ask("select 1"); });
  EXPECT_EQ(error.kind(), ErrorKind::connection_lost);
  EXPECT_TRUE(error.is_transient());

  auto second = Connection::open(settings);
  const auto second_pid =
      second->run({.name = "pid", .text = "select pg_backend_pid()"}).integer(0, 0);
  second->run({.name = "begin", .text = "begin"});
  backend.sql("select pg_terminate_backend(" + std::to_string(second_pid) + ", 5000)");
  const auto in_doubt =
      failure_of([&] { second->run({.name = "commit", .text = "commit", .decides = true}); });
  EXPECT_EQ(in_doubt.kind(), ErrorKind::commit_in_doubt);
  EXPECT_TRUE(in_doubt.is_in_doubt());
  EXPECT_FALSE(in_doubt.is_transient());
}

TEST_F(PostgresDriver, NobodyListeningIsTransientAndWrongPasswordsAreNot) {
  const auto refused =
      failure_of([] { (void)Connection::open(ConnectionSettings("postgresql://127.0.0.1:1/x")); });
  EXPECT_EQ(refused.kind(), ErrorKind::connection_lost);
  const auto missing = failure_of([&] {
    (void)Connection::open(ConnectionSettings(backend.url() + "_there_is_no_such_database"));
  });
  EXPECT_EQ(missing.native_code(), "3D000");
  EXPECT_FALSE(missing.is_transient());
  const auto role = failure_of(
      [&] { (void)Connection::open(ConnectionSettings(backend.url() + "?user=nobody_here")); });
  EXPECT_EQ(role.native_code(), "28000");
  EXPECT_EQ(role.kind(), ErrorKind::permission);
}

TEST_F(PostgresDriver, SecretsNeverReachAnErrorsText) {
  for (const char* url :
       {"postgresql://me:s3cr3t@127.0.0.1:1/x", "postgresql://127.0.0.1:1/x?password=s3cr3t"}) {
    const auto error = failure_of([&] { (void)Connection::open(ConnectionSettings(url)); });
    EXPECT_EQ(error.kind(), ErrorKind::connection_lost);
    EXPECT_THAT(error.what(), Not(HasSubstr("s3cr3t")));
  }
  try {
    ConnectionSettings("postgresql://me:s3cr3t@127.0.0.1:notaport&&/x?what");
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("s3cr3t")));
  }
}

TEST_F(PostgresDriver, APooledSessionLeavesNoPreparedStatements) {
  auto options = backend.options();
  options.pooled = true;
  options.max_connections = 1;
  auto platform = Platform::open(backend.url(), options);
  platform.outbox().enqueue({.topic = "t"});
  (void)platform.outbox().claim({.owner = OwnerToken::generate()});
  auto transaction = platform.begin();
  EXPECT_EQ(
      transaction.query("select count(*) from pg_prepared_statements").at(0).get<std::int64_t>(0),
      0);
  transaction.rollback();

  options.pooled = false;
  auto direct = Platform::open(backend.url(), options);
  direct.outbox().enqueue({.topic = "t"});
  auto other = direct.begin();
  EXPECT_GT(other.query("select count(*) from pg_prepared_statements").at(0).get<std::int64_t>(0),
            0);
}

TEST_F(PostgresDriver, AnEnqueueWhoseCommitIsInDoubtIsRepeatedAndStoredOnce) {
  auto direct = backend.open();
  CuttingProxy proxy(backend.url());
  auto platform = Platform::open(proxy.url(), backend.options());
  platform.outbox().enqueue({.topic = "warm"});
  proxy.cut_answer_to("worst moment");
  platform.outbox().enqueue({.topic = "t", .payload = "worst moment"});
  EXPECT_EQ(proxy.cuts(), 1);
  const auto claimed = direct.outbox().claim({.owner = OwnerToken::generate()});
  EXPECT_EQ(std::ranges::count(claimed, "t", [](const auto& each) { return each.message.topic; }),
            1);
}

TEST_F(PostgresDriver, ABulkEnqueueCutInsideCommitIsStoredOnce) {
  auto direct = backend.open();
  CuttingProxy proxy(backend.url());
  auto platform = Platform::open(proxy.url(), backend.options());
  proxy.cut_answer_to("commit");
  const auto ids =
      platform.outbox().enqueue_many(std::vector<EnqueueRequest>(100, {.topic = "bulk"}));
  EXPECT_EQ(proxy.cuts(), 1);
  EXPECT_THAT(direct.outbox().claim({.owner = OwnerToken::generate(), .batch_size = 1'000}),
              SizeIs(100));
}

TEST_F(PostgresDriver, ATransactionCutInsideCommitIsInDoubtAndSaysSo) {
  auto direct = backend.open();
  CuttingProxy proxy(backend.url());
  auto platform = Platform::open(proxy.url(), backend.options());
  auto transaction = platform.begin();
  platform.outbox().enqueue(transaction, {.topic = "t"});
  proxy.cut_answer_to("commit");
  EXPECT_TRUE(failure_of([&] { transaction.commit(); }).is_in_doubt());
  EXPECT_THAT(direct.outbox().claim({.owner = OwnerToken::generate()}), SizeIs(1))
      << "it had taken effect";
}

TEST_F(PostgresDriver, DeadlocksAreRetriedFromTheTop) {
  auto database = backend.open_database();
  backend.sql("create schema " + backend.schema() + "; create table " + backend.table("pair") +
              " (id int primary key, n int); insert into " + backend.table("pair") +
              " values (1, 0), (2, 0)");
  std::atomic<int> bodies{0};
  const auto add = [&](int first, int second) {
    database->write({}, [&](storage::WriteSession& session) {
      ++bodies;
      for (int id : {first, second}) {
        const std::array<Parameter, 1> parameters{Parameter(id)};
        session.execute("update " + backend.table("pair") + " set n = n + 1 where id = $1",
                        parameters);
        if (id == first) session.execute("select pg_sleep(0.05)", {});
      }
    });
  };
  std::jthread one([&] { add(1, 2); });
  std::jthread two([&] { add(2, 1); });
  one.join();
  two.join();
  EXPECT_EQ(backend.number("select sum(n)::bigint from " + backend.table("pair")), 4);
  EXPECT_GT(bodies, 2) << "no deadlock happened: the test proves nothing";
}

}  // namespace
}  // namespace dovetail::postgres
