// Faults of workers. After each of them, every message has been handled and acked, its effects
// exist exactly once, and no message is stuck.
#include <signal.h>

#include <list>
#include <random>
#include <thread>

#include "support/backend.hpp"
#include "support/cutting_proxy.hpp"
#include "support/full_disk.hpp"
#include "support/ledger.hpp"
#include "support/paths.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::SizeIs;

bool eventually(const std::function<bool()>& condition, seconds patience = seconds{60}) {
  const auto give_up_at = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up_at) return false;
    std::this_thread::sleep_for(milliseconds{5});
  }
  return true;
}

/// Workers in real time on a separate database.
class WorkerFault : public BackendTest {
 protected:
  PlatformOptions options(milliseconds lease = milliseconds{400}) const {
    PlatformOptions options{
        .schema = backend.schema(), .deploy_schema = true, .log_sink = null_log_sink()};
    options.worker = {.threads = 4,
                      .batch_size = 10,
                      .lease = lease,
                      .poll_interval = milliseconds{20},
                      .idle_poll_interval = milliseconds{50}};
    return options;
  }
  Platform open(milliseconds lease = milliseconds{400}) const {
    return Platform::open(url, options(lease));
  }
  void prepare() {
    Platform::migrate(backend.url(), options());
    backend.sql("create table " + backend.table("effects") + " (message text)");
  }
  /// A handler that writes its effect through ctx.transaction().
  HandlerFunction writes_effect() const {
    return [table = backend.table("effects")](const Message& message, HandlerContext& context) {
      context.transaction().execute("insert into " + table + " (message) values ($1)",
                                    message.payload);
    };
  }
  static std::vector<EnqueueRequest> numbered(int count, const std::string& topic = "effect") {
    std::vector<EnqueueRequest> requests;
    for (int i = 0; i < count; ++i)
      requests.push_back({.topic = topic, .payload = std::to_string(i)});
    return requests;
  }
  std::int64_t with_status(int status) const {
    return backend.number("select count(*) from " + backend.table("outbox_messages") +
                          " where status = " + std::to_string(status));
  }
  /// Expects that `count` messages are done, and that each has had its effect once.
  void expect_exactly_once(int count) const {
    EXPECT_EQ(with_status(2), count) << "lost or stuck";
    EXPECT_EQ(backend.number("select count(*) from " + backend.table("effects")), count)
        << "an effect twice or never";
    EXPECT_EQ(backend.number("select count(distinct message) from " + backend.table("effects")),
              count);
    EXPECT_EQ(with_status(0) + with_status(1), 0);
    if (!backend.is_postgres()) {
      EXPECT_EQ(backend.sql("pragma integrity_check").at(0).get<std::string>(0), "ok");
    }
  }

  std::string url = backend.url();
  std::mt19937 random{20261115};
};
DOVETAIL_CONTRACT(WorkerFault);

