// Groups of databases under fire: processes that are killed between the two commits of a forward,
// databases that hang, and many files.
//
// DOVETAIL_FORWARD_KILLS says how many processes are killed, DOVETAIL_GROUP_FILES how many files
// there are; a few by default.
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
             std::span<const MetricLabel> /*labels*/) override {
    if (name == "inbox.enqueued" && --left_ == 0) ::kill(::getpid(), SIGKILL);
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
  /// Forwards from the first database to the second, where each message has an effect.
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

/// A database of either engine that hangs when the test says so.
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
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds{60});  // not for ever
  hanging.go_on();
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
