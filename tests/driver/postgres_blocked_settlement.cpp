// A settlement that waits for a lock of another transaction does not delay other messages.
#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;

class PostgresBlockedSettlement : public ::testing::Test {
 protected:
  Platform open_worker(milliseconds lease) {
    auto options = backend.options();
    options.worker.threads = 2;
    options.worker.lease = lease;
    options.worker.poll_interval = milliseconds{20};
    return Platform::open(backend.url(), options);
  }
  bool becomes(const MessageId& id, MessageStatus status) {
    return eventually([&] { return platform.outbox().find(id)->status == status; });
  }
  void others_go_on(int round) {
    const auto before = others.load();
    platform.outbox().enqueue_many(std::vector<EnqueueRequest>(20, {.topic = "other"}));
    EXPECT_TRUE(eventually([&] { return others == before + 20; })) << "round " << round;
  }
  std::int64_t done(const std::string& topic) {
    return backend.number("select count(*) from " + backend.table("outbox_messages") +
                          " where topic = '" + topic + "' and status = 2");
  }
  void start_worker() {
    worker.on("step", [&](const Message&, HandlerContext&) { ++steps; });
    worker.on("other", [&](const Message&, HandlerContext&) { ++others; });
    worker.start();
  }

  Backend backend{BackendKind::postgres, Tables::may_exist};
  Platform platform = backend.open();
  std::atomic<int> steps{0};
  std::atomic<int> others{0};
  Platform worker = open_worker(milliseconds{1'500});
};

TEST_F(PostgresBlockedSettlement, AJoinThatIsLockedStopsOnlyItsSteps) {
  const auto join = platform.joins().start({.expected_steps = 3});
  std::vector<MessageId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(platform.outbox().enqueue({.topic = "step", .joins = {join}}));
  }
  UserConnection user(backend);
  user.execute("begin");
  user.execute("select from " + backend.table("outbox_join") + " for update");
  start_worker();
  ASSERT_TRUE(eventually([&] { return steps == 3; }));
  // Wait longer than a lease, which is renewed meanwhile.
  const auto lease = "select (extract(epoch from min(locked_until)) * 1000)::bigint from " +
                     backend.table("outbox_messages") + " where topic = 'step'";
  const auto first = backend.number(lease);
  int round = 0;
  do {
    others_go_on(++round);
  } while (round < 3 || backend.number(lease) < first + 2'000);
  EXPECT_EQ(done("step"), 0);
  user.execute("commit");
  for (const auto& id : ids) EXPECT_TRUE(becomes(id, MessageStatus::done));
  EXPECT_EQ(steps, 3) << "none came again";
  EXPECT_EQ(platform.joins().find(join)->status, JoinStatus::completed);
}

TEST_F(PostgresBlockedSettlement, AMessageThatATransactionHoldsStopsOnlyItself) {
  std::atomic<bool> locked{false};
  worker.on("held",
            [&](const Message&, HandlerContext&) { eventually([&] { return locked.load(); }); });
  start_worker();
  const auto id = platform.outbox().enqueue({.topic = "held"});
  ASSERT_TRUE(becomes(id, MessageStatus::in_progress));
  UserConnection user(backend);
  user.execute("begin");
  user.execute("select from " + backend.table("outbox") + " where topic = 'held' for key share");
  locked = true;
  for (int round = 1; round <= 3; ++round) others_go_on(round);
  EXPECT_EQ(done("held"), 0);
  user.execute("commit");
  EXPECT_TRUE(becomes(id, MessageStatus::done));
}

TEST_F(PostgresBlockedSettlement, AMessageOfTheInboxThatATransactionHasSeenStopsOnlyItself) {
  std::atomic<int> received{0};
  std::atomic<bool> locked{false};
  worker.on_inbox("seen", [&](const InboxMessage&, HandlerContext&) {
    eventually([&] { return locked.load(); });
    ++received;
  });
  worker.on_inbox("more", [&](const InboxMessage&, HandlerContext&) { ++received; });
  start_worker();
  platform.inbox().enqueue({.topic = "seen", .source = "s", .message_id = "1"});
  const auto in_progress =
      "select count(*) from " + backend.table("inbox") + " where lease_until is not null";
  ASSERT_TRUE(eventually([&] { return backend.number(in_progress) == 1; }));
  UserConnection user(backend);
  user.execute("begin");
  user.execute("select from " + backend.table("inbox_guard") + " for update");
  locked = true;
  for (int i = 0; i < 20; ++i) {
    platform.inbox().enqueue(
        {.topic = "more", .source = "s", .message_id = "m" + std::to_string(i)});
  }
  EXPECT_TRUE(eventually([&] { return received == 21; }));
  for (int round = 1; round <= 3; ++round) others_go_on(round);
  user.execute("commit");
  EXPECT_TRUE(eventually([&] { return backend.number(in_progress) == 0; }));
  EXPECT_EQ(received, 21) << "none came again";
}

TEST_F(PostgresBlockedSettlement, StepsThatCommitWithTheirTransactionsStopNoOtherTopic) {
  worker = open_worker(std::chrono::seconds{60});
  const auto join = platform.joins().start({.expected_steps = 12});
  std::vector<MessageId> ids;
  for (int i = 0; i < 12; ++i) {
    ids.push_back(platform.outbox().enqueue({.topic = "effect", .joins = {join}}));
  }
  backend.sql("create table " + backend.table("effects") + " (id uuid)");
  worker.on("effect", [&](const Message& message, HandlerContext& context) {
    ++steps;
    context.transaction().execute("insert into " + backend.table("effects") + " values ($1)",
                                  message.id.uuid());
  });
  UserConnection user(backend);
  user.execute("begin");
  user.execute("select from " + backend.table("outbox_join") + " for update");
  start_worker();
  ASSERT_TRUE(eventually([&] { return steps >= 2; })) << "as many as threads";
  for (int round = 1; round <= 3; ++round) others_go_on(round);
  EXPECT_EQ(done("effect"), 0);
  user.execute("commit");
  for (const auto& id : ids) EXPECT_TRUE(becomes(id, MessageStatus::done));
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("effects")), 12)
      << "each took effect once";
  EXPECT_EQ(backend.number("select sum(retry_count)::bigint from " +
                           backend.table("outbox_messages") + " where topic = 'effect'"),
            0)
      << "no attempt was charged";
  EXPECT_EQ(platform.joins().find(join)->status, JoinStatus::completed);
}

