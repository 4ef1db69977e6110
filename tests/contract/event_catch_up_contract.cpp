// Subscriptions that are far behind, and how soon they notice what an operator does.
#include <map>
#include <mutex>
#include <set>

#include "support/backend.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::SizeIs;

/// The owner of a part renews its lease after minutes. A test that waits for 30 seconds passes only
/// if the owner notices changes by itself.
constexpr auto long_lease = std::chrono::minutes{10};

class EventCatchUpContract : public BackendTest {
 protected:
  SubscriptionHandler record() {
    return [this](std::span<const Event> batch, SubscriptionContext& context) {
      const std::lock_guard lock(mutex);
      for (const auto& event : batch) {
        if (bad.contains(event.version)) throw std::runtime_error("bad");
      }
      for (const auto& event : batch) {
        auto& last = handled[context.subscription() + "/" + std::to_string(context.part())];
        EXPECT_LT(last, event.position) << "in the order of positions";
        last = event.position;
        versions.push_back(event.version);
      }
    };
  }
  std::vector<std::int64_t> seen() {
    const std::lock_guard lock(mutex);
    return versions;
  }
  void set_bad(std::set<std::int64_t> now) {
    const std::lock_guard lock(mutex);
    bad = std::move(now);
  }
  void append(const std::string& stream, std::size_t count) {
    events.append(stream, ExpectedVersion::any(), std::vector<NewEvent>(count, {.type = "T"}));
  }
  bool caught_up() { return events.wait_for("s", events.stamp(), 30s); }

  // Handlers use these. They are destroyed after the platform.
  std::mutex mutex;
  std::set<std::int64_t> bad;
  std::map<std::string, std::int64_t> handled;  // the last position of each part
  std::vector<std::int64_t> versions;
  Platform platform = backend.open();
  Events& events = platform.events();
  Subscriptions& subscriptions = events.subscriptions();
};
DOVETAIL_CONTRACT(EventCatchUpContract);

TEST_P(EventCatchUpContract, NoEventIsLeftOutWhereAppendsWereRolledBack) {
  for (int round = 0; round < 12; ++round) {
    append("stream-" + std::to_string(round % 5), static_cast<std::size_t>(1 + round * 7));
    {
      auto transaction = platform.begin();
      events.append(transaction, "gone", ExpectedVersion::any(), {{.type = "T"}, {.type = "T"}});
    }
    if (round % 3 == 0) events.stamp();
    if (round == 6) {
      EXPECT_GT(events.truncate("stream-1", 5), 0U);
    }
  }
  events.stamp();
  std::set<std::int64_t> positions;
  for (Feed feed{};;) {
    feed = events.read_all({.after = feed.upto, .size = 10});
    if (feed.events.empty()) break;
    for (const auto& event : feed.events) positions.insert(event.position);
  }
  for (const int parts : {1, 3}) {
    const auto name = "parts-" + std::to_string(parts);
    events.subscribe(name, {.parts = parts, .batch_size = 10}, record());
  }
  platform.start();
  EXPECT_TRUE(events.wait_for("parts-1", events.stamp(), 30s));
  EXPECT_TRUE(events.wait_for("parts-3", events.stamp(), 30s));
  EXPECT_EQ(seen().size(), 2 * positions.size()) << "each event once in each subscription";
}

TEST_P(EventCatchUpContract, APageLargerThanARunOfPositionsIsComplete) {
  append("a", 2'500);
  append("b", 10);
  events.subscribe("s", {.batch_size = 2'000}, record());
  platform.start();
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen(), SizeIs(2'510));
}

TEST_P(EventCatchUpContract, ARebuildIsNoticedWithoutARenewal) {
  append("a", 3);
  events.subscribe("s", {.lease = long_lease}, record());
  platform.start();
  ASSERT_TRUE(caught_up());
  {
    const std::lock_guard lock(mutex);
    handled.clear();
  }
  EXPECT_TRUE(subscriptions.rebuild("s", 1));
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen(), ElementsAre(1, 2, 3, 2, 3));
}

TEST_P(EventCatchUpContract, ASkipIsNoticedWhileTheEventIsRetried) {
  append("a", 3);
  set_bad({2});
  events.subscribe("s", {.backoff = [](int) { return 10min; }, .lease = long_lease}, record());
  platform.start();
  ASSERT_TRUE(eventually([&] {
    return subscriptions.parts("s").size() == 1 && subscriptions.parts("s")[0].attempts > 0;
  }));
  EXPECT_TRUE(subscriptions.skip("s", 2));
  EXPECT_TRUE(caught_up());
  EXPECT_THAT(seen(), ElementsAre(1, 3));
}

TEST_P(EventCatchUpContract, AResumedStreamThatFailsIsParkedAtTheEventThatFailed) {
  append("a", 5);
  set_bad({1});
  events.subscribe(
      "s", {.on_failure = SubscriptionFailure::park_stream, .max_attempts = 1, .lease = long_lease},
      record());
  platform.start();
  ASSERT_TRUE(caught_up());
  EXPECT_TRUE(subscriptions.skip("s", 2));
  set_bad({4});
  EXPECT_EQ(subscriptions.resume_parked("s"), 1U);
  ASSERT_TRUE(eventually([&] {
    const auto parked = subscriptions.parked("s");
    return parked.size() == 2 && parked.back().attempts == 2;
  }));
  const auto parked = subscriptions.parked("s").back();
  EXPECT_EQ(parked.position, 4);
  EXPECT_EQ(parked.version, 4);
  EXPECT_THAT(seen(), ElementsAre(1, 3)) << "the second was skipped";
  EXPECT_TRUE(subscriptions.skip("s", 4)) << "the stream continues behind it";
  EXPECT_TRUE(eventually([&] { return seen().size() == 3; }));
  EXPECT_THAT(seen(), ElementsAre(1, 3, 5));
}

}  // namespace
}  // namespace dovetail::testing
