// Attach and the end of a message at the same time: every order of the two leads to the right
// count. Also wrong implementations that look right: each one replaces the real one, and the same
// tests must detect it.
#include <future>
#include <thread>

#include "storage/queue_store.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/postgres_session.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;

using Session = PostgresSession;

class PostgresJoinInterleavings : public ::testing::TestWithParam<bool> {
 protected:
  /// Creates a join of one step, and a claimed message that is not attached yet.
  void SetUp() override {
    join = platform.joins().start({.expected_steps = 1}).to_string();
    message = platform.outbox().enqueue({.topic = "t"}).to_string();
    ASSERT_EQ(platform.outbox().claim({.owner = owner, .lease = std::chrono::hours{1}}).size(), 1U);
  }
  std::string attach() const {
    return "select " + infra + ".outbox_join_attach('" + join + "', '" + message + "')";
  }
  /// Ends the message: by its ack or by its failure, depending on the parameter.
  std::string end() const {
    const auto claim =
        "'" + owner.to_string() + "', array['" + message + "'::uuid], array[1::bigint]";
    return GetParam() ? "select " + infra + ".outbox_fail(" + claim + ", 'broken')"
                      : "select " + infra + ".outbox_ack(" + claim + ")";
  }
  bool waits_for_a_lock(const Session& session) const {
    return eventually(
        [&] {
          return backend.number(
                     "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and pid "
                     "= " +
                     std::to_string(session.pid())) == 1;
        },
        std::chrono::seconds{2});
  }
  /// The number of steps that the join has counted.
  std::int64_t counted() const {
    return backend.number("select completed_steps + failed_steps from " + infra + ".outbox_joins");
  }

  // The orders. After each of them, one message has ended and is attached.

  void attach_then_end() {
    Session attaching(backend);
    Session ending(backend);
    attaching.run(attach());
    attaching.run("commit");
    ending.run(end());
    ending.run("commit");
  }
  void end_then_attach() {
    Session attaching(backend);
    Session ending(backend);
    ending.run(end());
    ending.run("commit");
    attaching.run(attach());
    attaching.run("commit");
  }
  /// The end begins while the attach is not committed.
  void end_during_attach() {
    Session attaching(backend);
    Session ending(backend);
    attaching.run(attach());
    auto ended = ending.start(end());
    waits_for_a_lock(ending);
    attaching.run("commit");
    ended.get();
    ending.run("commit");
  }
  /// The attach begins while the end is not committed.
  void attach_during_end() {
    Session attaching(backend);
    Session ending(backend);
    ending.run(end());
    auto attached = attaching.start(attach());
    waits_for_a_lock(attaching);
    ending.run("commit");
    attached.get();
    attaching.run("commit");
  }
  /// The attach begins while the end waits for a lock of a third session on the message.
  void attach_while_the_end_waits() {
    Session third(backend);
    Session attaching(backend);
    Session ending(backend);
    third.run("select from " + infra + ".outbox where id = '" + message + "' for key share");
    auto ended = ending.start(end());
    waits_for_a_lock(ending);
    auto attached = attaching.start(attach() + "; commit");
    waits_for_a_lock(attaching);  // or it has already ended: both are correct
    third.run("commit");
    ended.get();
    ending.run("commit");
    attached.get();
  }

  Backend backend{BackendKind::postgres, Tables::may_exist};
  Platform platform = backend.open();
  std::string infra = backend.schema();
  OwnerToken owner = OwnerToken::generate();
  std::string join;
  std::string message;
};
INSTANTIATE_TEST_SUITE_P(Ends, PostgresJoinInterleavings, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "fail" : "ack"; });

TEST_P(PostgresJoinInterleavings, AttachThenEnd) {
  attach_then_end();
  EXPECT_EQ(counted(), 1);
}
TEST_P(PostgresJoinInterleavings, EndThenAttach) {
  end_then_attach();
  EXPECT_EQ(counted(), 1);
}
TEST_P(PostgresJoinInterleavings, EndDuringAttach) {
  end_during_attach();
  EXPECT_EQ(counted(), 1);
}
TEST_P(PostgresJoinInterleavings, AttachDuringEnd) {
  attach_during_end();
  EXPECT_EQ(counted(), 1);
}
TEST_P(PostgresJoinInterleavings, AttachWhileTheEndWaits) {
  attach_while_the_end_waits();
  EXPECT_EQ(counted(), 1);
}

