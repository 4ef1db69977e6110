// Coordinators and workers of a fan-out that are killed: no slice is enqueued twice or left out,
// and the windows of each shard form a chain.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <map>
#include <optional>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FanoutFault : public BackendTest {
 protected:
  PlatformOptions options() const {
    PlatformOptions options{.schema = backend.schema(), .log_sink = null_log_sink()};
    options.worker.lease = seconds{2};
    options.worker.poll_interval = milliseconds{20};
    options.worker.idle_poll_interval = milliseconds{50};
    return options;
  }
  [[nodiscard]] std::string table() const {
    return backend.is_postgres() ? backend.schema() + ".effects" : "effects";
  }
  /// A child process that works until it is killed.
  ChildProcess worker(const std::function<void(Platform&)>& prepare) const {
    return ChildProcess([&] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto mine = Platform::open(backend.url(), options());
      prepare(mine);
      mine.start();
      for (;;) ::pause();
    });
  }
  [[nodiscard]] std::int64_t slices() const {
    return backend.number("select count(*) from " + backend.table("outbox_messages") +
                          " where topic = 'fanout:etl:k'");
  }
};
DOVETAIL_CONTRACT(FanoutFault);

TEST_P(FanoutFault, ARoundWhoseCoordinatorIsKilledIsFinishedByAnother) {
  constexpr int count = 10'000;
  Platform::migrate(backend.url(), options());
  const auto add = [&](Platform& platform, bool slow) {
    platform.fanout().add(
        {.topic = "etl", .work_key = "k", .cron = "0 0 1 1 *", .lease = seconds{slow ? 1 : 10}},
        [slow](const FanoutPlan&) {
          return FanoutCandidates::in_pages([slow, next = 0](auto& page) mutable {
            if (next == count) return false;
            if (slow && next == count / 2) ::pause();  // the middle of the round
            for (int i = 0; i < 5'000; ++i) page.push_back({.shard_key = std::to_string(next++)});
            return true;
          });
        });
  };
  auto victim = worker([&](Platform& platform) { add(platform, true); });
  auto platform = Platform::open(backend.url(), options());
  EXPECT_TRUE(eventually([&] { return platform.fanout().policies().size() == 1; }));
  EXPECT_TRUE(eventually([&] { return platform.fanout().run_now("etl").size() == 1; }));
  EXPECT_TRUE(eventually([&] { return slices() == count / 2; }));
  victim.signal(SIGKILL);
  victim.wait();
  add(platform, false);
  platform.start();
  EXPECT_TRUE(eventually([&] { return slices() == count; }));
  EXPECT_EQ(backend.number("select count(distinct payload) from " +
                           backend.table("outbox_messages") + " where topic = 'fanout:etl:k'"),
            count);
}

/// Stopped processes. On SQLite they may hold the write lock, and no process can take over.
class StoppedFanoutFault : public FanoutFault {};
INSTANTIATE_TEST_SUITE_P(Engines, StoppedFanoutFault, ::testing::Values(BackendKind::postgres),
                         backend_name);

/// A coordinator is stopped for longer than its lease, in the middle of its round. Another one
/// takes over. Then the first one continues.
TEST_P(StoppedFanoutFault, ACoordinatorBeyondItsLeaseEnqueuesNothingTwice) {
  constexpr int count = 10'000;
  Platform::migrate(backend.url(), options());
  backend.sql("create table " + table() + " (went_on integer)");
  const auto add = [&](Platform& platform, bool stands_still) {
    platform.fanout().add(
        {.topic = "etl", .work_key = "k", .cron = "0 0 1 1 *", .lease = seconds{1}},
        [&, stands_still](const FanoutPlan&) {
          return FanoutCandidates::in_pages([&, stands_still, next = 0](auto& page) mutable {
            if (next == count) return false;
            if (stands_still && next == count / 2) {
              ::raise(SIGSTOP);
              auto transaction = platform.begin();
              transaction.execute("insert into " + table() + " values (1)");
              transaction.commit();
            }
            for (int i = 0; i < 5'000; ++i) page.push_back({.shard_key = std::to_string(next++)});
            return true;
          });
        });
  };
  ChildProcess first([&] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t ends{};
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // for all threads
    auto mine = Platform::open(backend.url(), options());
    add(mine, true);
    mine.start();
    int signal = 0;
    sigwait(&ends, &signal);
    mine.stop(seconds{60});
  });
  auto platform = Platform::open(backend.url(), options());
  EXPECT_TRUE(eventually([&] { return platform.fanout().policies().size() == 1; }));
  EXPECT_TRUE(eventually([&] { return platform.fanout().run_now("etl").size() == 1; }));
  EXPECT_TRUE(eventually([&] { return slices() == count / 2; }));
  add(platform, false);
  platform.start();
  EXPECT_TRUE(eventually([&] { return slices() == count; })) << "nothing is left out";
  first.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return backend.number("select count(*) from " + table()) == 1; }));
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(slices(), count) << "nothing is enqueued twice";
  EXPECT_EQ(backend.number("select count(distinct payload) from " +
                           backend.table("outbox_messages") + " where topic = 'fanout:etl:k'"),
            count);
}

TEST_P(FanoutFault, WindowsFormAChainThoughWorkersAreKilled) {
  constexpr int shards = 20;
  constexpr int kills = 6;
  Platform::migrate(backend.url(), options());
  backend.sql("create table " + table() + " (shard text, window_start text, window_end text)");
  const auto prepare = [&](Platform& platform) {
    platform.fanout().add({.topic = "etl",
                           .work_key = "k",
                           .cron = "* * * * * *",
                           .every = milliseconds{100},
                           .jitter = milliseconds{100},
                           .lease = seconds{1}},
                          [](const FanoutPlan&) {
                            std::vector<FanoutCandidate> list;
                            for (int i = 0; i < shards; ++i)
                              list.push_back({.shard_key = std::to_string(i)});
                            return list;
                          });
    platform.fanout().on("etl", "k", [&](const FanoutSlice& slice, HandlerContext& context) {
      ::usleep(20'000);
      context.transaction().execute(
          "insert into " + table() + " values ($1, $2, $3)", slice.shard_key,
          slice.window_start ? to_string(*slice.window_start) : "", to_string(slice.window_end));
      ::usleep(5'000);
    });
  };
  auto survivor = worker(prepare);
  ChildProcess killer([&] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < kills; ++i) {
      auto victim = worker(prepare);
      ::usleep(static_cast<useconds_t>(400'000 + i % 5 * 150'000));
      victim.signal(SIGKILL);
      victim.wait();
    }
  });
  EXPECT_EQ(killer.wait(), 0);
  const auto complete = [&] {
    return backend.number("select count(*) from " + backend.table("fanout_cursor") +
                          " where last_completed_at is not null");
  };
  EXPECT_TRUE(eventually([&] { return complete() == shards; }, seconds{60}));
  survivor.signal(SIGKILL);
  survivor.wait();
  std::map<std::string, std::string> ends;
  std::size_t windows = 0;
  for (const auto& row : backend.sql("select shard, window_start, window_end from " + table() +
                                     " order by shard, window_end")) {
    auto& end = ends[row.get<std::string>(0)];
    EXPECT_EQ(row.get<std::string>(1), end) << "a gap, an overlap or a second effect";
    end = row.get<std::string>(2);
    ++windows;
  }
  EXPECT_EQ(ends.size(), static_cast<std::size_t>(shards));
  EXPECT_GT(windows, static_cast<std::size_t>(shards)) << "some have a second window";
}

}  // namespace
}  // namespace dovetail::testing
