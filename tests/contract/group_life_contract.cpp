// The life of the databases of a group: waking up, leaving, and ending at unusual moments.
#include <atomic>
#include <future>

#include "dovetail/error.hpp"
#include "support/group_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Round robin that allows no claim while it is closed.
class Gate final : public SelectionStrategy {
 public:
  std::optional<std::size_t> next(std::span<const SelectableStore> stores,
                                  const std::optional<LastSelection>& last) override {
    ++asked;
    if (throws > 0) {
      --throws;
      throw std::runtime_error("no idea");
    }
    return open ? inner_->next(stores, last) : std::nullopt;
  }
  void reset() override { inner_->reset(); }

  std::atomic<bool> open{true};
  std::atomic<int> throws{0};
  std::atomic<int> asked{0};

 private:
  std::shared_ptr<SelectionStrategy> inner_ = round_robin();
};

class GroupLifeContract : public GroupTest {
 protected:
  [[nodiscard]] bool is(const PlatformGroup& group, const std::string& key,
                        GroupDatabaseState state) const {
    return eventually([&] { return status_of(group, key).state == state; });
  }
  [[nodiscard]] static bool has_left(const PlatformGroup& group, const std::string& key) {
    return eventually([&] {
      const auto status = group.status();
      return std::ranges::none_of(status.databases,
                                  [&](const auto& each) { return each.key == key; });
    });
  }
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
};
DOVETAIL_CONTRACT(GroupLifeContract);

// --- waking up

TEST_P(GroupLifeContract, ADatabaseDoesNotSleepBeforeItsTurnHasCome) {
  auto given = options(gate);
  given.max_poll_interval = std::chrono::hours{1};
  PlatformGroup group(given);
  add_three(group);
  group.on("t", calls.handler());
  group.start();
  ASSERT_TRUE(is(group, "a", GroupDatabaseState::idle));
  gate->open = false;
  enqueue(group, "a", 1);
  ASSERT_TRUE(is(group, "a", GroupDatabaseState::working));
  // Wait longer than an idle database keeps its dispatchers: they ask four times a second.
  const int before = gate->asked;
  ASSERT_TRUE(eventually([&] { return gate->asked > before + 30; }));
  EXPECT_EQ(status_of(group, "a").state, GroupDatabaseState::working);
  gate->open = true;
  EXPECT_TRUE(calls.reach(1));
}

TEST_P(GroupLifeContract, MessagesOfTheMomentInWhichADatabaseFallsAsleepAreNotLost) {
  auto given = options();
  given.max_poll_interval = std::chrono::hours{1};
  PlatformGroup group(given);
  add_three(group);
  group.on("t", calls.handler());
  group.on_inbox("t", [](const InboxMessage&, HandlerContext&) {});
  group.start();
  for (std::size_t i = 0; i < 3; ++i) {
    enqueue(group, "a", 1);
    ASSERT_TRUE(calls.reach(2 * i + 1));
    ASSERT_TRUE(is(group, "a", GroupDatabaseState::idle));
    enqueue(group, "a", 1);  // at once
    ASSERT_TRUE(calls.reach(2 * i + 2)) << "the next look is an hour away";
  }
}

TEST_P(GroupLifeContract, DispatchersOfSeveralQueuesBeginTogether) {
  PlatformGroup group(options());
  group.add("b", second.url(), second.schema());
  std::atomic<int> inbox{0};
  group.on("t", calls.handler());
  group.on_inbox("t", [&](const InboxMessage&, HandlerContext&) { ++inbox; });
  group.start();
  for (int i = 0; i < 10; ++i) {
    const auto key = "a" + std::to_string(i);
    group.add(key, backend.url(), backend.schema());
    enqueue(group, key, 1);
    group[key].inbox().enqueue({.topic = "t", .source = "test", .message_id = key, .payload = "x"});
    ASSERT_TRUE(calls.reach(static_cast<std::size_t>(i) + 1));
    ASSERT_TRUE(eventually([&] { return inbox == i + 1; }));
    EXPECT_TRUE(group.remove(key));
  }
  EXPECT_TRUE(eventually([&] { return group.status().databases.size() == 1; }));
}

// --- strategies

TEST_P(GroupLifeContract, AStrategyThatThrowsIsLoggedAndAskedAgain) {
  PlatformGroup group(options(gate));
  add_three(group);
  group.on("t", calls.handler());
  gate->throws = 3;
  group.start();
  enqueue(group, "a", 5);
  EXPECT_TRUE(calls.reach(5));
  EXPECT_EQ(gate->throws, 0);
  EXPECT_THAT(log->all(), Contains(HasSubstr("group.strategy_failed error=no idea")));
}

// --- leaving

TEST_P(GroupLifeContract, ARemovedDatabaseThatIsDownLeaves) {
  PlatformGroup group(options());
  group.add("b", second.url(), second.schema());
  group.add("down", backend.is_postgres() ? "postgresql://127.0.0.1:1/x"
                                          : "sqlite:/nonexistent/directory/x.db");
  group.on("t", calls.handler());
  group.start();
  ASSERT_TRUE(is(group, "down", GroupDatabaseState::failing));
  EXPECT_TRUE(group.remove("down"));
  EXPECT_TRUE(has_left(group, "down"));
  EXPECT_TRUE(eventually([&] { return log->count("group.database_left") == 1; }));
}

