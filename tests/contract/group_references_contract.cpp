// References to the databases of a group, after the databases have left.
#include "dovetail/error.hpp"
#include "group/retired_platforms.hpp"
#include "support/group_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

class GroupReferencesContract : public GroupTest {
 protected:
  static void expect_retired(Platform& platform) {
    EXPECT_THROW(static_cast<void>(platform.outbox()), InvalidOperation);
    EXPECT_THROW(static_cast<void>(platform.inbox()), InvalidOperation);
    EXPECT_THROW(static_cast<void>(platform.fanout()), InvalidOperation);
    EXPECT_THROW(static_cast<void>(platform.begin()), InvalidOperation);
    EXPECT_THROW(static_cast<void>(platform.name()), InvalidOperation);
  }
};
DOVETAIL_CONTRACT(GroupReferencesContract);

TEST_P(GroupReferencesContract, AReferenceToARemovedDatabaseThrows) {
  PlatformGroup group(options());
  add_three(group);
  auto& before_start = group["a"];
  EXPECT_TRUE(group.remove("a"));
  expect_retired(before_start);
  group.on("t", calls.handler());
  group.start();
  auto& b = group["b"];
  b.outbox().enqueue({.topic = "t"});
  ASSERT_TRUE(calls.reach(1));
  EXPECT_TRUE(group.remove("b"));
  expect_retired(b);
  ASSERT_TRUE(eventually([&] { return group.status().databases.size() == 1; }));
  expect_retired(b);
  expect_retired(before_start);
  EXPECT_EQ(group["c"].name(), "c");
}

TEST_P(GroupReferencesContract, AReferenceToAReplacedDatabaseThrowsAndTheKeyFindsTheNewOne) {
  std::mutex mutex;
  auto list = std::vector{entry("a", backend)};
  PlatformGroup group(function_discovery([&] {
                        const std::lock_guard lock(mutex);
                        return list;
                      }),
                      options(), {.refresh = milliseconds{100}});
  group.on("t", calls.handler());
  group.start();
  auto& old = group["a"];
  auto& old_outbox = old.outbox();
  const auto kept = group.find("a");
  {
    const std::lock_guard lock(mutex);
    list = {entry("a", second)};
  }
  ASSERT_TRUE(eventually([&] { return group.find("a") != kept; }));
  expect_retired(old);
  EXPECT_NE(&group["a"], &old);
  ASSERT_TRUE(eventually([&] { return group.status().databases.size() == 1; }));
  EXPECT_EQ(old_outbox.counts().ready, 0) << "a call under way may end";
  EXPECT_EQ(kept->outbox().counts().ready, 0) << "find() shares the database";
  enqueue(group, "a", 1);
  EXPECT_TRUE(calls.reach(1));
  EXPECT_EQ(second.number("select count(*) from " + second.table("outbox_messages")), 1);
}

/// Memory does not grow with the number of changes: only empty objects stay.
TEST_P(GroupReferencesContract, ARetiredPlatformReleasesItsDatabaseAfterAWhile) {
  auto node = runtime::open_node(backend.url(), backend.options());
  const std::weak_ptr<runtime::Node> watched = node;
  auto platform =
      std::make_shared<Platform>(runtime::PlatformAccess::platform_of(std::move(node), true));
  auto& reference = *platform;
  const MonoTime now{};
  group::RetiredPlatforms retired(minutes{10});
  retired.add(std::move(platform), now);
  EXPECT_TRUE(retired.take_expired(now + minutes{9}).empty());
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(retired.take_expired(now + minutes{10}).size(), 1U);
  EXPECT_TRUE(watched.expired());
  EXPECT_TRUE(retired.take_expired(now + minutes{20}).empty());
  expect_retired(reference);
}

TEST_P(GroupReferencesContract, AUuidFindsItsKeyInUpperCase) {
  PlatformGroup group(options());
  const auto id = Uuid::v7();
  auto key = id.to_string();
  std::ranges::transform(key, key.begin(), [](unsigned char c) { return std::toupper(c); });
  ASSERT_NE(key, id.to_string());
  group.add(key, backend.url(), backend.schema());
  EXPECT_EQ(&group[id], &group[std::string_view{key}]);
  group.add(id.to_string(), second.url(), second.schema());
  EXPECT_EQ(&group[id], &group[std::string_view{id.to_string()}]) << "the usual form is first";
}

TEST_P(GroupReferencesContract, ADatabaseThatIsRemovedAfterTheStopIsGone) {
  PlatformGroup group(options());
  add_three(group);
  group.on("t", calls.handler());
  group.start();
  enqueue(group, "a", 1);
  ASSERT_TRUE(calls.reach(1));
  EXPECT_TRUE(group.stop());
  EXPECT_TRUE(group.remove("a"));
  EXPECT_EQ(group.status().databases.size(), 2U);
  group.add("a", backend.url(), backend.schema());
  EXPECT_EQ(group["a"].outbox().counts().done, 1);
  EXPECT_TRUE(group.remove("a"));
  EXPECT_EQ(group.status().databases.size(), 2U);
}

}  // namespace
}  // namespace dovetail::testing
