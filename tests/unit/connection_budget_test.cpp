#include "storage/connection_budget.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "storage/pool.hpp"
#include "support/start_waiting.hpp"

namespace dovetail::storage {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::start_waiting;
using Use = ConnectionBudget::Use;

/// Counts the connections of all pools.
struct OpenConnections {
  std::atomic<int> opened = 0;
  std::atomic<int> alive = 0;
  std::atomic<int> most = 0;
};

class CountedConnection {
 public:
  explicit CountedConnection(OpenConnections& all) : all_(all) {
    ++all_.opened;
    const int now = ++all_.alive;
    for (int seen = all_.most; seen < now && !all_.most.compare_exchange_weak(seen, now);) {
    }
  }
  CountedConnection(const CountedConnection&) = delete;
  CountedConnection& operator=(const CountedConnection&) = delete;
  ~CountedConnection() { --all_.alive; }
  [[nodiscard]] bool usable() const { return usable_; }
  void break_off() { usable_ = false; }

 private:
  OpenConnections& all_;
  bool usable_ = true;
};

using CountedPool = Pool<CountedConnection>;

class ConnectionBudgetTest : public ::testing::Test {
 protected:
  void use_budget(std::size_t limit, std::size_t reserved = 0) {
    budget = std::make_shared<ConnectionBudget>(limit, reserved);
  }
  std::unique_ptr<CountedPool> pool(std::chrono::milliseconds patience = 1h,
                                    Use use = Use::ordinary) {
    const PoolOptions options{.max_size = 100, .patience = patience, .budget = budget, .use = use};
    return std::make_unique<CountedPool>(options, system_clock(), Logger{},
                                         [this](const std::stop_token&, auto) {
                                           if (failing) throw std::runtime_error("no server");
                                           return std::make_unique<CountedConnection>(all);
                                         });
  }
  static Error failure_of(CountedPool& pool, const std::stop_token& stop = {}) {
    try {
      const auto lease = pool.acquire(stop);
    } catch (const Error& error) {
      return error;
    }
    throw std::logic_error("there was a connection");
  }

