// Faults of groups: processes that are killed between the two commits of a forward, databases that
// hang, and many files.
//
// DOVETAIL_FORWARD_KILLS is the number of killed processes, DOVETAIL_GROUP_FILES the number of
// files. The defaults are small.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "dovetail/error.hpp"
#include "support/cutting_proxy.hpp"
#include "support/group_test.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int from_environment(const char* name, int usual) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? std::max(1, std::atoi(text)) : usual;
}

/// Kills its process right after the inbox has committed a message, before the outbox's ack.
class KillBetweenCommits final : public MetricsSink {
 public:
  explicit KillBetweenCommits(int after) : left_(after) {}
  void count(std::string_view name, std::uint64_t /*by*/,
             std::span<const MetricLabel> labels) override {
    if (name != "dovetail_enqueued_total") return;
    const auto of_inbox = [](const MetricLabel& label) { return label.value == "inbox"; };
    if (std::ranges::any_of(labels, of_inbox) && --left_ == 0) ::kill(::getpid(), SIGKILL);
  }
  void time(std::string_view /*name*/, std::chrono::nanoseconds /*duration*/,
            std::span<const MetricLabel> /*labels*/) override {}

 private:
  std::atomic<int> left_;
};

class GroupFault : public GroupTest {
 protected:
  [[nodiscard]] GroupOptions fast_leases() const {
    auto given = options();
    given.database.worker.lease = milliseconds{500};
    given.database.outbox.max_attempts = 1'000;
    given.database.inbox.queue.max_attempts = 1'000;
    return given;
  }
  [[nodiscard]] std::string effects() const {
    return second.is_postgres() ? second.schema() + ".effects" : "effects";
  }
  /// Forwards messages from the first database to the second, where each message has one effect.
  void run(PlatformGroup& group) const {
    group.add("a", backend.url(), backend.schema());
    group.add("b", second.url(), second.schema());
    group.forward({.topic = "t", .to = "b"}, {.backoff = [](int) { return milliseconds{10}; }});
    group.on_inbox("t", [this](const InboxMessage& message, HandlerContext& context) {
      context.transaction().execute("insert into " + effects() + " (message) values ($1)",
                                    message.payload);
    });
    group.start();
  }
};
DOVETAIL_CONTRACT(GroupFault);

TEST_P(GroupFault, AForwardHasOneEffectThoughProcessesAreKilledBetweenItsCommits) {
  second.sql("create table " + effects() + " (message text)");
  const auto kills = from_environment("DOVETAIL_FORWARD_KILLS", 5);
  const int messages = 10 * kills;
  for (int kill = 0; kill < kills; ++kill) {
    ChildProcess child([&] {
      auto given = fast_leases();
      given.database.log_sink = null_log_sink();
      given.database.metrics = std::make_shared<KillBetweenCommits>(1 + kill % 7);
      PlatformGroup group(given);
      run(group);
      for (int i = 0; i < 10; ++i) {
        group["a"].outbox().enqueue({.topic = "t", .payload = std::to_string(kill * 10 + i)});
      }
      std::this_thread::sleep_for(seconds{60});
    });
    EXPECT_EQ(child.wait(), -SIGKILL);
  }
  const auto sent = backend.number("select count(*) from " + backend.table("outbox_messages"));
  EXPECT_GE(sent, kills);
  PlatformGroup group(fast_leases());
  run(group);
  const auto count = [&](const std::string& what) {
    return second.number("select count(" + what + ") from " + effects());
  };
  EXPECT_TRUE(eventually([&] { return count("distinct message") >= sent; }, seconds{60}))
      << count("distinct message") << " of " << sent;
  EXPECT_TRUE(eventually([&] { return group["a"].outbox().counts().done == sent; }));
  EXPECT_EQ(count("*"), sent) << "some had more than one effect";
  EXPECT_LE(sent, messages);
}