TEST_F(PostgresBlockedSettlement, ManyTransactionalStepsOfALockedJoinStopNoOtherTopic) {
  worker = open_worker(std::chrono::seconds{60});
  const auto join = platform.joins().start({.expected_steps = 40});
  platform.outbox().enqueue_many(
      std::vector<EnqueueRequest>(40, {.topic = "effect", .joins = {join}}));
  worker.on("effect", [&](const Message&, HandlerContext& context) {
    ++steps;
    context.transaction().execute("select 1");
  });
  UserConnection user(backend);
  user.execute("begin");
  user.execute("select from " + backend.table("outbox_join") + " for update");
  start_worker();
  ASSERT_TRUE(eventually([&] { return steps >= 2; })) << "as many as threads";
  for (int round = 1; round <= 5; ++round) {
    const auto before = others.load();
    platform.outbox().enqueue_many(std::vector<EnqueueRequest>(10, {.topic = "other"}));
    EXPECT_TRUE(eventually([&] { return others == before + 10; }, std::chrono::seconds{5}))
        << "round " << round;
  }
  EXPECT_LT(steps, 40) << "a message that cannot be settled is not handled in vain";
  user.execute("commit");
  EXPECT_TRUE(eventually([&] { return done("effect") == 40; }));
  EXPECT_EQ(platform.joins().find(join)->status, JoinStatus::completed);
}

TEST_F(PostgresBlockedSettlement, WaitsForALockedJoinStopNoOtherTopic) {
  const auto join = platform.joins().start({.expected_steps = 1});
  for (int i = 0; i < 6; ++i) {
    platform.joins().enqueue_wait(join, {.on_complete_topic = "continued"});
  }
  UserConnection user(backend);
  user.execute("begin");
  user.execute("select from " + backend.table("outbox_join") + " for update");
  start_worker();
  for (int round = 1; round <= 5; ++round) {
    const auto before = others.load();
    platform.outbox().enqueue_many(std::vector<EnqueueRequest>(10, {.topic = "other"}));
    EXPECT_TRUE(eventually([&] { return others == before + 10; }, std::chrono::seconds{3}))
        << "round " << round;
  }
  user.execute("commit");
}

}  // namespace
}  // namespace dovetail::testing
