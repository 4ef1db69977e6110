#include "storage/pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/testing/manual_clock.hpp"
#include "support/start_waiting.hpp"
#include "unit/error_kinds.hpp"
#include "unit/recording_sink.hpp"

namespace {

using namespace dovetail;
using namespace std::chrono_literals;
using dovetail::testing::ManualClock;
using dovetail::testing::RecordingSink;
using dovetail::testing::start_waiting;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr FullJitterBackoff no_pause{.initial = 0ms, .cap = 0ms};

/// Counts the objects that are alive, and their maximum.
struct Census {
  std::atomic<int> opened = 0;
  std::atomic<int> alive = 0;
  std::atomic<int> most = 0;

  void born() {
    ++opened;
    const int now = ++alive;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
  }
};

class FakeConnection {
 public:
  explicit FakeConnection(Census& census) : census_(census) { census_.born(); }
  FakeConnection(const FakeConnection&) = delete;
  FakeConnection& operator=(const FakeConnection&) = delete;
  ~FakeConnection() { --census_.alive; }

  [[nodiscard]] bool usable() const { return usable_; }
  void break_off() { usable_ = false; }

 private:
  Census& census_;
  bool usable_ = true;
};

using Pool = storage::Pool<FakeConnection>;

Error connect_failure(ErrorKind kind) {
  return {{kind, "57P03", "connect"}, "starting up"};
}

class PoolTest : public ::testing::Test {
 protected:
  Pool make(storage::PoolOptions options) {
    return make(options, [] {});
  }

  /// `before_open` may throw: opening fails.
  Pool make(storage::PoolOptions options, std::function<void()> before_open) {
    return Pool{options, clock, Logger{sink}, [this, before_open](const std::stop_token&, auto) {
                  ++tries;
                  before_open();
                  return std::make_unique<FakeConnection>(census);
                }};
  }

  Census census;
  std::atomic<int> tries = 0;
  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
};

ErrorKind kind_of_failure(Pool& pool, const std::stop_token& stop = {}) {
  try {
    const auto lease = pool.acquire(stop);
  } catch (const Error& error) {
    return error.kind();
  }
  throw std::logic_error("the pool had a connection");
}

TEST_F(PoolTest, OpensNothingBeforeSomebodyAsks) {
  const auto pool = make({});
  EXPECT_EQ(tries, 0);
}

TEST_F(PoolTest, RefusesASizeOfZero) {
  EXPECT_THROW(make({.max_size = 0}), std::invalid_argument);
}

TEST_F(PoolTest, HandsOutUpToMaxSizeAtOnce) {
  auto pool = make({.max_size = 3, .patience = 0ms});
  const auto first = pool.acquire();
  const auto second = pool.acquire();
  const auto third = pool.acquire();
  EXPECT_EQ(census.alive, 3);
  EXPECT_EQ(kind_of_failure(pool), ErrorKind::transient);
}

TEST_F(PoolTest, NeverHoldsMoreThanMaxSizeUnderEightThreads) {
  auto pool = make({.max_size = 3});
  std::atomic<int> in_use = 0;
  std::atomic<bool> crowded = false;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 500; ++i) {
          const auto lease = pool.acquire();
          if (++in_use > 3) crowded = true;
          std::this_thread::yield();
          if ((i + thread) % 7 == 0) lease->break_off();
          --in_use;
        }
      });
    }
  }
  EXPECT_FALSE(crowded);
  EXPECT_LE(census.most, 3);
  EXPECT_LE(census.alive, 3);
}

TEST_F(PoolTest, ReusesAnIdleConnection) {
  auto pool = make({});
  const auto* first = &*pool.acquire();
  const auto again = pool.acquire();
  EXPECT_EQ(&*again, first);
  EXPECT_EQ(census.opened, 1);
}

TEST_F(PoolTest, KeepsReturnedConnectionsOpen) {
  auto pool = make({});
  {
    const auto first = pool.acquire();
    const auto second = pool.acquire();
  }
  EXPECT_EQ(census.alive, 2);
}

TEST_F(PoolTest, ClosesItsConnectionsWithItself) {
  {
    auto pool = make({});
    const auto lease = pool.acquire();
  }
  EXPECT_EQ(census.opened, 1);
  EXPECT_EQ(census.alive, 0);
}

