// A settlement that needs a lock of somebody else holds nobody up.
#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;

class PostgresBlockedSettlement : public ::testing::Test {
 protected:
  Platform open_worker() {
    auto options = backend.options();
    options.worker.threads = 2;
    options.worker.lease = milliseconds{1'500};
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

  Backend backend{BackendKind::postgres};
  Platform platform = backend.open();
  std::atomic<int> steps{0};
  std::atomic<int> others{0};
  Platform worker = open_worker();
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
  // Longer than a lease, which goes on being renewed.
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
  EXPECT_EQ(platform.joins().get(join)->status, JoinStatus::completed);
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

}  // namespace
}  // namespace dovetail::testing
