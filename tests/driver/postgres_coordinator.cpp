// The work coordinator on PostgreSQL: answers that are lost, instances at the same time, and plain
// SQL.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "support/backend.hpp"
#include "support/cutting_proxy.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PostgresCoordinator : public ::testing::Test {
 protected:
  [[nodiscard]] PlatformOptions options() const {
    auto given = backend.options();
    given.clock = nullptr;
    given.log_sink = null_log_sink();
    return given;
  }
  CommandResult psql(const std::string& batch) {
    return run_command(
        {"psql", "--no-psqlrc", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", backend.url()},
        "select " + backend.schema() + ".process_work_batch($$" + batch + "$$);\n");
  }
  std::string answer(const std::string& batch) {
    const auto result = psql(batch);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }

  Backend backend{BackendKind::postgres, Tables::may_exist};
  Platform platform = Platform::open(backend.url(), options());
};

TEST_F(PostgresCoordinator, AFlushWhoseAnswerIsLostStoresOnce) {
  CuttingProxy proxy(backend.url());
  auto cut_off = Platform::open(proxy.url(), options());
  Coordinator coordinator{cut_off.work(), {.strategy = WorkStrategy::scoped}};
  coordinator.queue_outbox_message({.topic = "t", .payload = "1", .stream = "s"},
                                   {.is_event = true});
  coordinator.queue_inbox_message(
      {.topic = "t", .source = "s", .message_id = "1", .payload = "2", .stream = "s"},
      {.is_event = true});
  proxy.cut_answer_to("process_work_batch");
  const auto result = coordinator.flush();
  EXPECT_EQ(proxy.cuts(), 1);
  EXPECT_TRUE(result.outbox.at(0).stored());
  EXPECT_TRUE(result.inbox.at(0).stored());
  EXPECT_EQ(coordinator.buffered(), 0U);
  EXPECT_EQ(platform.outbox().counts().ready, 1);
  EXPECT_EQ(platform.inbox().counts().queue.ready, 1);
  EXPECT_THAT(platform.events().read("s"), SizeIs(2));
}

TEST_F(PostgresCoordinator, ACompletionWhoseAnswerIsLostIsNotReportedAsLost) {
  CuttingProxy proxy(backend.url());
  auto cut_off = Platform::open(proxy.url(), options());
  Coordinator coordinator{cut_off.work(), {.strategy = WorkStrategy::scoped}};
  platform.outbox().enqueue({.topic = "t", .payload = "1"});
  const auto work = coordinator.flush_and_claim(WorkClaim{}, {}).work;
  ASSERT_THAT(work, SizeIs(1));
  coordinator.queue_completion(work[0], Stage::published);
  proxy.cut_answer_to("\"complete\"");  // the statement is prepared already
  EXPECT_THAT(coordinator.flush().lost, IsEmpty());
  EXPECT_EQ(proxy.cuts(), 1);
  EXPECT_EQ(platform.outbox().counts().done, 1);
}

TEST_F(PostgresCoordinator, AFlushThatFailedInDoubtStoresOnceWhenItIsRepeated) {
  auto given = options();
  given.retry_for = std::chrono::milliseconds{0};
  auto proxy = std::make_unique<CuttingProxy>(backend.url());
  given.connect_timeout = std::chrono::milliseconds{100};
  auto cut_off = Platform::open(proxy->url(), given);
  Coordinator coordinator{cut_off.work(), {.strategy = WorkStrategy::scoped}};
  coordinator.queue_outbox_message({.topic = "t", .payload = "1"});
  proxy->cut_answer_to("process_work_batch");
  try {
    coordinator.flush();  // may succeed with its own repetition
  } catch (const Error& error) {
    EXPECT_TRUE(error.is_in_doubt());
    EXPECT_EQ(coordinator.buffered(), 1U);
  }
  coordinator.flush();
  EXPECT_EQ(coordinator.buffered(), 0U);
  EXPECT_EQ(platform.outbox().counts().ready, 1);
}