TEST_F(PoolTest, ThrowsAwayAConnectionThatComesBackBroken) {
  auto pool = make({.max_size = 1, .patience = 0ms});
  pool.acquire()->break_off();
  EXPECT_EQ(census.alive, 0);
  const auto fresh = pool.acquire();
  EXPECT_TRUE(fresh->usable());
  EXPECT_EQ(census.opened, 2);
}

TEST_F(PoolTest, ThrowsAwayAConnectionThatBrokeWhileIdle) {
  auto pool = make({.max_size = 1, .patience = 0ms});
  auto* idle = &*pool.acquire();
  idle->break_off();
  const auto fresh = pool.acquire();
  EXPECT_TRUE(fresh->usable());
  EXPECT_EQ(census.opened, 2);
  EXPECT_EQ(census.alive, 1);
}

TEST_F(PoolTest, PassesOverBrokenIdleConnectionsToAUsableOne) {
  auto pool = make({});
  FakeConnection* broken = nullptr;
  {
    const auto returned_last = pool.acquire();
    const auto returned_first = pool.acquire();
    broken = &*returned_last;
  }
  broken->break_off();
  EXPECT_TRUE(pool.acquire()->usable());
  EXPECT_EQ(census.opened, 2);
  EXPECT_EQ(census.alive, 1);
}

TEST_F(PoolTest, CloseIdleClosesConnectionsThatNobodyUses) {
  auto pool = make({});
  const auto used = pool.acquire();
  { const auto idle = pool.acquire(); }
  pool.close_idle();
  EXPECT_EQ(census.alive, 1);
  EXPECT_TRUE(used->usable());
  const auto fresh = pool.acquire();
  EXPECT_EQ(census.opened, 3);
}

TEST_F(PoolTest, AMovedLeaseGivesItsPlaceBackOnce) {
  auto pool = make({.max_size = 1, .patience = 0ms});
  {
    auto first = pool.acquire();
    const auto second = std::move(first);
    EXPECT_EQ(kind_of_failure(pool), ErrorKind::transient);
  }
  const auto again = pool.acquire();
  EXPECT_EQ(kind_of_failure(pool), ErrorKind::transient);
  EXPECT_EQ(census.opened, 1);
}

TEST_F(PoolTest, ThrowsTransientWhenAllStayInUseBeyondPatience) {
  auto pool = make({.max_size = 1, .patience = 1ms});
  const auto only = pool.acquire();
  EXPECT_EQ(kind_of_failure(pool), ErrorKind::transient);
}

TEST_F(PoolTest, GoesOnAfterSomebodyGaveUpWaiting) {
  auto pool = make({.max_size = 1, .patience = 0ms});
  {
    const auto only = pool.acquire();
    EXPECT_EQ(kind_of_failure(pool), ErrorKind::transient);
  }
  EXPECT_NO_THROW(pool.acquire());
}

TEST_F(PoolTest, ServesThoseWhoWaitInTurn) {
  auto pool = make({.max_size = 1});
  std::vector<int> served;  // written only under the one lease
  {
    std::optional held{pool.acquire()};
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 5; ++i) {
      waiting.push_back(start_waiting([&, i] {
        const auto lease = pool.acquire();
        served.push_back(i);
      }));
    }
    held.reset();
  }
  EXPECT_THAT(served, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(census.opened, 1);
}

TEST_F(PoolTest, LetsNobodyOvertakeThoseWhoWait) {
  auto pool = make({.max_size = 1});
  std::vector<std::string> served;  // written only under the one lease
  std::optional held{pool.acquire()};
  const auto waiting = start_waiting([&] {
    const auto lease = pool.acquire();
    served.emplace_back("who waited");
  });
  held.reset();
  {
    const auto lease = pool.acquire();
    served.emplace_back("who came late");
  }
  EXPECT_THAT(served, ElementsAre("who waited", "who came late"));
}

TEST_F(PoolTest, StopEndsWaitingForAPlace) {
  auto pool = make({.max_size = 1, .patience = 1h});
  const auto only = pool.acquire();
  std::stop_source stop;
  auto waiting =
      std::async(std::launch::async, [&] { return kind_of_failure(pool, stop.get_token()); });
  stop.request_stop();
  EXPECT_EQ(waiting.get(), ErrorKind::cancelled);
}

