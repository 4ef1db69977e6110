// Leases, slots, runners and leaders.
#include <algorithm>
#include <set>
#include <thread>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LeaseContract : public BackendTest {
 protected:
  std::optional<Lease> take(const std::string& owner, const std::string& name = "job",
                            milliseconds duration = seconds{30}) {
    return leases.try_acquire(name, owner, duration);
  }
  Platform platform = backend.open();
  Leases& leases = platform.leases();
};
DOVETAIL_CONTRACT(LeaseContract);

// --- acquire, renew, release

TEST_P(LeaseContract, ALeaseHasOneHolder) {
  const auto before = backend.now();
  const auto lease = take("a");
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->name, "job");
  EXPECT_EQ(lease->owner, "a");
  EXPECT_EQ(lease->slot, 0);
  EXPECT_GT(lease->token, 0);
  EXPECT_GE(lease->acquired_at, before);
  EXPECT_EQ(lease->renewed_at, lease->acquired_at);
  EXPECT_EQ(lease->expires_at, lease->acquired_at + seconds{30});
  EXPECT_FALSE(take("b"));
  EXPECT_FALSE(take("a")) << "not twice, not even the same owner";
  EXPECT_TRUE(take("b", "another job"));
  const auto held = leases.find("job");
  ASSERT_TRUE(held);
  EXPECT_EQ(held->owner, "a");
  EXPECT_EQ(held->token, lease->token);
  EXPECT_FALSE(leases.find("nothing"));
}

TEST_P(LeaseContract, AnExpiredLeaseMayBeTakenAndItsHolderChangesNothing) {
  const auto first = take("a");
  ASSERT_TRUE(first);
  backend.advance(seconds{29});
  EXPECT_FALSE(take("b"));
  backend.advance(seconds{2});
  EXPECT_FALSE(leases.find("job"));
  EXPECT_FALSE(leases.renew(*first, seconds{30})) << "what has ended is not renewed, taken or not";
  const auto second = take("b");
  ASSERT_TRUE(second);
  EXPECT_GT(second->token, first->token);
  EXPECT_FALSE(leases.renew(*first, seconds{30}));
  EXPECT_FALSE(leases.release(*first));
  EXPECT_EQ(leases.find("job")->owner, "b");
}

TEST_P(LeaseContract, AReleaseIsLoggedByWhetherTheLeaseWasStillHeld) {
  const auto log = std::make_shared<RecordedLines>();
  auto options = backend.options();
  options.log_sink = log;
  auto logging = Platform::open(backend.url(), options);
  const auto lease = logging.leases().try_acquire("n", "o", std::chrono::seconds{10});
  ASSERT_TRUE(lease);
  EXPECT_TRUE(logging.leases().release(*lease));
  EXPECT_FALSE(logging.leases().release(*lease));
  EXPECT_EQ(log->count("lease.released"), 1);
  EXPECT_EQ(log->count("lease.gone"), 1);
}

TEST_P(LeaseContract, RenewingNeedsOwnerAndTokenAndNeverShortens) {
  const auto lease = take("a");
  ASSERT_TRUE(lease);
  backend.advance(seconds{10});
  const auto until = leases.renew(*lease, seconds{60});
  ASSERT_TRUE(until);
  EXPECT_GE(*until, lease->expires_at + seconds{39});
  EXPECT_EQ(leases.renew(*lease, seconds{1}), until);
  auto stranger = *lease;
  stranger.owner = "b";
  EXPECT_FALSE(leases.renew(stranger, seconds{60}));
  EXPECT_FALSE(leases.release(stranger));
  auto older = *lease;
  --older.token;
  EXPECT_FALSE(leases.renew(older, seconds{60}));
  EXPECT_FALSE(leases.release(older));
  backend.advance(seconds{55});
  EXPECT_FALSE(take("b"));
  EXPECT_GT(leases.find("job")->renewed_at, lease->renewed_at);
}