TEST_F(PostgresCoordinator, ABatchOfAllPartsIsOneRoundTrip) {
  CuttingProxy proxy(backend.url());
  auto counted = Platform::open(proxy.url(), options());
  const auto batch_with = [](const std::vector<Work>& done) {
    WorkBatch batch{.outbox_messages = {{.message = {.topic = "t", .payload = "1"}},
                                        {.message = {.topic = "t", .payload = "2", .stream = "s"},
                                         .options = {.is_event = true}}},
                    .inbox_messages = {{.message = {.topic = "t",
                                                    .source = "s",
                                                    .message_id = MessageId::generate().to_string(),
                                                    .payload = "3"}}},
                    .claim_outbox = WorkClaim{.batch_size = 10},
                    .claim_inbox = WorkClaim{.batch_size = 10}};
    for (const auto& each : done) {
      batch.completions.push_back({.queue = each.queue, .claim = each.claim});
    }
    if (!done.empty()) {
      batch.completions.pop_back();
      batch.failures.push_back(
          {.queue = done.back().queue, .claim = done.back().claim, .error = "failed"});
    }
    return batch;
  };
  // The first calls connect, and prepare the statement.
  auto work = counted.work().process_work_batch(batch_with({})).work;
  work = counted.work().process_work_batch(batch_with(work)).work;
  ASSERT_THAT(work, SizeIs(3));
  // Other connections of the Platform may be opened at the same time, so several calls are counted.
  int fewest = 1'000;
  for (int i = 0; i < 5; ++i) {
    const auto before = proxy.round_trips();
    const auto result = counted.work().process_work_batch(batch_with(work));
    fewest = std::min(fewest, proxy.round_trips() - before);
    EXPECT_EQ(result.completed, 2U);
    ASSERT_THAT(result.work, SizeIs(3));
    work = result.work;
  }
  EXPECT_EQ(fewest, 1);
}

TEST_F(PostgresCoordinator, ABadPartOfABatchChangesNothing) {
  platform.outbox().enqueue({.topic = "t", .payload = "waits"});
  const std::string good = R"("instance": "0190163d-8694-739b-aea5-966c26f8ad91",
      "outbox": {"store": [{"topic": "t", "payload": "1", "stream": "s", "is_event": true}],
                 "claim": {"batch_size": 10}})";
  for (const std::string bad :
       {R"({"fail": [{"id": "no id", "epoch": 1, "error": "x"}]})",
        R"({"store": [{"topic": "t", "source": "", "message_id": "1", "payload": ""}]})",
        R"({"claim": {"batch_size": "many"}})", R"({"no_such_part": []})"}) {
    const auto result = psql("{" + good + ", \"inbox\": " + bad + "}");
    EXPECT_NE(result.code, 0) << bad << " was accepted: " << result.out;
  }
  const auto counts = platform.outbox().counts();
  EXPECT_EQ(counts.ready, 1);
  EXPECT_EQ(counts.in_progress, 0);
  EXPECT_THAT(platform.events().read("s"), IsEmpty());
  EXPECT_EQ(platform.inbox().counts().queue.ready, 0);
}

TEST_F(PostgresCoordinator, InstancesAtTheSameTimeKeepTheOrderOfEveryStream) {
  constexpr int streams = 30;
  constexpr int per_stream = 20;
  WorkBatch all;
  for (int i = 0; i < per_stream; ++i) {
    for (int stream = 0; stream < streams; ++stream) {
      all.outbox_messages.push_back({.message = {.topic = "t",
                                                 .payload = std::to_string(i),
                                                 .stream = "s" + std::to_string(stream)}});
    }
  }
  platform.work().process_work_batch(all);
  std::mutex mutex;
  std::map<std::string, std::vector<int>> seen;
  std::map<std::string, std::set<InstanceId>> handlers;
  std::vector<std::jthread> threads;
  for (int instance = 0; instance < 4; ++instance) {
    threads.emplace_back([&] {
      const auto id = InstanceId::generate();
      Coordinator coordinator{platform.work(),
                              {.strategy = WorkStrategy::scoped,
                               .work = {.instance = id},
                               .claim_outbox = WorkClaim{.batch_size = 25}}};
      for (int idle = 0; idle < 20;) {
        const auto work = coordinator.flush_and_claim().work;
        idle = work.empty() ? idle + 1 : 0;
        if (work.empty()) std::this_thread::sleep_for(std::chrono::milliseconds{20});
        for (const auto& each : work) {
          const std::scoped_lock lock{mutex};
          seen[*each.message.stream].push_back(std::stoi(each.message.payload));
          handlers[*each.message.stream].insert(id);
          coordinator.queue_completion(each, Stage::published);
        }
      }
    });
  }
  threads.clear();
  EXPECT_THAT(seen, SizeIs(streams));
  std::set<InstanceId> used;
  for (const auto& [stream, places] : seen) {
    EXPECT_THAT(places, SizeIs(per_stream)) << stream;
    EXPECT_TRUE(std::ranges::is_sorted(places)) << stream;
    used.insert(handlers[stream].begin(), handlers[stream].end());
  }
  EXPECT_GE(used.size(), 2U) << "the instances share the work";
  EXPECT_EQ(platform.metrics().counter("dovetail_coordinator_order_violations_total"), 0U);
}

// --- plain SQL