TEST_P(PostgresJoinInterleavings, AnAttachThatIsRolledBackWasNone) {
  Session attaching(backend);
  Session ending(backend);
  attaching.run(attach());
  auto ended = ending.start(end());
  waits_for_a_lock(ending);
  attaching.run("rollback");
  EXPECT_EQ(ended.get(), "1");
  ending.run("commit");
  EXPECT_EQ(counted(), 0);
}

TEST_P(PostgresJoinInterleavings, AnEndThatIsRolledBackWasNone) {
  Session attaching(backend);
  Session ending(backend);
  ending.run(end());
  auto attached = attaching.start(attach());
  waits_for_a_lock(attaching);
  ending.run("rollback");
  EXPECT_EQ(attached.get(), "t");
  attaching.run("commit");
  EXPECT_EQ(counted(), 0);
  Session again(backend);
  again.run(end());
  again.run("commit");
  EXPECT_EQ(counted(), 1);
}

TEST_P(PostgresJoinInterleavings, AReplayDuringAnAttachIsNoticed) {
  if (!GetParam()) {  // only a failed message can be replayed
    end_then_attach();
    EXPECT_EQ(counted(), 1);
    return;
  }
  {
    Session ending(backend);
    ending.run(end());
    ending.run("commit");
  }
  Session replaying(backend);
  Session attaching(backend);
  replaying.run("select " + infra + ".outbox_replay()");
  attaching.run(attach());  // sees the dead letter, and counts it
  attaching.run("commit");
  replaying.run("commit");
  EXPECT_EQ(counted(), 1);
}

