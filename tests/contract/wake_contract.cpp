// Wake-ups: a commit wakes only the workers of the queues that it has messages for.
#include <atomic>
#include <thread>

#include "storage/database.hpp"
#include "storage/queue_names.hpp"
#include "support/eventually.hpp"
#include "support/outbox_test.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
namespace queue_names = storage::queue_names;

class WakeContract : public OutboxTest {
 protected:
  /// Counts how often the bell of a queue rings.
  struct Listener {
    Listener(storage::Database& database, std::string_view queue)
        : subscription(database.bell(queue), [this] { ++rings; }) {}
    std::atomic<int> rings{0};
    storage::Doorbell::Subscription subscription;
  };
  struct Listeners {
    explicit Listeners(storage::Database& database)
        : outbox(database, queue_names::outbox),
          inbox(database, queue_names::inbox),
          timers(database, queue_names::timers),
          jobs(database, queue_names::jobs) {}
    [[nodiscard]] std::vector<int> rings() const {
      return {outbox.rings, inbox.rings, timers.rings, jobs.rings};
    }
    Listener outbox, inbox, timers, jobs;
  };
};
DOVETAIL_CONTRACT(WakeContract);

TEST_P(WakeContract, ACommitRingsTheBellsOfItsQueuesOnly) {
  const auto database = backend.open_database();
  const Listeners listeners(*database);
  Outbox messages(*database, {}, Logger{null_log_sink()}, {});
  Inbox arrivals(*database, {}, Logger{null_log_sink()}, {});
  Timers timers(*database, {}, Logger{null_log_sink()}, {});
  messages.enqueue({.topic = "t"});
  EXPECT_EQ(listeners.rings(), (std::vector{1, 0, 0, 0}));
  arrivals.enqueue({.topic = "t", .source = "s", .message_id = "1"});
  EXPECT_EQ(listeners.rings(), (std::vector{1, 1, 0, 0}));
  timers.schedule({.topic = "t", .delay = milliseconds{60'000}});
  EXPECT_EQ(listeners.rings(), (std::vector{1, 1, 1, 0}));
  Transaction transaction{database->begin()};
  messages.enqueue(transaction, {.topic = "t"});
  arrivals.enqueue(transaction, {.topic = "t", .source = "s", .message_id = "2"});
  EXPECT_EQ(listeners.rings(), (std::vector{1, 1, 1, 0})) << "not before the commit";
  transaction.commit();
  EXPECT_EQ(listeners.rings(), (std::vector{2, 2, 1, 0}));
}

TEST_P(WakeContract, ARollbackAndADuplicateWakeNobody) {
  const auto database = backend.open_database();
  const Listeners listeners(*database);
  Outbox messages(*database, {}, Logger{null_log_sink()}, {});
  {
    Transaction transaction{database->begin()};
    messages.enqueue(transaction, {.topic = "t"});
  }
  EXPECT_EQ(listeners.outbox.rings, 0);
  const auto id = messages.enqueue({.topic = "t"});
  messages.enqueue({.topic = "t", .message_id = id});
  EXPECT_EQ(listeners.outbox.rings, 1);
}

TEST_P(WakeContract, OtherProcessesHearWhichQueueIsMeant) {
  const auto here = backend.open_database();
  const auto there = backend.open_database();
  const Listeners listeners(*here);
  std::atomic<bool> hears{false};
  const std::jthread listening(
      [&](const std::stop_token& stop) { here->listen(stop, [&](bool yes) { hears = yes; }); });
  ASSERT_TRUE(eventually([&] { return hears && listeners.outbox.rings > 0; }));
  const int before = listeners.outbox.rings;
  Outbox messages(*there, {}, Logger{null_log_sink()}, {});
  messages.enqueue({.topic = "t"});
  EXPECT_TRUE(eventually([&] { return listeners.outbox.rings > before; }));
  const int jobs_before = listeners.jobs.rings;
  Timers timers(*there, {}, Logger{null_log_sink()}, {});
  const int timers_before = listeners.timers.rings;
  timers.schedule({.topic = "t", .delay = milliseconds{60'000}});
  EXPECT_TRUE(eventually([&] { return listeners.timers.rings > timers_before; }));
  EXPECT_EQ(listeners.jobs.rings, jobs_before);
}

TEST_P(WakeContract, AnEnqueueIntoTheOutboxDoesNotWakeTheInbox) {
  auto options = backend.options();
  options.worker.poll_interval = std::chrono::seconds{50};
  options.worker.idle_poll_interval = std::chrono::seconds{50};
  const auto lines = std::make_shared<RecordedLines>();
  options.log_sink = lines;
  std::atomic<int> handled{0};
  auto worker = Platform::open(backend.url(), options);
  worker.on("t", [&](const Message&, HandlerContext&) { ++handled; });
  worker.on_inbox("t", [](const InboxMessage&, HandlerContext&) {});
  worker.start();
  ASSERT_TRUE(eventually([&] { return lines->count("inbox.claimed") > 0; }));
  std::this_thread::sleep_for(milliseconds{300});  // until the claims of the start have ended
  const auto before = lines->count("inbox.claimed");
  for (int i = 1; i <= 20; ++i) {
    worker.outbox().enqueue({.topic = "t"});
    ASSERT_TRUE(eventually([&] { return handled == i; }));
  }
  std::this_thread::sleep_for(milliseconds{100});
  EXPECT_LE(lines->count("inbox.claimed") - before, 1) << "the outbox claimed 20 times";
  const auto outbox_before = lines->count("outbox.claimed");
  worker.inbox().enqueue({.topic = "t", .source = "s", .message_id = "1"});
  EXPECT_TRUE(eventually([&] { return lines->count("inbox.claimed") > before; }));
  std::this_thread::sleep_for(milliseconds{100});
  EXPECT_LE(lines->count("outbox.claimed") - outbox_before, 1);
}

}  // namespace
}  // namespace dovetail::testing