  OpenConnections all;
  std::atomic<bool> failing = false;
  std::shared_ptr<ConnectionBudget> budget;
};

TEST_F(ConnectionBudgetTest, RefusesABudgetWithoutOrdinaryConnections) {
  EXPECT_THROW(ConnectionBudget(0, 0), std::invalid_argument);
  EXPECT_THROW(ConnectionBudget(2, 2), std::invalid_argument);
  EXPECT_THROW(ConnectionBudget(2, 3), std::invalid_argument);
}

TEST_F(ConnectionBudgetTest, ACallerThatFindsAllInUseGetsATransientErrorWithTheLimit) {
  use_budget(3, 1);
  const auto a = pool(0ms);
  const auto b = pool(1ms);
  const auto first = a->acquire();
  const auto second = b->acquire();
  const auto error = failure_of(*b);
  EXPECT_EQ(error.kind(), ErrorKind::transient);
  EXPECT_THAT(error.what(), HasSubstr("all 3 connections of the group are in use"));
  EXPECT_EQ(all.alive, 2);
}

TEST_F(ConnectionBudgetTest, AStopEndsTheWait) {
  use_budget(1);
  const auto a = pool();
  const auto held = a->acquire();
  std::stop_source stop;
  std::optional<Error> error;
  {
    const auto waiting = start_waiting([&] { error = failure_of(*a, stop.get_token()); });
    stop.request_stop();
  }
  EXPECT_EQ(error->kind(), ErrorKind::cancelled);
}

TEST_F(ConnectionBudgetTest, IdleConnectionsOfOtherPoolsAreClosedLeastRecentlyUsedFirst) {
  use_budget(3);
  const auto a = pool();
  const auto b = pool();
  const auto c = pool();
  std::optional held_by_a{a->acquire()};
  const auto* of_b = &*b->acquire();
  held_by_a.reset();
  const auto held_by_c = c->acquire();
  // All three exist. The pool b was used before a.
  const auto another = c->acquire();
  EXPECT_EQ(all.alive, 3);
  EXPECT_EQ(all.opened, 4);
  const auto again = a->acquire();  // its connection was idle all the time
  EXPECT_EQ(all.opened, 4);
  EXPECT_NE(&*again, of_b);
}

TEST_F(ConnectionBudgetTest, AConnectionThatIsGivenBackWhileOthersWaitIsClosed) {
  use_budget(1);
  const auto a = pool();
  const auto b = pool();
  std::optional held{a->acquire()};
  {
    const auto waiting = start_waiting([&] { const auto lease = b->acquire(); });
    held.reset();
  }
  EXPECT_EQ(all.opened, 2);
  EXPECT_EQ(all.most, 1);
}

TEST_F(ConnectionBudgetTest, CallersOfAllPoolsAreServedInTurn) {
  use_budget(1);
  std::vector<std::unique_ptr<CountedPool>> pools;
  for (int i = 0; i < 5; ++i) pools.push_back(pool());
  std::vector<int> served;  // written only by the holder of the one connection
  {
    std::optional held{pools[0]->acquire()};
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 5; ++i) {
      waiting.push_back(start_waiting([&, i] {
        const auto lease = pools[static_cast<std::size_t>(i)]->acquire();
        served.push_back(i);
      }));
    }
    held.reset();
  }
  EXPECT_THAT(served, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(all.most, 1);
}

TEST_F(ConnectionBudgetTest, ServicePoolsHaveTheirPermitsWhileOthersHoldAllOfTheirs) {
  use_budget(4, 1);
  const auto handlers = pool(0ms);
  const auto service = pool(0ms, Use::service);
  const auto first = handlers->acquire();
  const auto second = handlers->acquire();
  const auto third = handlers->acquire();
  EXPECT_EQ(failure_of(*handlers).kind(), ErrorKind::transient);
  { const auto lease = service->acquire(); }
  // The idle connection of the service stays: handlers may not use it.
  EXPECT_EQ(failure_of(*handlers).kind(), ErrorKind::transient);
  EXPECT_EQ(all.alive, 4);
}

TEST_F(ConnectionBudgetTest, AHandlerThatWaitsDoesNotDelayAService) {
  use_budget(2, 1);
  const auto handlers = pool();
  const auto service = pool(0ms, Use::service);
  std::optional held{handlers->acquire()};
  const auto waiting = start_waiting([&] { const auto lease = handlers->acquire(); });
  EXPECT_NO_THROW(service->acquire());
  held.reset();
}

TEST_F(ConnectionBudgetTest, ServicePoolsMayUseConnectionsThatAreNotReserved) {
  use_budget(4, 1);
  const auto handlers = pool(0ms);
  const auto service = pool(0ms, Use::service);
  { const auto idle = handlers->acquire(); }
  std::vector<CountedPool::Lease> leases;
  for (int i = 0; i < 4; ++i) leases.push_back(service->acquire());
  EXPECT_EQ(all.alive, 4);
  EXPECT_EQ(failure_of(*handlers).kind(), ErrorKind::transient);
}

TEST_F(ConnectionBudgetTest, ConnectionsThatEndGiveTheirPermitsBack) {
  use_budget(1);
  auto a = pool(0ms);
  const auto b = pool(0ms);
  a->acquire()->break_off();
  EXPECT_NO_THROW(b->acquire());
  b->close_idle();
  EXPECT_NO_THROW(a->acquire());
  a.reset();
  EXPECT_NO_THROW(b->acquire());
  b->close_idle();
  failing = true;
  EXPECT_THROW(b->acquire(), std::runtime_error);
  failing = false;
  EXPECT_NO_THROW(b->acquire());
}

TEST_F(ConnectionBudgetTest, TwentyPoolsShareFiveConnectionsAndNobodyStarves) {
  use_budget(5, 1);
  std::vector<std::unique_ptr<CountedPool>> pools;
  for (int i = 0; i < 20; ++i) {
    pools.push_back(pool(1h, i % 4 == 0 ? Use::service : Use::ordinary));
  }
  std::atomic<int> served = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < 24; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t i = 0; i < 200; ++i) {
          auto& mine = *pools[(thread + (i % 3) * 7) % pools.size()];
          const auto lease = mine.acquire();  // throws, and ends the test, after an hour
          if ((i + thread) % 11 == 0) lease->break_off();
          if (i % 5 == 0) std::this_thread::yield();
          ++served;
        }
      });
    }
    threads.emplace_back([&] {
      while (served < 2'000) {
        for (const auto& each : pools) each->close_idle();
        std::this_thread::yield();
      }
    });
  }
  EXPECT_EQ(served, 24 * 200);
  EXPECT_LE(all.most, 5);
  EXPECT_GT(all.opened, 20);
}