/// An end whose snapshot is older than the attach cannot see the attach. The next check of a
/// waiting message counts the step.
TEST_P(PostgresJoinInterleavings, AnEndWithAnOldSnapshotIsCountedByTheNextLook) {
  Session ending(backend);
  ending.run("commit; begin isolation level repeatable read");
  ending.run("select count(*) from " + infra + ".outbox_join_members");
  {
    Session attaching(backend);
    attaching.run(attach());
    attaching.run("commit");
  }
  EXPECT_EQ(ending.run(end()), "1");
  ending.run("commit");
  EXPECT_EQ(counted(), 0);
  const auto look = "select status from " + infra + ".outbox_join_wait('" + join + "', '" +
                    Uuid::v7().to_string() + "')";
  EXPECT_EQ(backend.number(look), 0) << "not at once: it may just be on its way";
  backend.advance(milliseconds{6'000});
  EXPECT_EQ(backend.number(look), GetParam() ? 2 : 1);
  EXPECT_EQ(counted(), 1);
}

/// A message that is attached before it is stored, and that ends before the attach commits.
TEST_P(PostgresJoinInterleavings, AWholeLifeDuringAnAttachIsCountedByTheNextLook) {
  const auto id = MessageId::generate();
  Session attaching(backend);
  attaching.run("select " + infra + ".outbox_join_attach('" + join + "', '" + id.to_string() +
                "')");
  platform.outbox().enqueue({.topic = "t", .message_id = id});
  const auto claimed = platform.outbox().claim({.owner = owner});
  ASSERT_EQ(claimed.size(), 1U);
  EXPECT_EQ(platform.outbox().ack(owner, std::vector{claimed[0].claim}), 1U);
  attaching.run("commit");
  EXPECT_EQ(counted(), 0);
  backend.advance(milliseconds{6'000});
  backend.sql("select from " + infra + ".outbox_join_wait('" + join + "', '" +
              Uuid::v7().to_string() + "')");
  EXPECT_EQ(counted(), 1);
}

// --- known wrong implementations

/// Attach without a lock on the message: it does not wait for a concurrent end, and vice versa.
TEST_P(PostgresJoinInterleavings, WrongAttachWithoutALockIsNoticed) {
  backend.sql("create or replace function " + infra +
              ".outbox_join_attach(join_id uuid, message_id uuid) returns boolean language plpgsql "
              "as $$ begin "
              "insert into " +
              infra +
              ".outbox_join_member (join_id, message_id) values ($1, $2) on conflict do nothing; "
              "return true; end "
              "$$");
  end_during_attach();
  EXPECT_NE(counted(), 1);
}

/// Attach that counts nothing, as the text of the specification says: the join waits forever.
TEST_P(PostgresJoinInterleavings, WrongAttachThatDoesNotLookIntoTheArchiveIsNoticed) {
  backend.sql("create or replace function " + infra +
              ".outbox_join_attach(join_id uuid, message_id uuid) returns boolean language plpgsql "
              "as $$ begin "
              "perform from " +
              infra + ".outbox o where o.id = $2 for key share; insert into " + infra +
              ".outbox_join_member (join_id, message_id) values ($1, $2) on conflict do nothing; "
              "return true; end "
              "$$");
  end_then_attach();
  EXPECT_NE(counted(), 1);
}

/// Ack and count in one statement: its snapshot is older than the lock that it waited for.
TEST_P(PostgresJoinInterleavings, WrongEndInOneStatementIsNoticed) {
  const auto wrong = [&](const std::string& name, const std::string& arguments, int status) {
    return "create or replace function " + infra + "." + name + "(" + arguments +
           ") returns integer language sql as $$ with gone as (delete from " + infra +
           ".outbox o where o.id = any (ids) returning o.*), kept as (insert into " + infra +
           ".outbox_archive (processed_at, created_at, claim_epoch, attempts, past_attempts, "
           "status, "
           "priority, id, topic, "
           "payload) select now(), created_at, claim_epoch, attempts, past_attempts, " +
           std::to_string(status) +
           ", priority, id, topic, payload from gone), stepped as (update " + infra +
           ".outbox_join_member m set status = 1 from gone where m.message_id = gone.id and "
           "m.status = 0 "
           "returning "
           "m.join_id), counted as (update " +
           infra +
           ".outbox_join j set completed_steps = completed_steps + 1 from stepped where j.join_id "
           "= "
           "stepped.join_id) "
           "select count(*)::integer from gone $$";
  };
  backend.sql(wrong("outbox_ack",
                    "owner_token uuid, ids uuid[], epochs bigint[], keep boolean default true, "
                    "rows tid[] default null",
                    2));
  backend.sql(
      wrong("outbox_fail",
            "owner_token uuid, ids uuid[], epochs bigint[], error text, charge integer default 1, "
            "on_stream_failure text default 'block'",
            3));
  end_during_attach();
  EXPECT_NE(counted(), 1);
}

/// Counts calls, not transitions: the second end of a step counts again.
TEST_P(PostgresJoinInterleavings, WrongCountOfCallsIsNoticed) {
  backend.sql("update " + infra + ".outbox_join set expected_steps = 5");
  backend.sql(
      "create or replace function " + infra +
      "._outbox_join_count(joins uuid[], ids uuid[], outcome integer) returns integer language "
      "plpgsql as $$ begin "
      "update " +
      infra + ".outbox_join_member m set status = outcome where m.message_id = any (ids); update " +
      infra +
      ".outbox_join j set completed_steps = completed_steps + cardinality(ids) where j.join_id = "
      "any "
      "(joins); "
      "return 1; end $$");
  attach_then_end();
  backend.sql("select " + infra + ".outbox_join_report('" + join + "', '" + message + "', 1)");
  EXPECT_NE(counted(), 1);
}

/// The caller reads the counter, adds one, and writes it: one of two updates is lost.
TEST_P(PostgresJoinInterleavings, WrongReadAndWriteIsNoticed) {
  backend.sql("update " + infra + ".outbox_join set expected_steps = 5");
  backend.sql(
      "create or replace function " + infra +
      "._outbox_join_count(joins uuid[], ids uuid[], outcome integer) returns integer language "
      "plpgsql as $$ "
      "declare v integer; begin update " +
      infra +
      ".outbox_join_member m set status = outcome where m.message_id = any (ids) and m.status = 0; "
      "select "
      "completed_steps into v from " +
      infra + ".outbox_join j where j.join_id = joins[1]; perform pg_sleep(0.3); update " + infra +
      ".outbox_join j set completed_steps = v + 1 where j.join_id = joins[1]; return 1; end $$");
  const auto other =
      platform.outbox().enqueue({.topic = "t", .joins = {*JoinId::parse(join)}}).to_string();
  Session attaching(backend);
  attaching.run(attach());
  attaching.run("commit");
  Session first(backend);
  Session second(backend);
  auto one = first.start("select " + infra + ".outbox_join_report('" + join + "', '" + message +
                         "', 1); commit");
  auto two = second.start("select " + infra + ".outbox_join_report('" + join + "', '" + other +
                          "', 1); commit");
  one.get();
  two.get();
  EXPECT_NE(counted(), 2);
}

/// The real implementation with the same two reports.
TEST_P(PostgresJoinInterleavings, TwoReportsAtTheSameTimeCountTwice) {
  backend.sql("update " + infra + ".outbox_join set expected_steps = 5");
  const auto other =
      platform.outbox().enqueue({.topic = "t", .joins = {*JoinId::parse(join)}}).to_string();
  Session first(backend);
  Session second(backend);
  first.run(attach());
  first.run("select " + infra + ".outbox_join_report('" + join + "', '" + message + "', 1)");
  auto two =
      second.start("select " + infra + ".outbox_join_report('" + join + "', '" + other + "', 1)");
  EXPECT_TRUE(waits_for_a_lock(second));
  first.run("commit");
  two.get();
  second.run("commit");
  EXPECT_EQ(counted(), 2);
}

// --- locks

/// Two workers that settle in different ways lock the same joins in the same order.
TEST_P(PostgresJoinInterleavings, MixedSettlementsOfManyJoinsDoNotDeadlock) {
  constexpr int rounds = 30;
  const auto log = std::make_shared<RecordedLines>();
  std::vector<JoinId> joins;
  for (int i = 0; i < 6; ++i) joins.push_back(platform.joins().start({.expected_steps = 100'000}));
  std::vector<EnqueueRequest> requests(rounds * 40, {.topic = "t", .joins = joins});
  platform.outbox().enqueue_many(requests);
  const auto database = backend.open_database({.log = Logger{log}});
  std::vector<std::jthread> workers;
  for (int worker = 0; worker < 4; ++worker) {
    workers.emplace_back([&, worker] {
      const auto me = OwnerToken::generate();
      for (int round = 0; round < rounds; ++round) {
        const auto claimed = platform.outbox().claim({.owner = me, .batch_size = 10});
        std::vector<storage::Settlement> settlements;
        for (std::size_t i = 0; i < claimed.size(); ++i) {
          storage::Settlement settlement{.kind = (i + static_cast<std::size_t>(worker)) % 2 == 0
                                                     ? storage::Settlement::Kind::ack
                                                     : storage::Settlement::Kind::fail,
                                         .claim = claimed[i].claim,
                                         .error = "broken"};
          settlements.push_back(std::move(settlement));
        }
        database->write({}, [&](storage::WriteSession& session) {
          database->queue(storage::queue_names::outbox)
              .consumer.work(session, {.owner = me, .settlements = settlements});
        });
      }
    });
  }
  workers.clear();
  // Use the log of this test: other tests cause deadlocks on this server meanwhile.
  EXPECT_THAT(log->all(), ::testing::Each(::testing::Not(::testing::HasSubstr("kind=deadlock"))));
  EXPECT_EQ(backend.number("select count(*) from " + infra +
                           ".outbox_joins where completed_steps + failed_steps = " +
                           std::to_string(rounds * 40)),
            6);
}

/// A transaction that takes the locks in another order causes a deadlock. If the server ends the
/// ack, the ack is retried.
TEST_P(PostgresJoinInterleavings, JOIN_062_AnEndThatADeadlockUndidIsMadeAgain) {
  platform.joins().attach(*JoinId::parse(join), *MessageId::parse(message));
  const std::vector claims{Claim{*MessageId::parse(message), 1}};
  Session other(backend);
  other.run("select from " + infra + ".outbox_join for update");
  auto ended = std::async(std::launch::async, [&] {
    return GetParam() ? platform.outbox().fail(owner, claims, "broken")
                      : platform.outbox().ack(owner, claims);
  });
  ASSERT_TRUE(eventually([&] {  // it has locked the message, and waits for the join
    return backend.number(
               "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and "
               "application_name = "
               "'dovetail' and datname = current_database()") > 0;
  }));
  const auto before =
      backend.number("select deadlocks from pg_stat_database where datname = current_database()");
  other.run("select from " + infra + ".outbox where id = '" + message + "' for update");
  other.run("commit");
  EXPECT_EQ(ended.get(), 1U);
  EXPECT_EQ(counted(), 1);
  EXPECT_TRUE(eventually([&] {  // statistics are delayed
    return backend.number(
               "select deadlocks from pg_stat_database where datname = current_database()") >
           before;
  }));
}

/// A claim never waits, neither for an attach nor for a join.
TEST_P(PostgresJoinInterleavings, AClaimWaitsForNobody) {
  const auto expires =
      platform.outbox().enqueue({.topic = "t",
                                 .expires_at = backend.now() + std::chrono::seconds{1},
                                 .joins = {*JoinId::parse(join)}});
  const auto fresh = platform.outbox().enqueue({.topic = "t"});
  backend.advance(milliseconds{1'500});
  Session holding(backend);
  holding.run("select from " + infra + ".outbox_join for update");
  holding.run("select " + infra + ".outbox_join_attach('" + join + "', '" + fresh.to_string() +
              "')");
  auto claimed = platform.outbox().claim({.owner = owner});
  ASSERT_EQ(claimed.size(), 1U);
  EXPECT_EQ(claimed[0].message.message_id, fresh);
  EXPECT_EQ(platform.outbox().renew(owner, std::vector{claimed[0].claim}, std::chrono::seconds{60}),
            1U);
  holding.run("commit");
  EXPECT_TRUE(platform.outbox().claim({.owner = owner}).empty());
  EXPECT_EQ(platform.outbox().find(expires)->status, MessageStatus::failed);
}

/// Steps that cannot fail at this moment, because their join is locked, do not block other
/// messages.
TEST_P(PostgresJoinInterleavings, ALockedJoinStarvesNobody) {
  std::vector<EnqueueRequest> steps(50, {.topic = "t",
                                         .expires_at = backend.now() + std::chrono::seconds{1},
                                         .joins = {*JoinId::parse(join)}});
  platform.outbox().enqueue_many(steps);
  const auto fresh = platform.outbox().enqueue({.topic = "t"});
  backend.advance(milliseconds{1'500});
  Session holding(backend);
  holding.run("select from " + infra + ".outbox_join for update");
  const auto claimed = platform.outbox().claim({.owner = owner, .batch_size = 10});
  ASSERT_EQ(claimed.size(), 1U);
  EXPECT_EQ(claimed[0].message.message_id, fresh);
}

/// If another transaction locks a join for long, its waiting message checks again later instead of
/// waiting for the lock.
TEST_P(PostgresJoinInterleavings, AWaitDoesNotWaitForALockForEver) {
  Session holding(backend);
  holding.run("select from " + infra + ".outbox_join for update");
  Session looking(backend);
  const auto code = looking.error_of("select from " + infra + ".outbox_join_wait('" + join +
                                     "', '" + Uuid::v7().to_string() + "')");
  EXPECT_EQ(code, "55P03") << "lock not available";
}

}  // namespace
}  // namespace dovetail::testing