TEST_F(PoolTest, StopOfOneDoesNotBlockTheNextInLine) {
  auto pool = make({.max_size = 1, .patience = 1h});
  std::optional held{pool.acquire()};
  std::stop_source stop;
  std::promise<ErrorKind> first;
  std::promise<void> second;
  const auto impatient =
      start_waiting([&] { first.set_value(kind_of_failure(pool, stop.get_token())); });
  const auto patient = start_waiting([&] {
    const auto lease = pool.acquire();
    second.set_value();
  });
  stop.request_stop();
  EXPECT_EQ(first.get_future().get(), ErrorKind::cancelled);
  held.reset();
  second.get_future().get();
  EXPECT_EQ(census.opened, 1);
}

TEST_F(PoolTest, TriesToOpenAgainWhileTheFailureIsTransient) {
  auto pool = make({.backoff = no_pause}, [this] {
    if (tries < 4) throw connect_failure(ErrorKind::connection_lost);
  });
  EXPECT_NO_THROW(pool.acquire());
  EXPECT_EQ(tries, 4);
}

TEST_F(PoolTest, LogsReconnectsAndTheFirstAsAWarning) {
  auto pool = make({.backoff = no_pause}, [this] {
    if (tries < 3) throw connect_failure(ErrorKind::connection_lost);
  });
  const auto lease = pool.acquire();
  const auto records = sink->records();
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].level, LogLevel::warn);
  EXPECT_EQ(records[1].level, LogLevel::debug);
  EXPECT_EQ(records[1].event, "storage.reconnect");
  EXPECT_EQ(records[1].fields.at("code"), LogField::Value{"57P03"});
  EXPECT_EQ(records[1].fields.at("tries"), LogField::Value{std::int64_t{2}});
}

TEST_F(PoolTest, CountsFailedAttemptsAndConnectionsThatReplaceOthers) {
  const auto registry = std::make_shared<MetricsRegistry>();
  auto pool = make({.backoff = no_pause, .metrics = Metrics{registry}, .store = "a"}, [this] {
    if (tries == 2) throw connect_failure(ErrorKind::connection_lost);
  });
  const auto counter = [&](const char* name) { return registry->snapshot().counter(name); };
  pool.acquire()->break_off();
  EXPECT_EQ(counter("dovetail_storage_reconnected_total"), 0U);
  {
    const auto replacement = pool.acquire();
    const auto another = pool.acquire();
  }
  EXPECT_EQ(counter("dovetail_storage_reconnected_total"), 1U);
  EXPECT_EQ(counter("dovetail_storage_connect_failed_total"), 1U);
}

TEST_F(PoolTest, ThrowsTheFailureToOpenOnceItsPatienceEnds) {
  auto pool = make({.patience = 0ms}, [] { throw connect_failure(ErrorKind::connection_lost); });
  EXPECT_EQ(kind_of_failure(pool), ErrorKind::connection_lost);
  EXPECT_EQ(tries, 1);
}

TEST_F(PoolTest, ThrowsAPermanentFailureToOpenAtOnce) {
  auto pool = make({.backoff = no_pause}, [] { throw connect_failure(ErrorKind::permission); });
  EXPECT_EQ(kind_of_failure(pool), ErrorKind::permission);
  EXPECT_EQ(tries, 1);
}

TEST_F(PoolTest, AFailedOpenGivesItsPlaceBack) {
  auto pool = make({.max_size = 1, .patience = 0ms}, [this] {
    if (tries == 1) throw connect_failure(ErrorKind::permission);
    if (tries == 2) throw std::runtime_error("out of file descriptors");
  });
  EXPECT_EQ(kind_of_failure(pool), ErrorKind::permission);
  EXPECT_THROW(pool.acquire(), std::runtime_error);
  EXPECT_NO_THROW(pool.acquire());
}

TEST_F(PoolTest, StopEndsThePauseBeforeTheNextTryToOpen) {
  auto pool = make({.patience = 1h, .backoff = {.initial = 1min, .cap = 1min}},
                   [] { throw connect_failure(ErrorKind::connection_lost); });
  std::stop_source stop;
  auto opening =
      std::async(std::launch::async, [&] { return kind_of_failure(pool, stop.get_token()); });
  while (clock->sleepers() == 0) std::this_thread::yield();
  stop.request_stop();
  EXPECT_EQ(opening.get(), ErrorKind::connection_lost);
}

}  // namespace
