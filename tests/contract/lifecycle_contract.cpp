// start(), stop() and on() called by several threads, on both engines.
#include <atomic>
#include <latch>
#include <thread>

#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;

class LifecycleContract : public BackendTest {};
DOVETAIL_CONTRACT(LifecycleContract);

TEST_P(LifecycleContract, OfSeveralThreadsThatStartOneDoesIt) {
  auto platform = backend.open();
  std::atomic<int> started{0};
  std::atomic<int> refused{0};
  std::atomic<int> registered{0};
  std::latch ready(9);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        ready.arrive_and_wait();
        try {
          platform.start();
          ++started;
        } catch (const InvalidOperation&) {
          ++refused;
        }
      });
      threads.emplace_back([&] {
        ready.arrive_and_wait();
        platform.stop(1s);
      });
      threads.emplace_back([&, i] {
        ready.arrive_and_wait();
        try {
          platform.on("t" + std::to_string(i), [](const Message&, HandlerContext&) {});
          ++registered;
        } catch (const InvalidOperation&) {
        }
      });
    }
  }
  EXPECT_EQ(started, 1);
  EXPECT_EQ(refused, 2);
  EXPECT_LE(registered, 3);
  EXPECT_TRUE(platform.stop());
  EXPECT_THROW(platform.start(), InvalidOperation) << "a platform is started once";
}

TEST_P(LifecycleContract, AStartThatFailsLeavesNothingRunning) {
  auto options = backend.options();
  options.worker.batch_size = 0;
  auto platform = Platform::open(backend.url(), options);
  EXPECT_THROW(platform.start(), std::out_of_range);
  EXPECT_NO_THROW(platform.on("t", [](const Message&, HandlerContext&) {}));
  EXPECT_TRUE(platform.stop());
}

TEST_P(LifecycleContract, APlatformThatIsReplacedIsStoppedFirst) {
  std::atomic<int> handled{0};
  auto platform = backend.open();
  platform.on("t", [&](const Message&, HandlerContext&) { ++handled; });
  platform.start();
  platform = backend.open();
  platform.outbox().enqueue({.topic = "t"});
  EXPECT_EQ(platform.outbox().claim({.owner = OwnerToken::generate()}).size(), 1U);
  EXPECT_EQ(handled, 0);
}

TEST_P(LifecycleContract, ASlowStopCallbackDelaysNoOtherStopToken) {
  constexpr int handlers = 4;
  auto options = backend.options();
  options.worker.threads = handlers;
  auto platform = Platform::open(backend.url(), options);
  std::atomic<int> running{0};
  std::atomic<int> told{0};
  std::atomic<int> in_time{0};
  platform.on("t", [&](const Message&, HandlerContext& context) {
    // Each callback is slow: it ends when all handlers have been told.
    const std::stop_callback slow(context.stop_token(), [&] {
      ++told;
      if (eventually([&] { return told == handlers; }, 5s)) ++in_time;
    });
    ++running;
    while (!context.stop_token().stop_requested()) std::this_thread::sleep_for(1ms);
  });
  for (int i = 0; i < handlers; ++i) platform.outbox().enqueue({.topic = "t"});
  platform.start();
  ASSERT_TRUE(eventually([&] { return running == handlers; }));
  EXPECT_TRUE(platform.stop(20s));
  EXPECT_EQ(in_time, handlers);
}

}  // namespace
}  // namespace dovetail::testing
