// The list of a group's databases while the group runs.
#include <atomic>
#include <fstream>

#include "dovetail/error.hpp"
#include "support/group_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A list that the test changes.
class ChangingList {
 public:
  explicit ChangingList(std::vector<DatabaseEntry> entries) : entries_(std::move(entries)) {}
  void set(std::vector<DatabaseEntry> entries) {
    const std::lock_guard lock(mutex_);
    entries_ = std::move(entries);
  }
  std::vector<DatabaseEntry> operator()() {
    ++calls;
    if (fails) throw std::runtime_error("the list is away");
    const std::lock_guard lock(mutex_);
    return entries_;
  }

  std::atomic<int> calls{0};
  std::atomic<bool> fails{false};

 private:
  std::mutex mutex_;
  std::vector<DatabaseEntry> entries_;
};

class GroupDiscoveryContract : public GroupTest {
 protected:
  void start(PlatformGroup& group) {
    group.on("t", calls.handler());
    group.discover([this] { return list(); }, {.refresh = milliseconds{100}});
    group.start();
  }
  [[nodiscard]] bool has(PlatformGroup& group, const std::vector<std::string>& keys) const {
    return eventually([&] { return group.keys() == keys; });
  }

  ChangingList list{{entry("a", backend), entry("b", second)}};
};
DOVETAIL_CONTRACT(GroupDiscoveryContract);

TEST_P(GroupDiscoveryContract, OBX_075_TheDiscoveryIsAskedAgainAndAgain) {
  PlatformGroup group(options());
  start(group);
  EXPECT_TRUE(eventually([&] { return list.calls >= 4; }));
  EXPECT_TRUE(has(group, {"a", "b"}));
}

TEST(GroupDiscovery, OBX_076_TheDefaultRefreshIsFiveMinutes) {
  EXPECT_EQ(DiscoverOptions{}.refresh, std::chrono::minutes{5});
}

TEST_P(GroupDiscoveryContract, OBX_077_ANewDatabaseIsOpenedAndWorkedOn) {
  PlatformGroup group(options());
  start(group);
  ASSERT_TRUE(has(group, {"a", "b"}));
  list.set(three());
  ASSERT_TRUE(has(group, {"a", "b", "c"}));
  enqueue(group, "c", 2);
  EXPECT_TRUE(calls.reach(2));
  EXPECT_THAT(calls.databases(), ElementsAre("c", "c"));
}

TEST_P(GroupDiscoveryContract, OBX_078_ADatabaseThatIsGoneIsDrainedAndClosed) {
  PlatformGroup group(options());
  start(group);
  ASSERT_TRUE(has(group, {"a", "b"}));
  const auto kept = group.find("a");
  list.set({entry("b", second)});
  ASSERT_TRUE(has(group, {"b"}));
  EXPECT_EQ(group.find("a"), nullptr);
  EXPECT_TRUE(eventually([&] { return group.status().databases.size() == 1; }));
  kept->outbox().enqueue({.topic = "t"});
  enqueue(group, "b", 1);
  EXPECT_TRUE(calls.reach(1));
  EXPECT_THAT(calls.databases(), ElementsAre("b"));
  EXPECT_THROW(group.remove("b"), InvalidOperation) << "the discovery would add it again";
}

TEST_P(GroupDiscoveryContract, OBX_079_AnEntryThatHasNotChangedKeepsItsStore) {
  PlatformGroup group(options());
  start(group);
  ASSERT_TRUE(has(group, {"a", "b"}));
  const auto a = group.find("a");
  const auto b = group.find("b");
  list.set({entry("b", third), entry("a", backend)});  // another database for b, another order
  ASSERT_TRUE(eventually([&] { return group.find("b") != b; }));
  EXPECT_EQ(group.find("a"), a);
  const auto asked = list.calls.load();
  ASSERT_TRUE(eventually([&] { return list.calls > asked + 2; }));
  EXPECT_EQ(group.find("a"), a);
  enqueue(group, "b", 1);
  EXPECT_TRUE(calls.reach(1));
  EXPECT_EQ(third.number("select count(*) from " + third.table("outbox_messages")), 1);
}

TEST_P(GroupDiscoveryContract, ADiscoveryThatFailsChangesNothing) {
  PlatformGroup group(options());
  start(group);
  ASSERT_TRUE(has(group, {"a", "b"}));
  const auto a = group.find("a");
  list.fails = true;
  ASSERT_TRUE(eventually([&] { return group.status().discovery_failures >= 2; }));
  EXPECT_THAT(group.status().discovery_error, HasSubstr("the list is away"));
  EXPECT_GE(log->count("group.discovery_failed"), 2);
  EXPECT_THAT(group.keys(), ElementsAre("a", "b"));
  enqueue(group, "a", 1);
  EXPECT_TRUE(calls.reach(1));
  list.fails = false;
  EXPECT_TRUE(eventually([&] { return group.status().discovery_failures == 0; }));
  EXPECT_THAT(group.status().discovery_error, IsEmpty());
  EXPECT_EQ(group.find("a"), a);
}

