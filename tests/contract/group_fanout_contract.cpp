// Fan-out on a schedule over the databases of a group.
#include <atomic>

#include "dovetail/error.hpp"
#include "support/group_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

class GroupFanoutContract : public GroupTest {
 protected:
  /// Slices in the order of their handling: database and shard.
  FanoutHandlerFunction handler() {
    return [this](const FanoutSlice& slice, HandlerContext& context) {
      const std::lock_guard lock(mutex);
      slices.insert(context.database() + " " + slice.shard_key);
    };
  }
  bool handled(std::size_t count) {
    return eventually([&] {
      const std::lock_guard lock(mutex);
      return slices.size() >= count;
    });
  }
  [[nodiscard]] static FanoutRequest request() {
    return {.topic = "etl",
            .work_key = "payments",
            .cron = "* * * * * *",
            .every = std::chrono::hours{1},
            .jitter = milliseconds{0}};
  }

  std::mutex mutex;
  std::multiset<std::string> slices;
};
DOVETAIL_CONTRACT(GroupFanoutContract);

TEST_P(GroupFanoutContract, EachDatabaseIsASliceThatRunsInThatDatabase) {
  PlatformGroup group(options());
  add_three(group);
  group.fanout().add(request());
  group.fanout().on("etl", "payments", handler());
  group.start();
  ASSERT_TRUE(handled(3));
  // Some rounds later, nothing is due again.
  std::this_thread::sleep_for(milliseconds{1'500});
  {
    const std::lock_guard lock(mutex);
    EXPECT_THAT(slices, ElementsAre("a a", "b b", "c c"));
  }
  for (const auto& key : group.keys()) {
    const auto cursors = group[key].fanout().cursors("etl");
    ASSERT_EQ(cursors.size(), 1U);
    EXPECT_EQ(cursors[0].shard_key, key);
    EXPECT_TRUE(cursors[0].last_completed_at);
  }
}

TEST_P(GroupFanoutContract, APlannerNamesTheShardsOfADatabaseThatCameLater) {
  PlatformGroup group(options());
  group.add("a", backend.url(), backend.schema());
  group.fanout().add(request(), [](const std::string& database, const FanoutPlan&) {
    return FanoutCandidates{{FanoutCandidate{.shard_key = database + "1"},
                             FanoutCandidate{.shard_key = database + "2"}}};
  });
  group.fanout().on("etl", "payments", handler());
  group.start();
  ASSERT_TRUE(handled(2));
  group.add("b", second.url(), second.schema());
  ASSERT_TRUE(handled(4));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(slices, ElementsAre("a a1", "a a2", "b b1", "b b2"));
}

TEST_P(GroupFanoutContract, AConcurrencyLimitIsForAllDatabasesTogether) {
  PlatformGroup group(options());
  add_three(group);
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> ended{0};
  group.fanout().add(request(), [](const std::string&, const FanoutPlan&) {
    return FanoutCandidates{{FanoutCandidate{.shard_key = "1"}, FanoutCandidate{.shard_key = "2"}}};
  });
  group.fanout().on("etl", "payments",
                    [&](const FanoutSlice&, HandlerContext&) {
                      most = std::max(most.load(), ++running);
                      std::this_thread::sleep_for(milliseconds{300});
                      --running;
                      ++ended;
                    },
                    {.concurrency = 1});
  group.start();
  EXPECT_TRUE(eventually([&] { return ended == 6; }));
  EXPECT_EQ(most, 1);
}

TEST_P(GroupFanoutContract, MistakesAreNamedAtOnce) {
  PlatformGroup group(options());
  EXPECT_THROW(group.fanout().add({.topic = "etl"}), std::invalid_argument) << "no work key";
  EXPECT_THROW(group.fanout().add({.topic = "", .work_key = "k"}), std::invalid_argument);
  group.fanout().add(request());
  EXPECT_THROW(group.fanout().add(request()), InvalidOperation);
  group.fanout().on("etl", "payments", handler());
  EXPECT_THROW(group.fanout().on("etl", "payments", handler()), InvalidOperation);
  group.start();
  EXPECT_THROW(group.fanout().add({.topic = "x", .work_key = "k"}), InvalidOperation);
}

}  // namespace
}  // namespace dovetail::testing
