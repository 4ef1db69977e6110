// Crashes: an acknowledged message survives every crash of the process or of the server.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <random>
#include <set>
#include <thread>

#include "support/backend.hpp"
#include "support/ledger.hpp"
#include "support/paths.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using ::testing::SizeIs;

class CrashFault : public BackendTest {
 protected:
  std::multiset<Uuid> all_with_status(int status) {
    std::multiset<Uuid> ids;
    auto database = backend.open_database();
    database->read([&](storage::ReadSession& session) {
      const auto rows = session.query("select id from " + backend.table("outbox_messages") +
                                          " where status = " + std::to_string(status),
                                      {});
      for (const auto& row : rows) ids.insert(row.get<Uuid>(0));
    });
    return ids;
  }
  void expect_sound_file() {
    if (backend.is_postgres()) return;
    EXPECT_EQ(backend.sql("pragma integrity_check").at(0).get<std::string>(0), "ok");
  }
  PlatformOptions child_options() const {
    PlatformOptions options{.schema = backend.schema(), .log_sink = null_log_sink()};
    options.outbox.max_attempts = 1'000;  // killed workers must not make a message a dead letter
    return options;
  }
  std::mt19937 random{20261115};
};
DOVETAIL_CONTRACT(CrashFault);

TEST_P(CrashFault, AnAcknowledgedEnqueueSurvivesTheDeathOfItsProcess) {
  Platform::migrate(backend.url(), child_options());
  Ledger ledger;
  std::multiset<Uuid> acknowledged;
  for (int round = 0; round < 25; ++round) {
    ChildProcess child([&] {
      auto platform = Platform::open(backend.url(), child_options());
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
          for (;;)
            ledger.note(
                platform.outbox().enqueue({.topic = "t", .payload = std::string(500, 'x')}).uuid());
        });
      }
    });
    // The child is killed while it works, independent of its start time.
    const auto enough = acknowledged.size() + 5;
    for (int waited = 0; acknowledged.size() < enough && waited < 5'000; ++waited) {
      ::usleep(1'000);
      ledger.collect(acknowledged);
    }
    ::usleep(random() % 40'000);
    child.signal(SIGKILL);
    EXPECT_EQ(child.wait(), -SIGKILL);
    ledger.collect(acknowledged);
  }
  EXPECT_GT(acknowledged.size(), 100U);
  const auto stored = all_with_status(0);
  EXPECT_TRUE(std::ranges::includes(stored, acknowledged)) << "an acknowledged message is lost";
  // Each kill may interrupt four calls whose messages are stored and not yet acknowledged.
  EXPECT_LE(stored.size() - acknowledged.size(), 25U * 4U);
  expect_sound_file();
}

TEST_P(CrashFault, KilledWorkersNeverLoseAMessageAndNoClaimIsAckedTwice) {
  constexpr int messages = 600;
  Platform::migrate(backend.url(), child_options());
  std::set<Uuid> enqueued;
  {
    auto platform = Platform::open(backend.url(), child_options());
    for (const auto& id :
         platform.outbox().enqueue_many(std::vector<EnqueueRequest>(messages, {.topic = "t"}))) {
      enqueued.insert(id.uuid());
    }
  }
  Ledger acked_ledger;
  std::multiset<Uuid> acked;
  for (int round = 0; round < 400 && all_with_status(2).size() < messages; ++round) {
    ChildProcess worker([&] {
      auto platform = Platform::open(backend.url(), child_options());
      const auto owner = OwnerToken::generate();
      for (;;) {
        const auto claimed = platform.outbox().claim(
            {.owner = owner, .batch_size = 5, .lease = std::chrono::milliseconds{50}});
        for (const auto& each : claimed) {
          if (platform.outbox().ack(owner, std::array{each.claim}) == 1)
            acked_ledger.note(each.message.id.uuid());
        }
      }
    });
    ::usleep(40'000 + random() % 100'000);
    worker.signal(SIGKILL);
    worker.wait();
    acked_ledger.collect(acked);
  }
  EXPECT_THAT(all_with_status(2), SizeIs(messages)) << "a message is stuck";
  for (const auto& id : acked) {
    EXPECT_EQ(acked.count(id), 1U) << "a second ack took effect";
    EXPECT_TRUE(enqueued.contains(id));
  }
  expect_sound_file();
}

// --- PostgreSQL only

/// Every connection is terminated when it is a tenth of a second old. On a slow machine, that
/// leaves it time for some messages after it is open.
TEST(PostgresFault, EnqueuesGoOnWhileConnectionsAreTerminated) {
  Backend backend(BackendKind::postgres);
  auto options = backend.options();
  options.max_connections = 4;
  auto platform =
      Platform::open(backend.url() + "?application_name=victim_" + backend.schema(), options);
  std::atomic<bool> done{false};
  std::jthread killer([&] {
    while (!done) {
      backend.sql(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = "
          "'victim_" +
          backend.schema() + "' and backend_start < clock_timestamp() - interval '100 ms'");
      ::usleep(10'000);
    }
  });
  std::mutex mutex;
  std::set<MessageId> acknowledged;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        try {
          for (int n = 0; n < 500; ++n) {
            const auto id = platform.outbox().enqueue({.topic = "t"});
            std::lock_guard lock(mutex);
            acknowledged.insert(id);
          }
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
  }
  done = true;
  killer.join();
  EXPECT_THAT(acknowledged, SizeIs(2'000));
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox")), 2'000);
}

TEST(PostgresFault, TheLibraryComesBackAfterTheServerWasRestarted) {
  const TemporaryDirectory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  const std::string script = std::string{testing::source_directory} + "/tools/pg-cluster";
  const auto cluster = (directory.path() / "cluster").string();
  const std::shared_ptr<void> stop(nullptr, [&](void*) { run_command({script, "stop", cluster}); });
  const auto started = run_command({script, "start", cluster});
  ASSERT_EQ(started.code, 0) << started.err;
  const auto url = started.out.substr(0, started.out.find('\n'));
  std::vector<MessageId> acknowledged;
  {
    auto platform = Platform::open(url, {.deploy_schema = true, .log_sink = null_log_sink()});
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 20; ++i)
        acknowledged.push_back(platform.outbox().enqueue({.topic = "t"}));
      const auto restarted = run_command({script, "restart", cluster});
      ASSERT_EQ(restarted.code, 0) << restarted.err;
    }
    std::set<MessageId> found;
    for (const auto& each :
         platform.outbox().claim({.owner = OwnerToken::generate(), .batch_size = 1'000})) {
      found.insert(each.message.message_id);
    }
    for (const auto& id : acknowledged) EXPECT_TRUE(found.contains(id)) << "lost in the crash";
  }
}

}  // namespace
}  // namespace dovetail::testing