TEST_F(ConnectionBudgetTest, APoolMayEndWhileOthersCloseItsIdleConnections) {
  use_budget(2);
  const auto steady = pool();
  for (int i = 0; i < 200; ++i) {
    auto passing = pool();
    { const auto lease = passing->acquire(); }
    const std::jthread other([&] {
      const auto first = steady->acquire();
      const auto second = steady->acquire();
    });
    passing.reset();
  }
  EXPECT_LE(all.most, 2);
}

// --- databases that fail

/// A database that answers when the test allows it.
class Server {
 public:
  Server(std::shared_ptr<ConnectionBudget> budget, OpenConnections& all,
         std::chrono::milliseconds patience, Use use = Use::ordinary)
      : pool({.max_size = 100,
              .patience = patience,
              .budget = std::move(budget),
              .use = use,
              .account = account},
             system_clock(), Logger{}, [this, &all](const std::stop_token&, auto) {
               ++asked;
               answers.wait(false);
               return std::make_unique<CountedConnection>(all);
             }) {}

  void fail_once() { pool.acquire()->break_off(); }
  /// A caller that waits for an answer.
  [[nodiscard]] std::jthread start_hanging() {
    answers = false;
    const int before = asked;
    std::jthread caller([this] { const auto lease = pool.acquire(); });
    while (asked == before) std::this_thread::yield();
    return caller;
  }
  void answer() {
    answers = true;
    answers.notify_all();
  }

  const std::shared_ptr<ConnectionBudget::Account> account =
      std::make_shared<ConnectionBudget::Account>();
  std::atomic<bool> answers = true;
  std::atomic<int> asked = 0;
  CountedPool pool;
};

TEST_F(ConnectionBudgetTest, FailingDatabasesShareAQuarterOfTheBudget) {
  use_budget(8, 2);
  Server a(budget, all, 0ms);
  Server b(budget, all, 0ms);
  Server c(budget, all, 0ms);
  for (auto* each : {&a, &b, &c}) each->fail_once();
  const auto first = a.start_hanging();
  const auto second = b.start_hanging();
  EXPECT_THAT(failure_of(c.pool).what(), HasSubstr("the database fails"));
  // The other databases have the rest: six permits, of which two are reserved.
  const auto healthy = pool(0ms);
  std::vector<CountedPool::Lease> leases;
  for (int i = 0; i < 4; ++i) leases.push_back(healthy->acquire());
  EXPECT_THAT(failure_of(*healthy).what(), HasSubstr("all 8 connections"));
  const auto service = pool(0ms, Use::service);
  const auto third = service->acquire();
  EXPECT_NO_THROW(service->acquire());
  a.answer();
  b.answer();
}

TEST_F(ConnectionBudgetTest, ADatabaseThatFailsUsesNoReservedPermit) {
  use_budget(4, 2);
  Server suspect(budget, all, 0ms, Use::service);
  suspect.fail_once();
  const auto handlers = pool(0ms);
  const auto first = handlers->acquire();
  const auto second = handlers->acquire();
  EXPECT_THROW(static_cast<void>(suspect.pool.acquire()), Error);
  const auto healthy = pool(0ms, Use::service);
  const auto third = healthy->acquire();
  EXPECT_NO_THROW(healthy->acquire());
}

