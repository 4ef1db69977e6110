// Discoveries that hang, throw, or return bad entries.
#include <atomic>
#include <fstream>
#include <future>

#include "dovetail/error.hpp"
#include "support/group_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A list that hangs while the test says so, and does not listen to its stop token.
class Hanging final : public DatabaseDiscovery {
 public:
  explicit Hanging(std::vector<DatabaseEntry> entries) : entries_(std::move(entries)) {}
  ~Hanging() override { hangs = false; }

  std::vector<DatabaseEntry> find(const std::stop_token&) override {
    ++calls;
    eventually([&] { return !hangs; }, seconds{120});
    ++returned;
    return entries_;
  }

  std::atomic<bool> hangs{true};
  std::atomic<int> calls{0};
  std::atomic<int> returned{0};

 private:
  const std::vector<DatabaseEntry> entries_;
};

/// Throws integers, which are no std::exception.
class Strange final : public DatabaseDiscovery {
 public:
  explicit Strange(std::vector<DatabaseEntry> entries) : entries_(std::move(entries)) {}
  std::vector<DatabaseEntry> find(const std::stop_token&) override {
    if (find_throws) throw 1;
    return entries_;
  }
  bool has_changed() override {
    if (has_changed_throws) throw 2;
    return false;
  }
  std::atomic<bool> find_throws{false};
  std::atomic<bool> has_changed_throws{false};

 private:
  const std::vector<DatabaseEntry> entries_;
};

class GroupBadDiscoveryContract : public GroupTest {
 protected:
  std::shared_ptr<Hanging> hanging = std::make_shared<Hanging>(three());
  std::shared_ptr<Strange> strange = std::make_shared<Strange>(three());
};
DOVETAIL_CONTRACT(GroupBadDiscoveryContract);

// --- discoveries that hang

TEST_P(GroupBadDiscoveryContract, AHangingCallCountsAsAFailureAndTheGroupWorks) {
  PlatformGroup group(options());
  group.add("z", second.url(), second.schema());
  group.on("t", calls.handler());
  group.discover(hanging, {.refresh = milliseconds{100}, .timeout = milliseconds{200}});
  group.start();
  EXPECT_TRUE(eventually([&] { return group.status().discovery_failures >= 2; }));
  EXPECT_EQ(hanging->calls, 1) << "one call at a time";
  EXPECT_FALSE(group.status().healthy());
  EXPECT_TRUE(group.status().discovery_failing_since);
  EXPECT_FALSE(group.status().discovery_age) << "there was no good discovery";
  EXPECT_THROW(group.refresh(), Error) << "it does not wait for the call that hangs";
  enqueue(group, "z", 1);
  EXPECT_TRUE(calls.reach(1));
  hanging->hangs = false;
  EXPECT_TRUE(eventually([&] { return group.keys().size() == 4; }));
  EXPECT_TRUE(eventually([&] { return group.status().healthy(); }));
  EXPECT_TRUE(group.status().discovery_age);
}

TEST_P(GroupBadDiscoveryContract, AStopDoesNotWaitForAHangingCall) {
  auto group = std::make_unique<PlatformGroup>(options());
  group->add("z", second.url(), second.schema());
  group->discover(hanging);
  group->start();
  ASSERT_TRUE(eventually([&] { return hanging->calls == 1; }));
  EXPECT_TRUE(group->stop(milliseconds{100}));
  EXPECT_EQ(hanging->returned, 0) << "it was left behind";
  // The destructor waits for it, and would leave it behind, too.
  auto ended = std::async(std::launch::async, [&] { group.reset(); });
  hanging->hangs = false;
  ended.get();
  EXPECT_TRUE(eventually([&] { return hanging->returned == 1; }));
}