/// A database of either engine. The test decides when it hangs.
class Hanging {
 public:
  explicit Hanging(const Backend& backend) : backend_(backend) {
    if (backend.is_postgres()) proxy_.emplace(backend.url());
  }
  [[nodiscard]] std::string url() const { return proxy_ ? proxy_->url() : backend_.url(); }
  void hang() {
    if (proxy_) return proxy_->freeze();
    lock_.emplace(backend_);
    lock_->execute("begin immediate");
  }
  void go_on() {
    if (proxy_) return proxy_->thaw();
    lock_->execute("rollback");
    lock_.reset();
  }

 private:
  const Backend& backend_;
  std::optional<CuttingProxy> proxy_;
  std::optional<UserConnection> lock_;
};

TEST_P(GroupFault, ADatabaseThatHangsDoesNotStopTheOthers) {
  Hanging hanging(backend);
  auto given = options();
  given.call_timeout = milliseconds{500};
  given.database.busy_timeout = milliseconds{300};
  // The server may run a claim that the proxy held back, and its answer reaches nobody. The message
  // comes again when that lease ends.
  given.database.worker.lease = seconds{3};
  PlatformGroup group(given);
  group.add("hangs", hanging.url(), backend.schema());
  group.add("b", second.url(), second.schema());
  group.add("c", third.url(), third.schema());
  group.on("t", calls.handler());
  group.start();
  enqueue(group, "hangs", 1);
  ASSERT_TRUE(calls.reach(1));
  {
    auto other = Platform::open(backend.url(), {.schema = backend.schema()});
    other.outbox().enqueue({.topic = "t", .payload = "late", .delay = seconds{1}});
  }
  hanging.hang();
  for (int i = 0; i < 50; ++i) {
    enqueue(group, "b", 2);
    enqueue(group, "c", 2);
    std::this_thread::sleep_for(milliseconds{40});
  }
  ASSERT_TRUE(calls.reach(201)) << "the others are handled meanwhile";
  EXPECT_TRUE(eventually([&] { return status_of(group, "hangs").failures > 0; }));
  EXPECT_THAT(status_of(group, "b").last_error, IsEmpty());
  hanging.go_on();
  EXPECT_TRUE(calls.reach(202)) << "it recovers";
}