TEST_P(GroupDiscoveryContract, ABadEntryDoesNotSpoilTheOthers) {
  PlatformGroup group(options());
  start(group);
  ASSERT_TRUE(has(group, {"a", "b"}));
  const auto a = group.find("a");
  // The same key with two addresses, a URL of no engine, and a good new entry.
  list.set({entry("a", backend),
            entry("a", second),
            entry("b", second),
            {"x", "mysql://x", ""},
            entry("c", third)});
  ASSERT_TRUE(has(group, {"a", "b", "c"}));
  EXPECT_EQ(group.find("a"), a) << "it stays as it was";
  EXPECT_TRUE(eventually([&] { return group.status().bad_entries.size() == 2; }));
  EXPECT_THROW(group.refresh(), std::invalid_argument);
}

TEST_P(GroupDiscoveryContract, AListThatFlapsLosesNoMessages) {
  PlatformGroup group(options());
  start(group);
  ASSERT_TRUE(has(group, {"a", "b"}));
  const auto a = group.find("a");
  for (int i = 0; i < 10; ++i) {
    for (int j = 0; j < 20; ++j) a->outbox().enqueue({.topic = "t"});
    list.set(i % 2 == 0 ? std::vector{entry("b", second)} : three());
    const auto asked = list.calls.load();
    ASSERT_TRUE(eventually([&] { return list.calls > asked + 1; }));
  }
  EXPECT_TRUE(calls.reach(200));
  EXPECT_TRUE(eventually([&] { return a->outbox().counts().done == 200; }));
  EXPECT_EQ(calls.count(), 200U);
}

TEST_P(GroupDiscoveryContract, AChangedUrlUnderLoadLosesNoMessages) {
  auto given = options();
  given.database.worker.lease = milliseconds{2'000};
  PlatformGroup group(given);
  std::mutex mutex;
  std::map<std::string, int> seen;
  group.on("t", [&](const Message& message, HandlerContext&) {
    const std::lock_guard lock(mutex);
    ++seen[message.payload];
  });
  group.discover([this] { return list(); }, {.refresh = milliseconds{100}});
  group.start();
  ASSERT_TRUE(has(group, {"a", "b"}));
  auto first = backend.open();
  auto other = second.open();
  int sent = 0;
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 20; ++j, ++sent) {
      (j % 2 == 0 ? first : other)
          .outbox()
          .enqueue({.topic = "t", .payload = std::to_string(sent)});
    }
    // The two databases exchange their keys.
    list.set(i % 2 == 0 ? std::vector{entry("a", second), entry("b", backend)}
                        : std::vector{entry("a", backend), entry("b", second)});
    const auto asked = list.calls.load();
    ASSERT_TRUE(eventually([&] { return list.calls > asked + 1; }));
  }
  EXPECT_TRUE(eventually(
      [&] { return first.outbox().counts().done + other.outbox().counts().done == sent; }));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(sent));
  for (const auto& [payload, times] : seen) EXPECT_EQ(times, 1) << payload;
}

TEST_P(GroupDiscoveryContract, AGroupOfADiscoveryIsOneCall) {
  PlatformGroup group(function_discovery([this] { return list(); }), options());
  EXPECT_THAT(group.keys(), ElementsAre("a", "b"));
  EXPECT_THROW(group.discover([this] { return list(); }), InvalidOperation);
  list.fails = true;
  EXPECT_THROW(PlatformGroup(function_discovery([this] { return list(); }), options()),
               std::runtime_error);
}

TEST_P(GroupDiscoveryContract, AChangeOfTheFileTakesEffectWithoutARefresh) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "databases.toml";
  const auto write = [&](const std::vector<DatabaseEntry>& entries) {
    std::ofstream file(path);
    file << "[databases]\n";
    for (const auto& each : entries) {
      file << each.key << " = { url = \"" << each.url << "\", schema = \"" << each.schema
           << "\" }\n";
    }
  };
  write({entry("a", backend)});
  PlatformGroup group(file_discovery(path.string()), options());
  group.on("t", calls.handler());
  group.start();
  EXPECT_THAT(group.keys(), ElementsAre("a"));
  write(three());
  EXPECT_TRUE(has(group, {"a", "b", "c"}));
}

}  // namespace
}  // namespace dovetail::testing
