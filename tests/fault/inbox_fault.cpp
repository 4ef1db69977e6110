// Faults of the inbox: sixteen threads deliver messages, a third of them duplicates, while
// connections are cut inside COMMIT and processes are killed. Each message has exactly one effect.
//
// DOVETAIL_CHAOS_MESSAGES is the number of messages. The default is small.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "support/backend.hpp"
#include "support/cutting_proxy.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int threads = 16;

int wanted_messages() {
  const char* text = std::getenv("DOVETAIL_CHAOS_MESSAGES");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? std::max(threads, std::atoi(text)) : 240;
}

class InboxFault : public BackendTest {
 protected:
  void prepare() {
    Platform::migrate(backend.url(), options());
    backend.sql("create table " + table() + " (message text)");
  }
  [[nodiscard]] std::string table() const {
    return backend.is_postgres() ? backend.schema() + ".effects" : "effects";
  }
  PlatformOptions options() const {
    PlatformOptions options{.schema = backend.schema(), .log_sink = null_log_sink()};
    options.max_connections = threads + 2;
    options.inbox.queue.max_attempts = 1'000;
    options.inbox.lease = milliseconds{500};
    options.worker.lease = milliseconds{500};
    options.worker.poll_interval = milliseconds{20};
    options.worker.idle_poll_interval = milliseconds{50};
    return options;
  }
  void effect(Transaction& transaction, const std::string& id) const {
    transaction.execute("insert into " + table() + " (message) values ($1)", id);
  }
  /// With a probability of 30 %, a message is followed by a duplicate of an earlier one.
  static std::vector<int> deliveries(int messages, unsigned seed) {
    std::mt19937 dice(seed);
    std::vector<int> order;
    for (int i = 0; i < messages; ++i) {
      order.push_back(i);
      if (dice() % 10 < 3) order.push_back(static_cast<int>(dice() % static_cast<unsigned>(i + 1)));
    }
    return order;
  }
  /// Delivers one message; its number decides how. Returns false when it must be delivered again.
  bool deliver(Platform& platform, int number) const {
    const auto id = std::to_string(number);
    auto& inbox = platform.inbox();
    try {
      if (number % 3 == 0) {
        const auto outcome =
            inbox.process("s", id, [&](Transaction& transaction) { effect(transaction, id); });
        return outcome != ProcessOutcome::in_progress;
      }
      if (number % 3 == 1) {
        inbox.enqueue({.topic = "t", .source = "s", .message_id = id});
        return true;
      }
      const auto begun = inbox.try_begin("s", id);
      if (!begun.started()) return begun.outcome == BeginOutcome::processed;
      auto transaction = platform.begin();
      effect(transaction, id);
      if (!inbox.mark_processed(transaction, begun.ticket)) return false;
      transaction.commit();
      return true;
    } catch (const Error&) {
      return false;  // a failure of the environment: like a broker, deliver it again
    }
  }
  void handle(Platform& platform) const {
    platform.on_inbox("t",
                      [this](const InboxMessage& message, HandlerContext& context) {
                        effect(context.transaction(), message.message_id);
                      },
                      {.backoff = [](int) { return milliseconds{10}; }});
    platform.start();
  }
  /// Delivers all messages from sixteen threads, and repeats each one until it is accepted.
  void deliver_all(Platform& platform, int messages, unsigned seed) const {
    const auto order = deliveries(messages, seed);
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&] {
        for (auto place = next++; place < order.size(); place = next++) {
          while (!deliver(platform, order[place])) std::this_thread::sleep_for(milliseconds{5});
        }
      });
    }
  }
  void expect_one_effect_each(int messages) {
    const auto count = [&](const std::string& what) {
      return backend.number("select count(" + what + ") from " + table());
    };
    EXPECT_TRUE(eventually([&] { return count("distinct message") == messages; }, seconds{60}))
        << count("distinct message") << " of " << messages;
    EXPECT_EQ(count("*"), messages) << "some had more than one effect";
    EXPECT_TRUE(eventually([&] {
      return backend.number("select count(*) from " + backend.table("inbox_seen") +
                            " where status = 'processed'") == messages;
    }));
  }
};
DOVETAIL_CONTRACT(InboxFault);