TEST_P(WorkerFault, WorkersKilledAgainAndAgainLoseNothingAndDoNothingTwice) {
  constexpr int messages = 800;
  prepare();
  {
    auto platform = open();
    platform.outbox().enqueue_many(numbered(messages));
  }
  const auto start_worker = [&] {
    return ChildProcess([&] {
      auto platform = open();
      platform.on("effect", writes_effect(), {.max_attempts = 1'000});
      platform.start();
      for (;;) ::pause();
    });
  };
  std::list<ChildProcess> workers;
  for (int i = 0; i < 2; ++i) workers.push_back(start_worker());
  int kills = 0;
  for (; kills < 300 && with_status(2) < messages; ++kills) {
    std::this_thread::sleep_for(milliseconds{40 + random() % 60});
    workers.front().signal(SIGKILL);
    EXPECT_EQ(workers.front().wait(), -SIGKILL);
    workers.pop_front();
    workers.push_back(start_worker());
  }
  EXPECT_GT(kills, 3) << "nobody was killed under load";
  EXPECT_TRUE(eventually([&] { return with_status(2) == messages; }))
      << "stuck, though nobody is killed any more";
  workers.clear();
  expect_exactly_once(messages);
}

TEST_P(WorkerFault, AZombieChangesNothingAndIsToldSo) {
  prepare();
  {
    auto platform = open();
    platform.outbox().enqueue({.topic = "effect", .payload = "0"});
  }
  Ledger claimed;
  ChildProcess zombie([&] {
    auto platform = open();
    const auto owner = OwnerToken::generate();
    const auto mine = platform.outbox().claim({.owner = owner, .lease = milliseconds{300}});
    if (mine.size() != 1) ::_exit(2);
    claimed.note(mine[0].message.id.uuid());
    ::raise(SIGSTOP);
    const std::vector<Claim> claims{mine[0].claim};
    auto& outbox = platform.outbox();
    auto transaction = platform.begin();
    const auto took_effect = outbox.ack(transaction, owner, claims);
    transaction.rollback();
    ::_exit(took_effect + outbox.ack(owner, claims) + outbox.abandon(owner, claims) +
                        outbox.fail(owner, claims, "no") + outbox.snooze(owner, claims) +
                        outbox.renew(owner, claims, seconds{60}) ==
                    0
                ? 70
                : 3);
  });
  std::multiset<Uuid> ids;
  ASSERT_TRUE(eventually([&] {
    claimed.collect(ids);
    return ids.size() == 1;
  }));
  auto platform = open();
  platform.on("effect", writes_effect());
  platform.start();
  ASSERT_TRUE(eventually([&] { return with_status(2) == 1; }))
      << "the lease of the stopped process never ended";
  zombie.signal(SIGCONT);
  EXPECT_EQ(zombie.wait(), 70) << "it was not told, or it changed something";
  platform.stop();
  expect_exactly_once(1);
}

TEST_P(WorkerFault, AStoppedDispatcherComesBackAsAZombieAndDoesNothingTwice) {
  constexpr int messages = 60;
  prepare();
  {
    auto platform = open();
    platform.outbox().enqueue_many(numbered(messages));
  }
  ChildProcess sleeper([&] {
    auto platform = open();
    platform.on("effect",
                [&](const Message& message, HandlerContext& context) {
                  std::this_thread::sleep_for(milliseconds{5});
                  writes_effect()(message, context);
                },
                {.max_attempts = 1'000});
    platform.start();
    for (;;) ::pause();
  });
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(milliseconds{100});
    sleeper.signal(SIGSTOP);
    std::this_thread::sleep_for(milliseconds{900});  // more than two leases
    if (i == 0 && backend.is_postgres()) {
      auto other = open();
      other.on("effect", writes_effect(), {.max_attempts = 1'000});
      other.start();
      std::this_thread::sleep_for(milliseconds{200});
      other.stop();
    }
    sleeper.signal(SIGCONT);
  }
  EXPECT_TRUE(eventually([&] { return with_status(2) == messages; }));
  sleeper.signal(SIGKILL);
  sleeper.wait();
  expect_exactly_once(messages);
}

TEST_P(WorkerFault, AHandlerThatCrashesItsProcessEndsAsADeadLetterAndTheOthersAreHandled) {
  prepare();
  {
    auto platform = open();
    platform.outbox().enqueue_many(numbered(2, "crash"));
    platform.outbox().enqueue_many(numbered(40));
  }
  int crashes = 0;
  for (int round = 0; round < 60 && (with_status(2) < 40 || with_status(3) < 2); ++round) {
    ChildProcess worker([&] {
      auto platform = open(milliseconds{150});
      platform.on("crash", [](const Message&, HandlerContext&) { ::raise(SIGKILL); });
      platform.on("effect", writes_effect());
      platform.start();
      std::this_thread::sleep_for(milliseconds{700});
      platform.stop();
    });
    crashes += worker.wait() == -SIGKILL ? 1 : 0;
  }
  EXPECT_EQ(with_status(3), 2)
      << "poison that is tried for ever, or that took its neighbours along";
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_messages") +
                           " where status = 3 and topic = 'crash' and retry_count = 10"),
            2);
  EXPECT_GE(crashes, 10);
  expect_exactly_once(40);
}

TEST_P(WorkerFault, APoisonMessageDoesNotTakeItsBatchAlong) {
  prepare();
  {
    auto platform = open();
    auto requests = numbered(30);
    requests.insert(requests.begin() + 10, {.topic = "crash"});
    platform.outbox().enqueue_many(requests);
    // A worker has claimed all of them together, and died.
    ASSERT_THAT(
        platform.outbox().claim({.owner = OwnerToken::generate(), .lease = milliseconds{1}}),
        SizeIs(31));
  }
  int crashes = 0;
  for (int round = 0; round < 60 && (with_status(2) < 30 || with_status(3) < 1); ++round) {
    // All leases have expired when the next worker starts, so that it could claim them together
    // again.
    std::this_thread::sleep_for(milliseconds{250});
    ChildProcess worker([&] {
      auto settings = options(milliseconds{200});
      settings.worker.threads = 1;
      settings.worker.batch_size = 50;
      auto platform = Platform::open(url, settings);
      platform.on("crash", [](const Message&, HandlerContext&) { ::raise(SIGKILL); });
      platform.on("effect", writes_effect());
      platform.start();
      std::this_thread::sleep_for(milliseconds{600});
      platform.stop();
    });
    crashes += worker.wait() == -SIGKILL ? 1 : 0;
  }
  EXPECT_EQ(with_status(3), 1) << "its neighbours died with it";
  EXPECT_GE(crashes, 5);
  expect_exactly_once(30);
}

TEST_P(WorkerFault, TwoThousandPoisonMessagesDoNotHoldUpTheHealthyOnes) {
  prepare();
  auto platform = open(seconds{30});
  std::vector<EnqueueRequest> requests;
  for (int i = 0; i < 2'000; ++i) {
    requests.push_back({.topic = i % 2 == 0 ? "throws" : "permanent"});
    if (i % 20 == 0) requests.push_back({.topic = "effect", .payload = std::to_string(i)});
  }
  platform.outbox().enqueue_many(requests);
  platform.on("throws", [](const Message&, HandlerContext&) { throw std::runtime_error("poison"); },
              {.max_attempts = 3, .backoff = [](int) { return milliseconds{10}; }});
  platform.on("permanent",
              [](const Message&, HandlerContext&) { throw PermanentFailure("poison"); });
  platform.on("effect", writes_effect());
  platform.start();
  EXPECT_TRUE(eventually([&] { return with_status(3) == 2'000 && with_status(2) == 100; }));
  platform.stop();
  expect_exactly_once(100);
  EXPECT_EQ(platform.outbox().replay(DeadLetterFilter{.topic = "throws"}), 1'000U);
}

// --- PostgreSQL only

class PostgresWorkerFault : public WorkerFault {};
INSTANTIATE_TEST_SUITE_P(Engines, PostgresWorkerFault, ::testing::Values(BackendKind::postgres),
                         backend_name);

TEST_P(PostgresWorkerFault, WorkGoesOnWhileBackendsAreTerminatedTenTimesASecond) {
  constexpr int messages = 400;
  prepare();
  const auto name = "victim_" + backend.schema();
  url = backend.url() + "?application_name=" + name;
  auto platform = open(seconds{2});
  platform.on("effect", writes_effect(),
              {.max_attempts = 1'000, .backoff = [](int) { return milliseconds{20}; }});
  platform.start();
  std::jthread killer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      backend.sql(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '" +
          name + "'");
      std::this_thread::sleep_for(milliseconds{100});
    }
  });
  for (int i = 0; i < messages; ++i) {
    platform.outbox().enqueue({.topic = "effect", .payload = std::to_string(i)});
    std::this_thread::sleep_for(milliseconds{5});
  }
  EXPECT_TRUE(eventually([&] { return with_status(2) == messages; }));
  killer.request_stop();
  killer.join();
  EXPECT_TRUE(platform.stop());
  expect_exactly_once(messages);
}

TEST_P(PostgresWorkerFault, AConnectionCutInsideCommitNeitherLosesNorRepeatsAnything) {
  constexpr int messages = 60;
  prepare();
  CuttingProxy proxy(backend.url());
  url = proxy.url();
  auto platform = open(milliseconds{600});
  platform.on("effect", writes_effect(),
              {.max_attempts = 1'000, .backoff = [](int) { return milliseconds{20}; }});
  platform.on("plain", [](const Message&, HandlerContext&) {}, {.max_attempts = 1'000});
  platform.start();
  for (int i = 0; i < messages; ++i) {
    if (i % 6 == 0) proxy.cut_answer_to("commit");
    if (i % 6 == 2) proxy.cut_answer_to("outbox_claim");
    if (i % 6 == 4) proxy.cut_answer_to("outbox_enqueue");
    platform.outbox().enqueue({.topic = "effect", .payload = std::to_string(i)});
    std::this_thread::sleep_for(milliseconds{20});
  }
  EXPECT_TRUE(eventually([&] { return with_status(2) == messages; }));
  EXPECT_GT(proxy.cuts(), 10);
  EXPECT_TRUE(platform.stop());
  expect_exactly_once(messages);
}

TEST_P(PostgresWorkerFault, TheListenerComesBackAndPollingCoversForIt) {
  prepare();
  const auto name = "ears_" + backend.schema();
  url = backend.url() + "?application_name=" + name;
  auto settings = options(seconds{30});
  settings.worker.poll_interval = milliseconds{100};
  settings.worker.idle_poll_interval = seconds{60};
  auto platform = Platform::open(url, settings);
  platform.on("effect", writes_effect());
  platform.start();
  auto other = Platform::open(backend.url(), options());
  const auto listeners = [&] {
    return backend.number("select count(*) from pg_stat_activity where application_name = '" +
                          name + "' and query like 'listen%'");
  };
  ASSERT_TRUE(eventually([&] { return listeners() == 1; }));
  for (int i = 0; i < 3; ++i) {
    backend.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '" + name +
        "' and query like 'listen%'");
    other.outbox().enqueue({.topic = "effect", .payload = std::to_string(i)});
    EXPECT_TRUE(eventually([&] { return with_status(2) == i + 1; }))
        << "nothing polled while nobody listened";
    EXPECT_TRUE(eventually([&] { return listeners() == 1; })) << "the listener did not come back";
  }
  platform.stop();
  expect_exactly_once(3);
}

TEST(PostgresRestartFault, WorkersComeBackAfterTheServerWasRestarted) {
  const TemporaryDirectory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  const std::string script = std::string{testing::source_directory} + "/tools/pg-cluster";
  const auto cluster = (directory.path() / "cluster").string();
  const std::shared_ptr<void> stop(nullptr, [&](void*) { run_command({script, "stop", cluster}); });
  const auto started = run_command({script, "start", cluster});
  ASSERT_EQ(started.code, 0) << started.err;
  PlatformOptions options{.deploy_schema = true, .log_sink = null_log_sink()};
  options.worker = {.threads = 4, .lease = seconds{1}, .poll_interval = milliseconds{20}};
  auto platform = Platform::open(started.out.substr(0, started.out.find('\n')), options);
  {
    auto transaction = platform.begin();
    transaction.execute("create table effects (message text)");
    transaction.commit();
  }
  platform.on("effect",
              [](const Message& message, HandlerContext& context) {
                context.transaction().execute("insert into effects (message) values ($1)",
                                              message.payload);
              },
              {.max_attempts = 1'000, .backoff = [](int) { return milliseconds{20}; }});
  platform.start();
  int messages = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 50; ++i) {
      platform.outbox().enqueue({.topic = "effect", .payload = std::to_string(messages++)});
    }
    const auto restarted = run_command({script, "restart", cluster});
    ASSERT_EQ(restarted.code, 0) << restarted.err;
  }
  EXPECT_TRUE(eventually([&] { return platform.outbox().counts().done == messages; }));
  EXPECT_TRUE(platform.stop());
  auto transaction = platform.begin();
  EXPECT_EQ(transaction.query("select count(*) from effects").at(0).get<std::int64_t>(0), messages);
  EXPECT_EQ(
      transaction.query("select count(distinct message) from effects").at(0).get<std::int64_t>(0),
      messages);
}

// --- SQLite only

class SqliteWorkerFault : public WorkerFault {};
INSTANTIATE_TEST_SUITE_P(Engines, SqliteWorkerFault, ::testing::Values(BackendKind::sqlite),
                         backend_name);

TEST_P(SqliteWorkerFault, AFullDiskIsAnErrorThatLosesNothing) {
  FullDisk disk;
  prepare();
  int acknowledged = 0;
  {
    auto platform = open();
    platform.on("effect", writes_effect(),
                {.max_attempts = 1'000, .backoff = [](int) { return milliseconds{20}; }});
    platform.start();
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < 20; ++i) {
        platform.outbox().enqueue({.topic = "effect", .payload = std::to_string(acknowledged++)});
      }
      disk.fill(true);
      try {
        platform.outbox().enqueue({.topic = "effect", .payload = "never"});
        ADD_FAILURE() << "stored on a full disk";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::disk_full) << error.what();
      }
      std::this_thread::sleep_for(milliseconds{150});
      disk.fill(false);
    }
    EXPECT_TRUE(eventually([&] { return with_status(2) == acknowledged; }));
    EXPECT_TRUE(platform.stop());
  }
  expect_exactly_once(acknowledged);
}

}  // namespace
}  // namespace dovetail::testing