TEST_P(LeaseContract, TokensGrowAcrossReleaseExpiryAndPurge) {
  std::int64_t last = 0;
  for (int round = 0; round < 12; ++round) {
    const auto lease = take(round % 2 == 0 ? "a" : "b");
    ASSERT_TRUE(lease);
    EXPECT_GT(lease->token, last);
    last = lease->token;
    if (round % 3 == 0) {
      EXPECT_TRUE(leases.release(*lease));
      EXPECT_FALSE(leases.release(*lease));
    } else {
      backend.advance(seconds{31});
      EXPECT_EQ(round % 3 == 1 ? leases.purge(seconds{0}) : 1U, 1U);
    }
  }
}

TEST_P(LeaseContract, WhatMakesNoSenseIsRefused) {
  EXPECT_THROW((void)take("a", ""), std::invalid_argument);
  EXPECT_THROW((void)take(""), std::invalid_argument);
  EXPECT_THROW((void)take("a", std::string(256, 'x')), std::invalid_argument);
  EXPECT_THROW((void)take(std::string(256, 'x')), std::invalid_argument);
  EXPECT_THROW((void)take("a", "\xff"), std::invalid_argument);
  EXPECT_THROW((void)take("a", "job", milliseconds{9}), std::out_of_range);
  EXPECT_THROW((void)take("a", "job", hours{25}), std::out_of_range);
  EXPECT_THROW((void)leases.try_acquire_slot("job", 0, "a", seconds{1}), std::out_of_range);
  EXPECT_THROW((void)leases.find(""), std::invalid_argument);
  EXPECT_THROW((void)leases.list({.size = 0}), std::out_of_range);
  EXPECT_THROW(leases.purge(seconds{-1}), std::out_of_range);
  EXPECT_THROW((void)LeaseRunner::try_start(leases, "job", {.duration = milliseconds{50}}),
               std::out_of_range);
  EXPECT_THROW((void)LeaseRunner::try_start(leases, "job", {.renew_at = 0.9}), std::out_of_range);
  EXPECT_THROW((void)LeaseRunner::try_start(leases, "job", {.limit = -1}), std::out_of_range);
  EXPECT_THROW(run_while_leader(leases, "job", {}), std::invalid_argument);
  EXPECT_THAT(leases.list(), IsEmpty());
  EXPECT_TRUE(take("o'hara; drop table lease --", "x\" y"));
}

TEST_P(LeaseContract, LeasesAreListedInPages) {
  for (const auto* name : {"c", "a", "b"}) ASSERT_TRUE(take("o", name));
  ASSERT_TRUE(leases.try_acquire_slot("b", 2, "p", seconds{30}));
  ASSERT_TRUE(take("o", "gone", milliseconds{100}));
  backend.advance(seconds{1});
  const auto names = [&](const LeasePage& page) {
    std::vector<std::string> found;
    for (const auto& lease : leases.list(page))
      found.push_back(lease.name + std::to_string(lease.slot));
    return found;
  };
  EXPECT_THAT(names({}), ElementsAre("a0", "b0", "b1", "c0"));
  EXPECT_THAT(names({.size = 2}), ElementsAre("a0", "b0"));
  EXPECT_THAT(names({.after_name = "b", .after_slot = 0, .size = 2}), ElementsAre("b1", "c0"));
}

TEST_P(LeaseContract, OfManyWhoTryAtOnceOneGetsIt) {
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> got{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        if (take(std::to_string(i), "race " + std::to_string(round))) ++got;
      });
    }
    threads.clear();
    EXPECT_EQ(got, 1);
  }
}

// --- slots

