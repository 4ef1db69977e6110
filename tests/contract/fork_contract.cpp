// A Platform in a forked child, on both engines.
#include <unistd.h>

#include <atomic>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;

class ForkContract : public BackendTest {
 protected:
  template <class Call>
  static void require_refused(int code, const Call& call) {
    try {
      call();
    } catch (const InvalidOperation&) {
      return;
    }
    ::_exit(code);
  }
};
DOVETAIL_CONTRACT(ForkContract);

TEST_P(ForkContract, TheParentsPlatformIsRefusedInTheChild) {
  auto platform = backend.open();
  platform.outbox().enqueue({.topic = "before"});
  ChildProcess child([&] {
    require_refused(11, [&] { platform.outbox().enqueue({.topic = "t"}); });
    require_refused(12, [&] { (void)platform.begin(); });
    require_refused(13, [&] { platform.start(); });
    require_refused(14, [&] { platform.stop(); });
    require_refused(15, [&] { (void)platform.outbox().counts(); });
    require_refused(16, [&] { platform.on("t", [](const Message&, HandlerContext&) {}); });
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_P(ForkContract, DestroyingTheParentsPlatformInTheChildHarmsNothing) {
  std::atomic<int> handled{0};
  auto platform = std::make_unique<Platform>(backend.open());
  platform->on("t", [&](const Message&, HandlerContext&) { ++handled; });
  platform->start();
  platform->outbox().enqueue({.topic = "t"});
  EXPECT_TRUE(eventually([&] { return handled == 1; }));
  ChildProcess child([&] { platform.reset(); });
  EXPECT_EQ(child.wait(), 0);
  platform->outbox().enqueue({.topic = "t"});
  EXPECT_TRUE(eventually([&] { return handled == 2; }));
  EXPECT_TRUE(platform->stop());
}

TEST_P(ForkContract, ATransactionOfTheParentStaysTheParents) {
  auto platform = backend.open();
  auto transaction = std::make_unique<Transaction>(platform.begin());
  platform.outbox().enqueue(*transaction, {.topic = "t"});
  ChildProcess child([&] {
    require_refused(11, [&] { transaction->execute("select 1"); });
    require_refused(12, [&] { platform.outbox().enqueue(*transaction, {.topic = "child"}); });
    transaction.reset();
  });
  EXPECT_EQ(child.wait(), 0);
  transaction->commit();
  EXPECT_EQ(platform.outbox().claim({.owner = OwnerToken::generate()}).size(), 1U);
}

TEST_P(ForkContract, ALeaseRunnerOfTheParentIsRefusedInTheChildAndStaysTheParents) {
  auto platform = backend.open();
  auto runner = LeaseRunner::try_start(platform.leases(), "job", {.duration = 1min});
  ASSERT_TRUE(runner.has_value());
  ChildProcess child([&] {
    require_refused(11, [&] { runner->try_renew_now(); });
    require_refused(12, [&] { (void)runner->is_lost(); });
    require_refused(13, [&] { (void)runner->stop_token(); });
    require_refused(14, [&] { runner->throw_if_lost(); });
    runner.reset();
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(runner->try_renew_now());
  runner.reset();
  EXPECT_FALSE(platform.leases().find("job").has_value());
}

TEST_P(ForkContract, AGroupOfTheParentIsRefusedInTheChildAndStaysTheParents) {
  GroupOptions options;
  options.database = backend.options();
  auto group = std::make_unique<PlatformGroup>(options);
  group->add("one", backend.url(), backend.schema());
  (*group)["one"].outbox().enqueue({.topic = "t"});
  group->start();
  ChildProcess child([&] {
    require_refused(11, [&] { (void)group->find("one"); });
    require_refused(12, [&] { group->stop(); });
    require_refused(13, [&] { (void)group->keys(); });
    require_refused(14, [&] { (void)group->status(); });
    require_refused(15, [&] { (void)group->fanout(); });
    group.reset();
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(group->stop());
}

}  // namespace
}  // namespace dovetail::testing