TEST_P(GroupBadDiscoveryContract, TheTimeLimitHasARange) {
  PlatformGroup group(options());
  EXPECT_THROW(group.discover(hanging, {.timeout = milliseconds{99}}), std::out_of_range);
  EXPECT_THROW(group.discover(hanging, {.timeout = seconds{3'601}}), std::out_of_range);
}

// --- exceptions of any type

TEST_P(GroupBadDiscoveryContract, AnExceptionOfAnyTypeIsAFailure) {
  PlatformGroup group(options());
  group.on("t", calls.handler());
  group.discover(strange, {.refresh = seconds{1}});  // has_changed() is called more often
  group.start();
  ASSERT_TRUE(eventually([&] { return group.keys().size() == 3; }));
  strange->has_changed_throws = true;
  EXPECT_TRUE(eventually([&] { return log->count("group.discovery_failed") >= 1; }));
  strange->has_changed_throws = false;
  strange->find_throws = true;
  EXPECT_TRUE(eventually([&] { return group.status().discovery_failures >= 2; }));
  EXPECT_THAT(group.status().discovery_error, HasSubstr("no std::exception"));
  EXPECT_THROW(group.refresh(), int);
  EXPECT_EQ(group.keys().size(), 3U);
  strange->find_throws = false;
  EXPECT_TRUE(eventually([&] { return group.status().discovery_failures == 0; }));
}

TEST_P(GroupBadDiscoveryContract, AStrategyMayThrowAnything) {
  class Thrower final : public SelectionStrategy {
   public:
    std::optional<std::size_t> next(std::span<const SelectableStore> stores,
                                    const std::optional<LastSelection>& last) override {
      if (throws-- > 0) throw 3;
      return inner_->next(stores, last);
    }
    void reset() override {
      ++resets;
      throw 4;
    }
    std::atomic<int> throws{3};
    std::atomic<int> resets{0};

   private:
    std::shared_ptr<SelectionStrategy> inner_ = round_robin();
  };
  const auto thrower = std::make_shared<Thrower>();
  PlatformGroup group(options(thrower));
  group.add("a", backend.url(), backend.schema());
  group.on("t", calls.handler());
  group.start();
  enqueue(group, "a", 2);
  EXPECT_TRUE(calls.reach(2));
  const int before = thrower->resets;
  group.add("b", second.url(), second.schema());
  EXPECT_EQ(thrower->resets, before + 1) << "the list has changed";
  EXPECT_TRUE(group.remove("b"));
  EXPECT_EQ(thrower->resets, before + 2);
  EXPECT_GE(log->count("group.strategy_failed"), 5);
}

// --- bad entries

TEST_P(GroupBadDiscoveryContract, ABadEntryDoesNotFailTheConstructor) {
  auto entries = three();
  entries.push_back({"x", "mysql://u:swordfish@h/d", ""});
  PlatformGroup group(function_discovery([&] { return entries; }), options());
  EXPECT_THAT(group.keys(), ElementsAre("a", "b", "c"));
  const auto status = group.status();
  EXPECT_THAT(status.bad_entries, ElementsAre(HasSubstr("\"x\"")));
  EXPECT_THAT(status.problems(), ElementsAre(HasSubstr("\"x\"")));
  EXPECT_FALSE(status.healthy());
  EXPECT_EQ(status.discovery_failures, 0);
  entries.pop_back();
  group.refresh();
  EXPECT_TRUE(group.status().healthy());
}

TEST_P(GroupBadDiscoveryContract, ABadRowOfAQueryDoesNotAffectTheOthers) {
  backend.sql("create table " + backend.table("tenants") + " (id integer, k text, u text)");
  const auto insert = [&](const std::string& values) {
    backend.sql("insert into " + backend.table("tenants") + " values (" + values + ")");
  };
  const auto quoted = [](const std::string& text) { return "'" + text + "'"; };
  insert("1, 'b', " + quoted(second.url()));
  insert("2, null, " + quoted(backend.url()));
  insert("3, 'c', null");
  auto given = options();
  given.database.schema = second.schema();
  PlatformGroup group(query_discovery(backend.url(), "select k, u from " +
                                                         backend.table("tenants") + " order by id"),
                      given);
  EXPECT_THAT(group.keys(), ElementsAre("b"));
  EXPECT_THAT(group.status().bad_entries,
              ElementsAre(HasSubstr("row 2: the column key is NULL"),
                          AllOf(HasSubstr("\"c\""), HasSubstr("row 3: the column url is NULL"))));
}

TEST_P(GroupBadDiscoveryContract, ADatabaseWhoseEntryBecomesBadStays) {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "databases.toml").string();
  const auto write = [&](const std::string& rest) {
    std::ofstream(path) << "[databases]\na = { url = \"" << backend.url() << "\", schema = \""
                        << backend.schema() << "\" }\n"
                        << rest;
  };
  write("b = { url = \"" + second.url() + "\", schema = \"" + second.schema() + "\" }\n");
  PlatformGroup group(file_discovery(path), options());
  const auto b = group.find("b");
  write("b = { url = \"" + second.url() + "\", scheme = \"x\" }\nc = 5\nd = { schema = \"x\" }\n");
  EXPECT_THROW(group.refresh(), std::invalid_argument);
  EXPECT_THAT(group.keys(), ElementsAre("a", "b"));
  EXPECT_EQ(group.find("b"), b);
  EXPECT_THAT(group.status().bad_entries,
              ElementsAre(HasSubstr("b.scheme is unknown"), HasSubstr("c must be a URL"),
                          HasSubstr("d has no url")));
}

// --- the verdict

TEST_P(GroupBadDiscoveryContract, TheStatusNamesEachProblem) {
  PlatformGroup group(options());
  EXPECT_TRUE(group.status().healthy());
  group.add("a", backend.url(), backend.schema());
  group.add("down", backend.is_postgres() ? "postgresql://127.0.0.1:1/x"
                                          : "sqlite:/nonexistent/directory/x.db");
  group.discover([]() -> std::vector<DatabaseEntry> { throw std::runtime_error("no list"); });
  group.on("t", calls.handler());
  group.start();
  EXPECT_TRUE(eventually([&] { return group.status().problems().size() == 2; }));
  EXPECT_THAT(group.status().problems(),
              ElementsAre(AllOf(HasSubstr("the discovery fails since 20"), HasSubstr("no list")),
                          HasSubstr("the database \"down\" fails: ")));
  EXPECT_FALSE(group.status().healthy());
}

TEST_P(GroupBadDiscoveryContract, TheGaugeCountsTheDatabasesOfTheDiscovery) {
  auto entries = three();
  PlatformGroup group(function_discovery([&] { return entries; }), options());
  const auto databases = [&] {
    for (const auto& each : group.metrics().gauges) {
      if (each.name == "dovetail_group_databases") return each.value;
    }
    return -1.0;
  };
  EXPECT_EQ(databases(), 3);
  entries.pop_back();
  entries.push_back({"x", "mysql://x", ""});
  EXPECT_THROW(group.refresh(), std::invalid_argument);
  EXPECT_EQ(databases(), 2) << "a bad entry does not count";
}

}  // namespace
}  // namespace dovetail::testing