TEST_P(GroupLifeContract, ARemovedDatabaseOfAGroupThatWasNotStartedIsGone) {
  PlatformGroup group(options());
  add_three(group);
  enqueue(group, "a", 1);
  const auto kept = group.find("a");
  EXPECT_TRUE(group.remove("a"));
  EXPECT_FALSE(group.remove("a"));
  EXPECT_EQ(group.find("a"), nullptr);
  EXPECT_EQ(group.status().databases.size(), 2U);
  EXPECT_EQ(kept->outbox().counts().ready, 1) << "who has it may use it";
  group.on("t", calls.handler());
  group.start();
  enqueue(group, "b", 1);
  EXPECT_TRUE(calls.reach(1));
  EXPECT_THAT(calls.databases(), ElementsAre("b"));
  group.add("a", backend.url(), backend.schema());
  EXPECT_TRUE(calls.reach(2));
}

TEST_P(GroupLifeContract, AStopWhileADatabaseLeavesEndsItOnce) {
  PlatformGroup group(options());
  add_three(group);
  std::atomic<bool> go{false};
  std::atomic<int> running{0};
  group.on("slow", [&](const Message&, HandlerContext&) {
    ++running;
    eventually([&] { return go.load(); });
  });
  group.start();
  const auto kept = group.find("a");
  enqueue(group, "a", 1, "slow");
  ASSERT_TRUE(eventually([&] { return running == 1; }));
  EXPECT_TRUE(group.remove("a"));
  group.add("a", second.url(), second.schema());  // another database with the same key
  EXPECT_EQ(group.status().databases.size(), 4U);
  auto stopped = std::async(std::launch::async, [&] { return group.stop(seconds{60}); });
  go = true;
  EXPECT_TRUE(stopped.get());
  EXPECT_EQ(kept->outbox().counts().done, 1) << "its result was stored";
}

/// Handlers, their options and the function of a fan-out outlive the entry of their database.
TEST_P(GroupLifeContract, HandlersOfARemovedDatabaseKeepWhatTheyNeed) {
  PlatformGroup group(options());
  add_three(group);
  std::atomic<bool> go{false};
  std::atomic<int> running{0};
  const auto wait = [&, text = std::string(100, 'x')] {
    ++running;
    eventually([&] { return go.load(); });
    return text.size();
  };
  group.fanout().add({.topic = "etl",
                      .work_key = "k",
                      .cron = "* * * * * *",
                      .every = std::chrono::hours{1},
                      .jitter = milliseconds{0}});
  group.fanout().on("etl", "k", [&, wait](const FanoutSlice& slice, HandlerContext& context) {
    if (context.database() != "a") return;
    wait();
    calls.add({.topic = "slice", .payload = slice.shard_key}, context);
  });
  group.on("fails",
           [&, wait](const Message& message, HandlerContext& context) {
             wait();
             calls.add(message, context);
             throw std::runtime_error("once");
           },
           {.concurrency = 2, .max_attempts = 5, .backoff = [text = std::string(100, 'y')](int) {
              return milliseconds{static_cast<int>(text.size())};
            }});
  group.start();
  const auto kept = group.find("a");
  enqueue(group, "a", 1, "fails");
  ASSERT_TRUE(eventually([&] { return running == 2; }));
  EXPECT_TRUE(group.remove("a"));
  go = true;
  EXPECT_TRUE(has_left(group, "a"));
  EXPECT_EQ(calls.count(), 2U);
  const auto cursors = kept->fanout().cursors("etl");
  ASSERT_EQ(cursors.size(), 1U);
  EXPECT_TRUE(cursors[0].last_completed_at) << "the slice's result was stored";
  EXPECT_EQ(kept->outbox().counts().failed, 0);
}

// --- the end

TEST_P(GroupLifeContract, ADiscoveryIsToldThatTheGroupStops) {
  class Waiting final : public DatabaseDiscovery {
   public:
    std::vector<DatabaseEntry> find(const std::stop_token& stop) override {
      began = true;
      told = eventually([&] { return stop.stop_requested(); });
      throw std::runtime_error("stopped");
    }
    std::atomic<bool> began{false};
    std::atomic<bool> told{false};
  };
  const auto discovery = std::make_shared<Waiting>();
  PlatformGroup group(options());
  group.add("a", backend.url(), backend.schema());
  group.discover(discovery);
  group.start();
  ASSERT_TRUE(eventually([&] { return discovery->began.load(); }));
  EXPECT_TRUE(group.stop());
  EXPECT_TRUE(discovery->told);
}

TEST_P(GroupLifeContract, ManyFailingDatabasesEndTogether) {
  auto given = options();
  given.database.busy_timeout = milliseconds{100};
  PlatformGroup group(given);
  for (int i = 0; i < 30; ++i) {
    group.add("down" + std::to_string(i), backend.is_postgres()
                                              ? "postgresql://127.0.0.1:1/x"
                                              : "sqlite:/nonexistent/directory/x.db");
  }
  group.on("t", calls.handler());
  group.start();
  ASSERT_TRUE(is(group, "down29", GroupDatabaseState::failing));
  EXPECT_TRUE(group.stop(milliseconds{0}));
  EXPECT_THAT(calls.all(), IsEmpty());
}

}  // namespace
}  // namespace dovetail::testing