TEST_P(LeaseContract, ALimitedNameHasSoManyHolders) {
  std::vector<Lease> held;
  for (int i = 0; i < 3; ++i) {
    const auto lease = leases.try_acquire_slot("api", 3, "o", seconds{30});
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->slot, i + 1);
    EXPECT_GT(lease->token, held.empty() ? 0 : held.back().token);
    held.push_back(*lease);
  }
  EXPECT_FALSE(leases.try_acquire_slot("api", 3, "p", seconds{30}));
  EXPECT_FALSE(leases.try_acquire_slot("api", 2, "p", seconds{30}))
      << "the limit has become smaller";
  EXPECT_TRUE(take("x", "api")) << "the lease of that name is another thing";
  EXPECT_TRUE(leases.release(held[1]));
  const auto again = leases.try_acquire_slot("api", 3, "p", seconds{30});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->slot, 2);
  EXPECT_GT(again->token, held[2].token);
  EXPECT_TRUE(leases.renew(held[0], seconds{60}));
  backend.advance(seconds{31});
  EXPECT_THAT(leases.list(), SizeIs(1));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(leases.try_acquire_slot("api", 3, "q", seconds{30}));
  EXPECT_FALSE(leases.try_acquire_slot("api", 3, "q", seconds{30}));
}

TEST_P(LeaseContract, ManyWhoTryAtOnceGetAsManySlotsAsThereAre) {
  std::atomic<int> got{0};
  std::mutex mutex;
  std::set<int> slots;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      if (const auto lease = leases.try_acquire_slot("api", 3, std::to_string(i), seconds{30})) {
        ++got;
        std::lock_guard lock(mutex);
        slots.insert(lease->slot);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(got, 3);
  EXPECT_THAT(slots, ElementsAre(1, 2, 3));
}

// --- runners, with a clock that the test moves

class LeaseRenewalContract : public BackendTest {
 protected:
  /// Counts renewals that took effect.
  struct Renewals final : MetricsSink {
    void count(std::string_view name, std::uint64_t by,
               std::span<const MetricLabel> labels) override {
      if (name != "dovetail_lease_calls_total") return;
      if (labels.back().value == "renewed") total += static_cast<int>(by);
    }
    void time(std::string_view, std::chrono::nanoseconds, std::span<const MetricLabel>) override {}
    std::atomic<int> total{0};
  };
  LeaseRenewalContract() {
    auto options = backend.options();
    options.metrics = renewals;
    options.clock = {std::shared_ptr<void>{},
                     &backend.clock()};  // on both engines; the backend owns it
    platform.emplace(Platform::open(backend.url(), options));
  }
  /// Starts a runner whose automatic renewal is due 15 to 18 s after its last one.
  void start() {
    runner = LeaseRunner::try_start(platform->leases(), "job", {.duration = seconds{30}});
    ASSERT_TRUE(runner);
    ASSERT_TRUE(sleeps());
  }
  /// Waits until the renewing and the watching thread sleep.
  bool sleeps() {
    return eventually([&] { return backend.clock().sleepers() == 2; });
  }
  bool renewed(int times) {
    return eventually([&] { return renewals->total == times; }) && sleeps() &&
           renewals->total == times;
  }

  std::shared_ptr<Renewals> renewals = std::make_shared<Renewals>();
  std::optional<Platform> platform;
  std::optional<LeaseRunner> runner;
};
DOVETAIL_CONTRACT(LeaseRenewalContract);

TEST_P(LeaseRenewalContract, ARenewalByHandPutsOffTheAutomaticOneByNoMoreThanItsShare) {
  start();
  backend.advance(seconds{10});
  ASSERT_TRUE(runner->try_renew_now());
  EXPECT_TRUE(renewed(1));
  backend.advance(seconds{10});
  EXPECT_TRUE(renewed(1)) << "20 s after the start, but 10 s after the last renewal";
  backend.advance(seconds{9});
  EXPECT_TRUE(renewed(2)) << "19 s after the last renewal";
  EXPECT_FALSE(runner->is_lost());
}

TEST_P(LeaseRenewalContract, AFailedRenewalByHandLeavesTheAutomaticOneWhereItWas) {
  start();
  backend.advance(seconds{10});
  const auto table = backend.table("lease");
  const auto moved = table + "_moved";
  const auto rename = [&](const std::string& from, const std::string& to) {
    // PostgreSQL requires the new name without the schema.
    backend.sql("alter table " + from + " rename to " + to.substr(to.find('.') + 1));
  };
  rename(table, moved);
  EXPECT_FALSE(runner->try_renew_now()) << "the database fails";
  rename(moved, table);
  EXPECT_FALSE(runner->is_lost());
  backend.advance(seconds{9});
  EXPECT_TRUE(renewed(1)) << "19 s after the start";
}

TEST_P(LeaseRenewalContract, ARunnerIsLostBeforeItsLeaseEndsWithoutARenewal) {
  start();
  const auto stop = runner->stop_token();
  backend.advance(seconds{29} + milliseconds{1});
  EXPECT_TRUE(runner->is_lost());
  EXPECT_TRUE(eventually([&] { return stop.stop_requested(); }));
  EXPECT_FALSE(runner->try_renew_now());
}

// --- runners, with the real clock

class LeaseRunnerContract : public BackendTest {
 protected:
  LeaseRunnerContract() {
    auto options = backend.options();
    options.clock = nullptr;  // real time
    platform.emplace(Platform::open(backend.url(), options));
  }
  Leases& leases() { return platform->leases(); }
  std::optional<Platform> platform;
};
DOVETAIL_CONTRACT(LeaseRunnerContract);

TEST_P(LeaseRunnerContract, ARunnerKeepsItsLeaseAndGivesItBack) {
  {
    auto runner =
        LeaseRunner::try_start(leases(), "job", {.owner = "me", .duration = milliseconds{300}});
    ASSERT_TRUE(runner);
    EXPECT_EQ(runner->lease().owner, "me");
    EXPECT_FALSE(LeaseRunner::try_start(leases(), "job"));
    std::this_thread::sleep_for(
        milliseconds{1'000});  // more than three times as long as its duration
    EXPECT_FALSE(runner->is_lost());
    EXPECT_NO_THROW(runner->throw_if_lost());
    EXPECT_FALSE(runner->stop_token().stop_requested());
    const auto held = leases().find("job");
    ASSERT_TRUE(held);
    EXPECT_EQ(held->token, runner->token());
    EXPECT_GT(held->renewed_at, held->acquired_at);
    EXPECT_TRUE(runner->try_renew_now());
    auto moved = std::move(*runner);
    EXPECT_FALSE(moved.is_lost());
  }
  EXPECT_FALSE(leases().find("job"));
  EXPECT_TRUE(LeaseRunner::try_start(leases(), "job"));
}

TEST_P(LeaseRunnerContract, ARunnerIsToldWhenItsLeaseIsTaken) {
  auto runner = LeaseRunner::try_start(leases(), "job", {.duration = milliseconds{400}});
  ASSERT_TRUE(runner);
  leases().release(runner->lease());  // as an operator does
  const auto other = leases().try_acquire("job", "other", seconds{30});
  ASSERT_TRUE(other);
  EXPECT_TRUE(eventually([&] { return runner->stop_token().stop_requested(); }));
  EXPECT_TRUE(runner->is_lost());
  EXPECT_THROW(runner->throw_if_lost(), LostLease);
  EXPECT_FALSE(runner->try_renew_now());
  runner.reset();
  EXPECT_EQ(leases().find("job")->owner, "other") << "what is another's is not given back";
}

TEST_P(LeaseRunnerContract, ARunnerThatCannotConfirmItsLeaseIsLostBeforeItEnds) {
  auto runner = LeaseRunner::try_start(leases(), "job", {.duration = milliseconds{600}});
  ASSERT_TRUE(runner);
  const auto granted = std::chrono::steady_clock::now();
  // A transaction that locks the row, or the file, blocks every renewal.
  UserConnection other(backend);
  other.execute(backend.is_postgres() ? "begin" : "begin immediate");
  other.execute("update " + backend.table("lease") + " set renewed_at = renewed_at");
  EXPECT_TRUE(eventually([&] { return runner->stop_token().stop_requested(); }));
  EXPECT_TRUE(runner->is_lost());
  EXPECT_LT(std::chrono::steady_clock::now() - granted, seconds{20})
      << "long before anybody gives up waiting for a lock";
  other.execute("rollback");
}

TEST_P(LeaseRunnerContract, WhoKeptTheTokenIsToldOfTheEnd) {
  auto runner = LeaseRunner::try_start(leases(), "job");
  ASSERT_TRUE(runner);
  const auto token = runner->stop_token();
  runner.reset();
  EXPECT_TRUE(token.stop_requested());
}

TEST_P(LeaseRunnerContract, AStopFromOutsideIsNoLoss) {
  std::stop_source source;
  auto runner = LeaseRunner::try_start(leases(), "job", {.stop = source.get_token()});
  ASSERT_TRUE(runner);
  source.request_stop();
  EXPECT_TRUE(runner->stop_token().stop_requested());
  EXPECT_FALSE(runner->is_lost());
}

TEST_P(LeaseRunnerContract, ARunnerMayHoldOneOfSeveralSlots) {
  auto first = LeaseRunner::try_start(leases(), "api", {.limit = 2});
  auto second = LeaseRunner::try_start(leases(), "api", {.limit = 2});
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->lease().slot, second->lease().slot);
  EXPECT_FALSE(LeaseRunner::try_start(leases(), "api", {.limit = 2}));
  first.reset();
  EXPECT_TRUE(LeaseRunner::try_start(leases(), "api", {.limit = 2}));
}

TEST_P(LeaseRunnerContract, OneLeadsAndAnotherFollows) {
  std::stop_source source;
  std::mutex mutex;
  std::vector<std::int64_t> tokens;
  std::atomic<int> leading{0};
  std::atomic<bool> together{false};
  std::vector<std::jthread> candidates;
  for (int i = 0; i < 3; ++i) {
    candidates.emplace_back([&] {
      run_while_leader(leases(), "leader",
                       [&](LeaseRunner& runner) {
                         if (++leading > 1) together = true;
                         {
                           std::lock_guard lock(mutex);
                           tokens.push_back(runner.token());
                         }
                         std::this_thread::sleep_for(milliseconds{50});
                         --leading;  // it returns, and another candidate may lead
                       },
                       {.duration = milliseconds{500}, .stop = source.get_token()});
    });
  }
  candidates.clear();  // each has led once
  EXPECT_FALSE(together);
  ASSERT_THAT(tokens, SizeIs(3));
  EXPECT_TRUE(std::ranges::is_sorted(tokens));
}

TEST_P(LeaseRunnerContract, ALeaderThatIsDeposedStandsAgain) {
  std::stop_source source;
  std::atomic<int> terms{0};
  std::jthread candidate([&] {
    const bool by_itself =
        run_while_leader(leases(), "leader",
                         [&](LeaseRunner& runner) {
                           ++terms;
                           while (!runner.stop_token().stop_requested())
                             std::this_thread::sleep_for(milliseconds{5});
                         },
                         {.owner = "c", .duration = milliseconds{300}, .stop = source.get_token()});
    EXPECT_FALSE(by_itself);
  });
  ASSERT_TRUE(eventually([&] { return terms == 1; }));
  const auto held = leases().find("leader");
  ASSERT_TRUE(held);
  leases().release(*held);
  ASSERT_TRUE(eventually([&] { return terms == 2; }));
  source.request_stop();
  candidate.join();
  EXPECT_FALSE(leases().find("leader"));
}

}  // namespace
}  // namespace dovetail::testing