TEST_P(GroupFault, AStopDoesNotWaitForADatabaseThatHangs) {
  Hanging hanging(backend);
  auto given = options();
  given.database.busy_timeout = milliseconds{300};
  PlatformGroup group(given);
  group.add("hangs", hanging.url(), backend.schema());
  group.add("b", second.url(), second.schema());
  group.on("t", calls.handler());
  group.start();
  enqueue(group, "hangs", 1);
  enqueue(group, "b", 1);
  ASSERT_TRUE(calls.reach(2));
  hanging.hang();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(group.stop(seconds{1}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds{60});  // not forever
  hanging.go_on();
}

TEST_P(GroupFault, ARemovedDatabaseThatHangsLeaves) {
  Hanging hanging(backend);
  auto given = fast_leases();
  given.call_timeout = milliseconds{500};
  given.database.busy_timeout = milliseconds{300};
  PlatformGroup group(given);
  group.add("hangs", hanging.url(), backend.schema());
  group.add("b", second.url(), second.schema());
  std::atomic<bool> go{false};
  group.on("slow", [&](const Message& message, HandlerContext& context) {
    calls.add(message, context);
    eventually([&] { return go.load(); });
  });
  group.start();
  enqueue(group, "hangs", 1, "slow");
  ASSERT_TRUE(calls.reach(1));
  hanging.hang();
  EXPECT_TRUE(group.remove("hangs"));
  go = true;  // the handler's result cannot be stored
  EXPECT_TRUE(eventually([&] { return group.status().databases.size() == 1; }));
  hanging.go_on();
}

/// Many databases on one server that does not answer, and two databases that work. The connection
/// budget is smaller than the number of databases that hang. All time limits of calls are longer
/// than the test.
class GroupOfAFrozenServer : public GroupFault {
 protected:
  static constexpr int frozen_databases = 20;

  [[nodiscard]] GroupOptions patient() const {
    auto given = options();
    given.max_connections = 8;
    given.call_timeout = std::chrono::minutes{10};
    given.database.connect_timeout = std::chrono::minutes{10};
    given.database.worker.drain = milliseconds{100};
    return given;
  }
  [[nodiscard]] static std::string frozen_key(int index) {
    return "frozen" + std::to_string(index);
  }
  void add_all(PlatformGroup& group) const {
    for (int i = 0; i < frozen_databases; ++i) {
      group.add(frozen_key(i), proxy.url(), backend.schema());
    }
    group.add("b", second.url(), second.schema());
    group.add("c", third.url(), third.schema());
  }
  /// Messages of this process, and of another process, which the checks of the group find.
  void expect_healthy(PlatformGroup& group) {
    auto other = Platform::open(second.url(), {.schema = second.schema()});
    const auto before = calls.count();
    for (std::size_t i = 0; i < 20; ++i) {
      enqueue(group, "b", 1);
      enqueue(group, "c", 1);
      other.outbox().enqueue({.topic = "t", .payload = "other"});
      ASSERT_TRUE(calls.reach(before + 3 * (i + 1))) << i;
    }
  }

  CuttingProxy proxy{backend.url()};
};
INSTANTIATE_TEST_SUITE_P(Engines, GroupOfAFrozenServer, ::testing::Values(BackendKind::postgres),
                         backend_name);

TEST_P(GroupOfAFrozenServer, ItsDatabasesDoNotTakeTheConnectionsOfTheOthers) {
  proxy.freeze();
  PlatformGroup group(patient());
  add_all(group);
  group.on("t", calls.handler());
  group.start();
  expect_healthy(group);
  EXPECT_TRUE(eventually([&] { return status_of(group, frozen_key(0)).failures > 0; }));
  expect_healthy(group);
  proxy.thaw();
  EXPECT_TRUE(eventually(
      [&] {
        const auto status = group.status();
        return std::ranges::none_of(status.databases,
                                    [](const auto& each) { return !each.last_error.empty(); });
      },
      seconds{90}))
      << "all recover";
}

TEST_P(GroupOfAFrozenServer, AStopDoesNotWaitForDatabasesThatAreBeingOpened) {
  proxy.freeze();
  PlatformGroup group(patient());
  add_all(group);
  group.on("t", calls.handler());
  group.start();
  ASSERT_TRUE(eventually([&] { return proxy.holds_something_back(); }));
  EXPECT_TRUE(group.stop(seconds{1}));  // connect_timeout is longer than any test
}

TEST_P(GroupOfAFrozenServer, DatabasesThatWorkWhenItFreezesDoNotTakeTheConnectionsOfTheOthers) {
  PlatformGroup group(patient());
  add_all(group);
  group.on("t", calls.handler());
  group.start();
  for (int i = 0; i < frozen_databases; ++i) enqueue(group, frozen_key(i), 1);
  ASSERT_TRUE(calls.reach(frozen_databases));
  proxy.freeze();
  expect_healthy(group);
  expect_healthy(group);
  EXPECT_TRUE(group.stop(seconds{1})) << "no handler is under way";
}

/// Only PostgreSQL shows that a migration waits.
class GroupMigrationFault : public GroupFault {
 protected:
  [[nodiscard]] static std::string lock_of(const Backend& database) {
    return "select pg_advisory_xact_lock(hashtextextended('dovetail migrations of \"" +
           database.schema() + "\"', 0))";
  }
  [[nodiscard]] bool waits_for_lock(int count) const {
    return eventually([&] {
      return backend.number(
                 "select count(*) from pg_locks where locktype = 'advisory' and not granted and "
                 "database = (select oid from pg_database where datname = current_database())") ==
             count;
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, GroupMigrationFault, ::testing::Values(BackendKind::postgres),
                         backend_name);

TEST_P(GroupMigrationFault, AMigrationIsNotCutByATimeLimit) {
  Backend fresh(GetParam());
  const auto clock = std::make_shared<ManualClock>();
  auto given = options();
  given.call_timeout = milliseconds{100};
  given.database.deploy_schema = true;
  given.database.clock = clock;
  UserConnection other(fresh);
  other.execute("begin");
  other.execute(lock_of(fresh));
  PlatformGroup group(given);
  group.add("fresh", fresh.url(), fresh.schema());
  group.on("t", calls.handler());
  group.start();
  ASSERT_TRUE(waits_for_lock(1));
  for (int i = 0; i < 100; ++i) {
    clock->advance(seconds{10});
    std::this_thread::sleep_for(milliseconds{2});
  }
  EXPECT_TRUE(waits_for_lock(1));
  EXPECT_EQ(status_of(group, "fresh").failures, 0);
  other.execute("rollback");
  EXPECT_TRUE(
      eventually([&] { return status_of(group, "fresh").state == GroupDatabaseState::idle; }));
  EXPECT_EQ(log->count("group.database_failed"), 0);
}

TEST_P(GroupMigrationFault, ManyMigrationsAtOnceLeaveConnectionsForTheOthers) {
  auto given = options();
  given.max_connections = 8;
  given.database.deploy_schema = true;
  std::vector<std::unique_ptr<Backend>> fresh;
  PlatformGroup group(given);
  for (int i = 0; i < 6; ++i) {
    fresh.push_back(std::make_unique<Backend>(GetParam()));
    group.add("fresh" + std::to_string(i), fresh.back()->url(), fresh.back()->schema());
  }
  group.add("b", second.url(), second.schema());
  std::vector<std::unique_ptr<UserConnection>> others;
  for (const auto& each : fresh) {
    others.push_back(std::make_unique<UserConnection>(*each));
    others.back()->execute("begin");
    others.back()->execute(lock_of(*each));
  }
  group.on("t", calls.handler());
  group.start();
  ASSERT_TRUE(waits_for_lock(2)) << "a quarter of the connections";
  enqueue(group, "b", 10);
  EXPECT_TRUE(calls.reach(10));
  for (const auto& each : others) each->execute("rollback");
  for (int i = 0; i < 6; ++i) enqueue(group, "fresh" + std::to_string(i), 1);
  EXPECT_TRUE(calls.reach(16)) << "then the others are migrated";
}

TEST(GroupOfManyFiles, ManyFilesAreWorkedOn) {
  const TemporaryDirectory directory;
  GroupOptions given;
  given.database.deploy_schema = true;
  given.database.log_sink = null_log_sink();
  const int files = from_environment("DOVETAIL_GROUP_FILES", 100);
  PlatformGroup group(given);
  for (int i = 0; i < files; ++i) {
    group.add("f" + std::to_string(i),
              "sqlite:" + (directory.path() / (std::to_string(i) + ".db")).string());
  }
  for (const auto& result : group.migrate()) ASSERT_THAT(result.error, IsEmpty());
  std::atomic<int> handled{0};
  group.on("t", [&](const Message&, HandlerContext&) { ++handled; });
  group.start();
  for (int i = 0; i < files; i += 2) {
    group["f" + std::to_string(i)].outbox().enqueue({.topic = "t"});
  }
  EXPECT_TRUE(eventually([&] { return handled == (files + 1) / 2; }, seconds{90}));
  EXPECT_TRUE(eventually(
      [&] {
        const auto status = group.status();
        return std::ranges::all_of(status.databases, [](const auto& each) {
          return each.state == GroupDatabaseState::idle;
        });
      },
      seconds{90}));
  EXPECT_TRUE(group.stop());
}

}  // namespace
}  // namespace dovetail::testing
