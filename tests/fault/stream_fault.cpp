// Faults of streams. After each of them, every effect exists once and in order.
#include <signal.h>

#include <list>
#include <random>
#include <thread>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/postgres_session.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::IsEmpty;

constexpr seconds patience{60};

class StreamFault : public BackendTest {
 protected:
  PlatformOptions options() const {
    PlatformOptions options{
        .schema = backend.schema(), .deploy_schema = true, .log_sink = null_log_sink()};
    options.worker = {.threads = 4,
                      .batch_size = 20,
                      .lease = milliseconds{500},
                      .poll_interval = milliseconds{20},
                      .idle_poll_interval = milliseconds{50}};
    return options;
  }
  Platform open() const { return Platform::open(backend.url(), options()); }
  /// The column `place` shows the order in which effects were written.
  void prepare() {
    Platform::migrate(backend.url(), options());
    const std::string place = backend.is_postgres() ? "bigserial" : "integer primary key";
    backend.sql("create table " + effects() + " (place " + place +
                ", stream text not null, number integer not null)");
  }
  [[nodiscard]] std::string effects() const { return backend.table("effects"); }
  void enqueue(int streams, int last) const {
    auto platform = open();
    std::vector<EnqueueRequest> requests;
    for (int i = 1; i <= last; ++i) {
      for (int s = 0; s < streams; ++s) {
        requests.push_back(
            {.topic = "effect", .payload = std::to_string(i), .stream = "s" + std::to_string(s)});
      }
    }
    platform.outbox().enqueue_many(requests);
  }
  HandlerFunction writes_effect() const {
    return [table = effects()](const Message& message, HandlerContext& context) {
      std::this_thread::sleep_for(milliseconds{20});  // there is work left when a worker is killed
      context.transaction().execute("insert into " + table + " (stream, number) values ($1, $2)",
                                    *message.stream, std::stoi(message.payload));
    };
  }
  [[nodiscard]] ChildProcess start_worker() const {
    return ChildProcess([this] {
      auto platform = open();
      platform.on("effect", writes_effect(), {.max_attempts = 1'000});
      platform.start();
      for (;;) ::pause();
    });
  }
  std::int64_t done() const { return backend.number("select count(*) from " + effects()); }
  /// Streams with an effect that is missing, duplicated or out of order.
  std::vector<std::string> wrong_streams(int last) const {
    std::map<std::string, std::vector<std::int64_t>> numbers;
    for (const auto& row :
         backend.sql("select stream, number from " + effects() + " order by place")) {
      numbers[row.get<std::string>(0)].push_back(row.get<std::int64_t>(1));
    }
    std::vector<std::int64_t> expected;
    for (int i = 1; i <= last; ++i) expected.push_back(i);
    std::vector<std::string> wrong;
    for (const auto& [stream, found] : numbers) {
      if (found != expected) wrong.push_back(stream);
    }
    return wrong;
  }
};
DOVETAIL_CONTRACT(StreamFault);

TEST_P(StreamFault, WorkersThatAreKilledAgainAndAgainKeepTheOrder) {
  constexpr int streams = 12;
  constexpr int last = 40;
  prepare();
  enqueue(streams, last);
  std::list<ChildProcess> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(start_worker());
  int kills = 0;
  for (; kills < 200 && done() < std::int64_t{streams} * last; ++kills) {
    std::this_thread::sleep_for(milliseconds{60 + random() % 80});
    workers.front().signal(SIGKILL);
    workers.front().wait();
    workers.pop_front();
    workers.push_back(start_worker());
  }
  EXPECT_GT(kills, 2) << "nobody was killed under load";
  EXPECT_TRUE(eventually([&] { return done() == std::int64_t{streams} * last; }, patience));
  workers.clear();
  EXPECT_THAT(wrong_streams(last), IsEmpty());
}

TEST_P(StreamFault, AWorkerThatIsPausedBeyondItsLeaseChangesNothingWhenItGoesOn) {
  constexpr int last = 60;
  prepare();
  enqueue(4, last);
  std::list<ChildProcess> workers;
  workers.push_back(start_worker());
  EXPECT_TRUE(eventually([&] { return done() > 5; }, patience));
  workers.front().signal(SIGSTOP);
  workers.push_back(start_worker());
  // On SQLite, a worker that is stopped inside its transaction keeps the file locked.
  std::this_thread::sleep_for(milliseconds{1'500});
  workers.front().signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return done() == std::int64_t{4} * last; }, patience));
  workers.clear();
  EXPECT_THAT(wrong_streams(last), IsEmpty());
}

TEST_P(StreamFault, AMessageThatKillsItsProcessBlocksItsStreamAndItsNeighboursGoOn) {
  prepare();
  {
    auto platform = open();
    for (int i = 1; i <= 5; ++i) {
      for (const auto* stream : {"poisoned", "healthy"}) {
        platform.outbox().enqueue(
            {.topic = "effect", .payload = std::to_string(i), .stream = stream});
      }
    }
  }
  const auto start = [&] {
    return ChildProcess([this] {
      auto platform = open();
      platform.on("effect",
                  [write = writes_effect()](const Message& message, HandlerContext& context) {
                    if (message.stream == "poisoned" && message.payload == "3") ::raise(SIGKILL);
                    write(message, context);
                  },
                  {.max_attempts = 3});
      platform.start();
      for (;;) ::pause();
    });
  };
  const auto is_blocked = [&] {
    return backend.number("select count(*) from " + backend.table("outbox_stream") +
                          " where blocked_at is not null") == 1;
  };
  int deaths = 0;
  for (; deaths < 8; ++deaths) {
    auto worker = start();
    EXPECT_TRUE(eventually([&] { return worker.has_ended() || is_blocked(); }, patience));
    if (is_blocked()) break;
  }
  EXPECT_LE(deaths, 4) << "the message killed more workers than it has attempts";
  EXPECT_TRUE(is_blocked());
  auto worker = start();
  EXPECT_TRUE(eventually([&] { return done() == 7; }, patience));
  const auto charged = backend.number("select coalesce(max(retry_count), 0) from " +
                                      backend.table("outbox_messages") + " where payload <> '3'");
  EXPECT_LE(charged, 2) << "a neighbour was charged too often";
}

/// Statements of several transactions in a chosen order.
class PostgresStreamFault : public StreamFault {};
INSTANTIATE_TEST_SUITE_P(Engines, PostgresStreamFault, ::testing::Values(BackendKind::postgres),
                         backend_name);

TEST_P(PostgresStreamFault, AMessageThatIsCommittedLateIsHandledAndNothingHangs) {
  prepare();
  auto platform = open();
  auto late = platform.begin();
  platform.outbox().enqueue(late, {.topic = "effect", .payload = "1", .stream = "s"});
  platform.outbox().enqueue({.topic = "effect", .payload = "2", .stream = "s"});
  platform.on("effect", writes_effect());
  platform.start();
  EXPECT_TRUE(eventually([&] { return done() == 1; }, patience));
  late.commit();
  EXPECT_TRUE(eventually([&] { return done() == 2; }, patience));
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_stream")), 0);
}

TEST_P(PostgresStreamFault, AMessageThatIsCommittedLateWhileItsStreamIsLeasedIsNotForgotten) {
  prepare();
  auto platform = open();
  auto& outbox = platform.outbox();
  auto late = platform.begin();
  outbox.enqueue(late, {.topic = "effect", .payload = "1", .stream = "s"});
  outbox.enqueue({.topic = "effect", .payload = "2", .stream = "s"});
  const auto owner = OwnerToken::generate();
  const auto claimed = outbox.claim_streams({.owner = owner});
  ASSERT_EQ(claimed.size(), 1U);
  late.commit();
  // This claim reads the ticket of the late message while the stream is leased.
  EXPECT_THAT(outbox.claim_streams({.owner = OwnerToken::generate()}), IsEmpty());
  EXPECT_EQ(outbox.ack(owner, std::vector{claimed[0].claim}), 1U);
  EXPECT_EQ(outbox.claim_streams({.owner = owner}).size(), 1U);
}

TEST_P(PostgresStreamFault, AStreamThatIsResumedWithAnOldSnapshotIsNotForgotten) {
  prepare();
  auto platform = open();
  auto& outbox = platform.outbox();
  outbox.enqueue({.topic = "effect", .payload = "1", .stream = "s"});
  const auto owner = OwnerToken::generate();
  const auto claimed = outbox.claim_streams({.owner = owner});
  outbox.fail(owner, std::vector{claimed[0].claim}, "broken");
  backend.sql("begin isolation level repeatable read; select " + backend.schema() +
              ".outbox_stream_resume('s'); commit");
  EXPECT_EQ(outbox.claim_streams({.owner = owner}).size(), 1U);
}

TEST_P(PostgresStreamFault, WritersOfManyStreamsInRandomOrderDoNotDeadlock) {
  prepare();
  auto platform = open();
  platform.on("effect", [](const Message&, HandlerContext&) {});
  platform.start();
  const auto deadlocks = [&] {
    return backend.number(
        "select deadlocks from pg_stat_database where datname = current_database()");
  };
  const auto before = deadlocks();
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      std::mt19937 random(static_cast<unsigned>(w));
      for (int i = 0; i < 20; ++i) {
        auto transaction = platform.begin();
        for (int k = 0; k < 25; ++k) {
          platform.outbox().enqueue(
              transaction, {.topic = "effect", .stream = "s" + std::to_string(random() % 50)});
        }
        transaction.commit();
      }
    });
  }
  for (auto& writer : writers) writer.join();
  const auto finished = [&] {
    return backend.number("select count(*) from " + backend.table("outbox_messages") +
                          " where status = 2") == 4 * 20 * 25;
  };
  EXPECT_TRUE(eventually(finished, patience));
  EXPECT_EQ(deadlocks(), before);
}

}  // namespace
}  // namespace dovetail::testing