TEST_F(ConnectionBudgetTest, OneAnswerEndsTheFailureAndServesTheCallersThatWait) {
  use_budget(4, 1);
  Server a(budget, all, 1h);
  a.fail_once();
  EXPECT_TRUE(a.account->is_failing());
  const auto first = a.start_hanging();  // the only probe
  std::atomic<int> served = 0;
  std::atomic<bool> go = false;
  std::vector<std::jthread> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(start_waiting([&] {
      const auto lease = a.pool.acquire();
      ++served;
      go.wait(false);
    }));
  }
  EXPECT_EQ(a.asked, 2);
  a.answer();
  while (served < 2) std::this_thread::yield();
  EXPECT_FALSE(a.account->is_failing());
  go = true;
  go.notify_all();
}

TEST_F(ConnectionBudgetTest, AServiceOfAFailingDatabaseDoesNotWaitForOthersThatFail) {
  use_budget(4, 1);
  Server a(budget, all, 1h, Use::service);
  Server b(budget, all, 1h, Use::service);
  a.fail_once();
  b.fail_once();
  const auto first = a.start_hanging();
  try {
    static_cast<void>(b.pool.acquire());  // must not wait for an hour
    ADD_FAILURE() << "there was a connection";
  } catch (const ProbeUnavailable& error) {
    EXPECT_FALSE(error.is_transient()) << "it would be tried again at once";
  }
  a.answer();
}

TEST_F(ConnectionBudgetTest, AServicePoolMakesOneAttemptToOpenAConnection) {
  use_budget(4, 1);
  int attempts = 0;
  CountedPool service({.max_size = 1, .patience = 1h, .budget = budget, .use = Use::service},
                      system_clock(), Logger{},
                      [&](const std::stop_token&, auto) -> std::unique_ptr<CountedConnection> {
                        ++attempts;
                        throw Error({ErrorKind::transient, "", "connect"}, "no server");
                      });
  EXPECT_THROW(static_cast<void>(service.acquire()), Error);
  EXPECT_EQ(attempts, 1);
}

TEST_F(ConnectionBudgetTest, AnAccountKnowsWhenItsServicesWereLastServed) {
  use_budget(1);
  Server first(budget, all, 1h, Use::service);
  Server waits(budget, all, 1h, Use::service);
  EXPECT_EQ(waits.account->served_at(), ConnectionBudget::TimePoint{});
  std::optional held{first.pool.acquire()};
  const auto got = first.account->served_at();
  EXPECT_GT(got, ConnectionBudget::TimePoint{});
  {
    const auto waiting = start_waiting([&] { const auto lease = waits.pool.acquire(); });
    EXPECT_EQ(waits.account->served_at(), ConnectionBudget::TimePoint{}) << "it waits";
    held.reset();
  }
  EXPECT_GT(first.account->served_at(), got) << "its call has ended";
  EXPECT_GE(waits.account->served_at(), first.account->served_at());
}

TEST_F(ConnectionBudgetTest, TheBudgetTellsWhoseConnectionsOthersWaitFor) {
  using Contention = ConnectionBudget::Contention;
  use_budget(2);
  Server slow(budget, all, 1h);
  const auto other = pool();
  std::optional lease{other->acquire()};
  std::optional held{slow.pool.acquire()};
  EXPECT_EQ(budget->contention(*slow.account), Contention::none) << "nobody waits";
  {
    const auto waiting = start_waiting([&] { const auto another = other->acquire(); });
    EXPECT_EQ(budget->contention(*slow.account), Contention::calls);
    lease.reset();
  }
  lease.emplace(other->acquire());
  held.reset();
  slow.pool.close_idle();
  const auto opening = slow.start_hanging();
  {
    const auto waiting = start_waiting([&] { const auto another = other->acquire(); });
    EXPECT_EQ(budget->contention(*slow.account), Contention::connects);
    lease.reset();
  }
  slow.answer();
}

}  // namespace
}  // namespace dovetail::storage