TEST_F(PostgresCoordinator, ABatchInSqlStoresClaimsAndCompletes) {
  const std::string me = "\"instance\": \"0190163d-8694-739b-aea5-966c26f8ad91\"";
  const auto stored =
      answer("{" + me + R"(, "outbox": {"store": [{"topic": "t", "payload": "p", "stream": "s",
        "is_event": true, "id": "0190163d-8694-739b-aea5-000000000001"}]}})");
  EXPECT_THAT(stored, HasSubstr(R"("outcome": "stored")"));
  EXPECT_THAT(platform.events().read("s"), SizeIs(1));
  const auto claimed = answer("{" + me + R"(, "outbox": {"claim": {"batch_size": 10}}})");
  EXPECT_THAT(claimed, HasSubstr(R"("payload": "p")"));
  EXPECT_THAT(claimed, HasSubstr(R"("stages": 3)"));
  EXPECT_THAT(claimed, HasSubstr(R"("partitions": 10000)"));
  const auto epoch = backend.number("select epoch from " + backend.schema() + ".outbox_stream");
  const auto done =
      answer("{" + me + R"(, "outbox": {"complete": [{"stages": 4, "epoch": )" +
             std::to_string(epoch) + R"(, "id": "0190163d-8694-739b-aea5-000000000001"}]}})");
  EXPECT_THAT(done, HasSubstr(R"("completed": 1)"));
  EXPECT_EQ(backend.number("select stages from " + backend.schema() + ".outbox_messages"), 7);
}

TEST_F(PostgresCoordinator, BadBatchesInSqlAreClearErrors) {
  const std::string me = "\"instance\": \"0190163d-8694-739b-aea5-966c26f8ad91\"";
  const auto fails = [&](const std::string& batch, const std::string& text) {
    const auto result = psql(batch);
    EXPECT_NE(result.code, 0) << batch;
    EXPECT_THAT(result.err, HasSubstr(text)) << batch;
  };
  fails("[]", "must be an object");
  fails("{}", "needs an instance");
  fails("{" + me + ", \"outbx\": {}}", "unknown name in the batch: outbx");
  fails("{" + me + ", \"outbox\": {\"stor\": []}}", "unknown name in the batch: outbox.stor");
  fails("{" + me + ", \"partition_count\": 0}", "partition_count must be");
  fails("{" + me + ", \"lease_ms\": 0}", "lease_ms must be at least 1");
  fails("{" + me +
            ", \"outbox\": {\"store\": [{\"topic\": \"t\", \"payload\": \"\","
            " \"is_event\": true}]}}",
        "needs a stream");
  fails("{" + me + ", \"outbox\": {\"store\": [{\"payload\": \"\"}]}}", "topic must not be null");
  fails("{" + me + ", \"outbox\": {\"complete\": [{\"id\": null, \"epoch\": 1}]}}",
        "needs an id and an epoch");
  fails("{" + me + ", \"outbox\": {\"claim\": {\"batch_size\": 0}}}", "batch_size must be");
  fails("{" + me + ", \"outbox\": {\"claim\": {\"max_bytes\": 70000000}}}", "max_bytes must be");
  fails("{" + me + ", \"outbox\": {\"claim\": null}}", "outbox.claim must be an object");
  fails("{" + me + ", \"outbox\": {\"claim\": {\"topic\": []}}}", "outbox.claim.topic");
  fails("{" + me + ", \"outbox\": {\"claim\": {\"topics\": \"t\"}}}", "topics must be an array");
  fails("{" + me + ", \"outbox\": {\"store\": {}}}", "outbox.store must be an array");
  fails("{" + me + ", \"inbox\": {\"renew\": 1}}", "inbox.renew must be an array");
  fails("{" + me + ", \"outbox\": []}", "outbox and inbox must be objects");
  fails("{" + me + ", \"outbox\": {\"store\": [{\"isEvent\": true}]}}", "outbox.store.isEvent");
  fails("{" + me + ", \"inbox\": {\"complete\": [{\"stages\": 32}]}}", "stages must be 0 to 31");
}

TEST_F(PostgresCoordinator, AnEmptyBatchInSqlAndEmptyPartsDoNothing) {
  const std::string me = "\"instance\": \"0190163d-8694-739b-aea5-966c26f8ad91\"";
  EXPECT_THAT(answer("{" + me + "}"), HasSubstr("\"outbox\": {}"));
  answer("{" + me + R"(, "outbox": {"store": [], "complete": [], "fail": [], "release": [],
                       "renew": []}, "inbox": {"store": [], "renew": [], "complete": []}})");
  EXPECT_THAT(platform.instances().list(), IsEmpty());
}

}  // namespace
}  // namespace dovetail::testing
