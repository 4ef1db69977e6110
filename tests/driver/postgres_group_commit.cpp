// Callers that share a transaction on PostgreSQL, and connections that break during it.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "support/cutting_proxy.hpp"
#include "support/eventually.hpp"
#include "support/outbox_test.hpp"
#include "support/start_waiting.hpp"

namespace dovetail::testing {
namespace {

using namespace std::chrono_literals;

/// Inserts of some topics wait until the test opens their gate.
class PostgresGroupCommit : public ::testing::Test {
 protected:
  static constexpr int callers = 40;

  void SetUp() override {
    (void)backend.open();
    const auto function = backend.table("wait_at_gate");
    backend.sql("create function " + function +
                "() returns trigger language plpgsql as $$ begin"
                " perform pg_advisory_xact_lock_shared(hashtext(tg_table_schema), "
                "substr(new.topic, 6)::integer); return new; end $$; create trigger gate before "
                "insert on " +
                backend.table("outbox") +
                " for each row when (new.topic like 'gate %') execute function " + function + "()");
    gates.execute("begin");
    for (const auto* gate : {"1", "2"}) {
      gates.execute(std::string{"select pg_advisory_lock(hashtext('"} + backend.schema() + "'), " +
                    gate + ")");
    }
  }
  void open_gate(int gate) {
    gates.execute("select pg_advisory_unlock(hashtext('" + backend.schema() + "'), " +
                  std::to_string(gate) + ")");
  }

  /// Starts callers that wait for two running transactions. They form a group when gate 1 opens.
  template <class Request>
  std::vector<std::jthread> gather(Platform& platform, const Request& request) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < callers; ++i) {
      threads.push_back(start_waiting([this, &platform, request, i] {
        const bool leads = i < leaders;
        const auto answer = platform.outbox().enqueue(leads ? gated(1, i) : request(i));
        answers.at(static_cast<std::size_t>(i)) = answer;
      }));
      if (i == leaders - 1) await_waiting(leaders);
    }
    return threads;
  }
  /// As many connections as leading callers.
  [[nodiscard]] PlatformOptions options() const {
    auto options = backend.options();
    options.max_connections = leaders;
    return options;
  }
  static EnqueueRequest gated(int gate, int i) {
    return {.topic = "gate " + std::to_string(gate), .payload = std::to_string(i)};
  }
  static EnqueueRequest plain(int i) { return {.topic = "t", .payload = std::to_string(i)}; }

  /// Waits until `count` statements of this test wait at a gate.
  void await_waiting(int count) {
    EXPECT_TRUE(eventually([&] { return backend.number(waiting("count(*)")) == count; }));
  }
  [[nodiscard]] std::string waiting(const std::string& column) const {
    return "select " + column +
           " from pg_locks where locktype = 'advisory' and not granted"
           " and classid::bigint = hashtext('" +
           backend.schema() + "')::bigint & 4294967295";
  }

  void expect_all_stored_once() {
    std::vector<std::string> expected;
    for (int i = 0; i < callers; ++i) expected.push_back(std::to_string(i));
    std::vector<std::string> payloads;
    for (const auto& row : backend.sql("select payload from " + backend.table("outbox_messages"))) {
      payloads.push_back(row.get<std::string>(0));
    }
    EXPECT_THAT(payloads, ::testing::UnorderedElementsAreArray(expected));
    auto direct = backend.open();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_TRUE(answers.at(i).stored()) << i;
      const auto message = direct.outbox().find(answers.at(i));
      ASSERT_TRUE(message) << i;
      EXPECT_EQ(message->message.payload, std::to_string(i));
    }
  }

  static constexpr int leaders = 2;
  Backend backend{BackendKind::postgres};
  UserConnection gates{backend};
  std::array<Enqueued, callers> answers;
};

TEST_F(PostgresGroupCommit, AGroupWhoseCommitIsInDoubtIsStoredOnceAndEachCallerIsAnswered) {
  CuttingProxy proxy(backend.url());
  auto platform = Platform::open(proxy.url(), options());
  auto threads = gather(platform, plain);
  proxy.cut_answer_to("enqueue_many");  // the name of the statement, when it is prepared
  open_gate(1);
  threads.clear();
  EXPECT_EQ(proxy.cuts(), 1);
  EXPECT_EQ(platform.metrics().counter("dovetail_group_commit_failed_total"), 1U);
  expect_all_stored_once();
}

TEST_F(PostgresGroupCommit, AGroupWhoseConnectionIsEndedBeforeItsCommitIsStoredOnce) {
  auto platform = Platform::open(backend.url(), options());
  // The message at gate 2 delays its group.
  auto threads = gather(platform, [](int i) { return i == 20 ? gated(2, i) : plain(i); });
  open_gate(1);
  await_waiting(1);
  backend.sql(waiting("pg_terminate_backend(pid)"));
  await_waiting(1);
  EXPECT_TRUE(eventually([&] {
    return backend.number("select count(*) from " + backend.table("outbox")) == callers - 1;
  })) << "the others do not wait for it any more";
  open_gate(2);
  threads.clear();
  expect_all_stored_once();
}

TEST_F(PostgresGroupCommit, EveryCallerIsToldThatTheServerIsGone) {
  std::optional<CuttingProxy> proxy(std::in_place, backend.url());
  auto given = options();
  given.connect_timeout = 100ms;
  given.retry_for = 100ms;
  auto platform = Platform::open(proxy->url(), given);
  std::atomic<int> failures{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < callers; ++i) {
    threads.push_back(start_waiting([&, i] {
      try {
        platform.outbox().enqueue(gated(1, i));
      } catch (const Error& error) {
        EXPECT_TRUE(error.is_transient() || error.is_in_doubt()) << error.what();
        ++failures;
      }
    }));
  }
  proxy.reset();
  threads.clear();
  EXPECT_EQ(failures, callers);
}

TEST_F(PostgresGroupCommit, CallersThatGatherEndWhenThePlatformIsClosed) {
  auto given = options();
  given.worker.threads = 8;
  given.worker.drain = 100ms;
  std::optional<Platform> platform(Platform::open(backend.url(), given));
  std::atomic<int> begun{0};
  std::atomic<int> cancelled{0};
  auto& outbox = platform->outbox();
  platform->on("t", [&](const Message&, HandlerContext&) {
    ++begun;
    try {
      outbox.enqueue({.topic = "gate 1"});
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) ++cancelled;
      throw;
    }
  });
  outbox.enqueue_many(std::vector<EnqueueRequest>(8, {.topic = "t"}));
  platform->start();
  EXPECT_TRUE(eventually([&] { return begun == 8; }));
  await_waiting(leaders);
  platform.reset();
  EXPECT_EQ(cancelled, 8);
}

TEST_F(PostgresGroupCommit, CallersBehindAPoolerShareTransactionsToo) {
  auto given = options();
  given.pooled = true;
  auto platform = Platform::open(backend.url(), given);
  auto threads = gather(platform, plain);
  open_gate(1);
  threads.clear();
  expect_all_stored_once();
  EXPECT_LT(platform.metrics().counter("dovetail_group_commits_total"), callers / 4);
}

}  // namespace
}  // namespace dovetail::testing