TEST_P(InboxFault, EachKeyHasOneEffectThoughSixteenThreadsDeliverItTwice) {
  prepare();
  const auto messages = wanted_messages();
  auto platform = Platform::open(backend.url(), options());
  handle(platform);
  deliver_all(platform, messages, 2);
  expect_one_effect_each(messages);
}

TEST_P(InboxFault, EachKeyHasOneEffectThoughProcessesAreKilled) {
  prepare();
  const auto messages = wanted_messages();
  for (unsigned round = 0; round < 6; ++round) {
    ChildProcess victim([&] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto mine = Platform::open(backend.url(), options());
      handle(mine);
      deliver_all(mine, messages, round);
      for (;;) ::pause();
    });
    ::usleep(150'000 + round * 100'000);
    victim.signal(SIGKILL);
    victim.wait();
  }
  EXPECT_GT(backend.number("select count(*) from " + table()), 0)
      << "none of them came to anything";
  auto platform = Platform::open(backend.url(), options());
  handle(platform);
  deliver_all(platform, messages, 99);
  expect_one_effect_each(messages);
}

TEST_P(InboxFault, AMessageThatKillsItsProcessIsDeadAfterItsLastAttempt) {
  prepare();
  auto mortal = options();
  mortal.inbox.queue.max_attempts = 3;
  const auto die = [](auto&&...) { ::kill(::getpid(), SIGKILL); };
  const auto child = [&](const std::function<void(Inbox&)>& body) {
    ChildProcess victim([&] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto mine = Platform::open(backend.url(), mortal);
      body(mine.inbox());
    });
    return victim.wait();
  };
  for (int attempt = 0; attempt < 3; ++attempt) {
    // A call that finds the attempt of a dead process waits until its lease expires.
    EXPECT_EQ(child([&](Inbox& inbox) { (void)inbox.process("s", "in process", die); }), -SIGKILL);
    EXPECT_EQ(child([&](Inbox& inbox) {
                EXPECT_TRUE(eventually([&] { return inbox.try_begin("s", "begun").started(); }));
                die();
              }),
              -SIGKILL);
  }
  auto platform = Platform::open(backend.url(), mortal);
  auto& inbox = platform.inbox();
  EXPECT_EQ(inbox.process("s", "in process", [](Transaction&) { FAIL(); }),
            ProcessOutcome::dead_letter);
  EXPECT_EQ(inbox.try_begin("s", "in process").outcome, BeginOutcome::dead_letter);
  EXPECT_TRUE(eventually(
      [&] { return inbox.try_begin("s", "begun").outcome == BeginOutcome::dead_letter; }));
  EXPECT_EQ(inbox.find("s", "in process")->attempts, 3);
  EXPECT_EQ(inbox.find("s", "begun")->attempts, 3);
}

// --- PostgreSQL only: an embedded engine has no connection to cut

class PostgresInboxFault : public InboxFault {};
INSTANTIATE_TEST_SUITE_P(Engines, PostgresInboxFault, ::testing::Values(BackendKind::postgres),
                         backend_name);

TEST_P(PostgresInboxFault, EachKeyHasOneEffectThoughConnectionsAreCutInsideCommit) {
  prepare();
  const auto messages = wanted_messages();
  CuttingProxy proxy(backend.url());
  auto platform = Platform::open(proxy.url(), options());
  handle(platform);
  {
    const std::jthread cutter([&](const std::stop_token& stop) {
      const std::vector<std::string> moments{"commit",        "inbox_try_begin", "commit",
                                             "inbox_enqueue", "commit",          "inbox_claim",
                                             "inbox_ack"};
      for (std::size_t i = 0; !stop.stop_requested(); ++i) {
        proxy.cut_answer_to(moments[i % moments.size()]);
        std::this_thread::sleep_for(milliseconds{15});
      }
    });
    deliver_all(platform, messages, 1);
  }
  expect_one_effect_each(messages);
  EXPECT_GT(proxy.cuts(), 10);
}

}  // namespace
}  // namespace dovetail::testing
