// The threads that call handlers: turns, limits, and handlers that hang.
#include "runtime/worker_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "support/eventually.hpp"

namespace dovetail::runtime {
namespace {

using dovetail::testing::eventually;

/// Calls a function for each delivery, and notes their order.
class Caller final : public WorkerPool::Client {
 public:
  bool begin(const DeliveryPtr& /*delivery*/) override { return !refuses; }
  void handle(const DeliveryPtr& delivery) override {
    {
      const std::lock_guard lock(mutex);
      topics.push_back(delivery->claimed.message.topic);
    }
    ++under_way;
    most = std::max(most.load(), under_way.load());
    if (body) body(*delivery);
    --under_way;
    ++handled;
  }

  std::function<void(Delivery&)> body;
  std::atomic<bool> refuses{false};
  std::atomic<int> under_way{0};
  std::atomic<int> most{0};
  std::atomic<int> handled{0};
  std::mutex mutex;
  std::vector<std::string> topics;
};

class WorkerPoolTest : public ::testing::Test {
 protected:
  DeliveryPtr delivery(const RegisteredHandler& handler, std::string topic = "t") {
    auto made = std::make_shared<Delivery>();
    made->handler = &handler;
    made->claimed.message.topic = std::move(topic);
    return made;
  }
  std::vector<DeliveryPtr> deliveries(int count, const RegisteredHandler& handler,
                                      const std::string& topic = "t") {
    std::vector<DeliveryPtr> made;
    for (int i = 0; i < count; ++i) made.push_back(delivery(handler, topic));
    return made;
  }
  RegisteredHandler unlimited{{}, {}, 10};
  RegisteredHandler limited{{}, {.concurrency = 1}, 10};
};

TEST_F(WorkerPoolTest, RefusesANumberOfThreadsThatCannotWork) {
  EXPECT_THROW(WorkerPool(0, Logger{}), std::out_of_range);
  EXPECT_THROW(WorkerPool(1'001, Logger{}), std::out_of_range);
}

TEST_F(WorkerPoolTest, TheLinesOfItsClientsAreServedInTurn) {
  Caller first;
  Caller second;
  std::mutex mutex;
  std::string order;
  const auto note = [&](char name) {
    const std::lock_guard lock(mutex);
    order += name;
  };
  std::latch both(1);
  first.body = [&](Delivery&) {
    both.wait();
    note('1');
  };
  second.body = [&](Delivery&) { note('2'); };
  WorkerPool pool(1, Logger{});
  pool.start();
  pool.submit(first, deliveries(20, unlimited));
  ASSERT_TRUE(eventually([&] { return first.under_way == 1; }));
  pool.submit(second, deliveries(2, unlimited));
  both.count_down();
  ASSERT_TRUE(eventually([&] { return first.handled == 20 && second.handled == 2; }));
  EXPECT_LT(order.rfind('2'), 6U) << "the second line does not wait for the first: " << order;
}

TEST_F(WorkerPoolTest, AHandlerAtItsLimitIsPassedOver) {
  Caller client;
  WorkerPool pool(4, Logger{});
  std::latch go_on(1);
  client.body = [&](Delivery& each) {
    if (each.handler == &limited) go_on.wait();
  };
  pool.start();
  pool.submit(client, deliveries(3, limited, "limited"));
  pool.submit(client, deliveries(10, unlimited));
  EXPECT_TRUE(eventually([&] { return client.handled == 10; }));
  EXPECT_EQ(client.under_way, 1);
  go_on.count_down();
  EXPECT_TRUE(eventually([&] { return client.handled == 13; }));
}

TEST_F(WorkerPoolTest, DeliveriesThatNoThreadHasBegunCanBeWithdrawn) {
  Caller client;
  Caller other;
  WorkerPool pool(1, Logger{});
  auto mine = deliveries(3, unlimited);
  pool.submit(client, mine);
  pool.submit(other, deliveries(1, unlimited));
  EXPECT_TRUE(pool.withdraw(client, mine[1]));
  EXPECT_FALSE(pool.withdraw(client, mine[1]));
  EXPECT_THAT(pool.withdraw(client), ::testing::ElementsAre(mine[0], mine[2]));
  pool.start();
  EXPECT_TRUE(eventually([&] { return other.handled == 1; }));
  EXPECT_EQ(client.handled, 0);
}

TEST_F(WorkerPoolTest, ADeliveryThatItsClientRefusesIsNotHandled) {
  Caller client;
  client.refuses = true;
  WorkerPool pool(1, Logger{});
  pool.submit(client, deliveries(2, limited));
  pool.start();
  Caller other;
  pool.submit(other, deliveries(1, limited));
  EXPECT_TRUE(eventually([&] { return other.handled == 1; })) << "no place of the limit is lost";
  EXPECT_EQ(client.handled, 0);
}

TEST_F(WorkerPoolTest, AThreadThatHangsIsReplacedAndEndsWhenItsHandlerReturns) {
  Caller client;
  WorkerPool pool(1, Logger{});
  std::latch go_on(1);
  client.body = [&](Delivery& each) {
    if (each.claimed.message.topic == "hangs") go_on.wait();
  };
  pool.start();
  const auto hanging = delivery(unlimited, "hangs");
  pool.submit(client, {hanging});
  ASSERT_TRUE(eventually([&] { return client.under_way == 1; }));
  pool.replace(hanging);
  EXPECT_EQ(pool.live_threads(), 1);
  pool.submit(client, deliveries(2, unlimited));
  EXPECT_TRUE(eventually([&] { return client.handled == 2; }));
  const auto again = delivery(unlimited, "hangs");
  pool.submit(client, {again});
  ASSERT_TRUE(eventually([&] { return client.under_way == 2; }));
  pool.replace(again);
  EXPECT_EQ(pool.live_threads(), 0) << "as many replacements as threads";
  go_on.count_down();
  EXPECT_TRUE(eventually([&] { return pool.live_threads() == 1; }));
  pool.submit(client, deliveries(1, unlimited));
  EXPECT_TRUE(eventually([&] { return client.handled == 5; }));
}

TEST_F(WorkerPoolTest, AClosedPoolBeginsNothing) {
  Caller client;
  WorkerPool pool(2, Logger{});
  pool.start();
  pool.close();
  pool.submit(client, deliveries(3, unlimited));
  pool.join();
  EXPECT_EQ(client.handled, 0);
  EXPECT_EQ(pool.withdraw(client).size(), 3U);
}

}  // namespace
}  // namespace dovetail::runtime
