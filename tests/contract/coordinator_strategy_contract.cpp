// The buffers of the work coordinator, and the ordered processor.
#include <atomic>
#include <latch>
#include <map>
#include <mutex>

#include "support/eventually.hpp"
#include "support/work_test.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CoordinatorStrategyContract : public WorkTest {
 protected:
  std::int64_t stored() { return platform.outbox().counts().ready; }
  /// Makes every call fail, until restore().
  void break_table() {
    backend.sql("alter table " + backend.table("instance") + " rename to " +
                (backend.is_postgres() ? "gone" : backend.schema() + "_gone"));
  }
  void restore_table() {
    backend.sql("alter table " + backend.table("gone") + " rename to " +
                (backend.is_postgres() ? "instance" : backend.schema() + "_instance"));
  }
};
DOVETAIL_CONTRACT(CoordinatorStrategyContract);

// --- strategies

TEST_P(CoordinatorStrategyContract, ImmediateSendsEachOperation) {
  std::size_t results = 0;
  Coordinator coordinator{work, {.on_result = [&](const WorkResult&) { ++results; }}};
  coordinator.queue_outbox_message(message("a"));
  EXPECT_EQ(stored(), 1);
  coordinator.queue_outbox_message(message("b"));
  EXPECT_EQ(stored(), 2);
  EXPECT_EQ(coordinator.buffered(), 0U);
  EXPECT_EQ(coordinator.stats().calls, 2U);
  EXPECT_EQ(coordinator.stats().saved, 0U);
  EXPECT_EQ(results, 2U);
}

TEST_P(CoordinatorStrategyContract, ScopedSendsAtTheEndOfTheScope) {
  {
    Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
    coordinator.queue_outbox_message(message("a"));
    coordinator.queue_inbox_message(inbox_request("1"));
    EXPECT_EQ(coordinator.buffered(), 2U);
    EXPECT_EQ(stored(), 0);
  }
  EXPECT_EQ(stored(), 1);
  EXPECT_EQ(platform.inbox().find("s", "1")->status, InboxStatus::queued);
}

TEST_P(CoordinatorStrategyContract, AFlushOfAScopeSendsAllInOneCall) {
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
  for (int i = 0; i < 10; ++i) coordinator.queue_outbox_message(message(std::to_string(i)));
  const auto result = coordinator.flush();
  EXPECT_THAT(result.outbox, SizeIs(10));
  EXPECT_THAT(result.work, IsEmpty());
  EXPECT_EQ(coordinator.stats().calls, 1U);
  EXPECT_EQ(coordinator.stats().saved, 9U);
  EXPECT_EQ(platform.metrics().counter("dovetail_coordinator_calls_saved_total"), 9U);
  coordinator.flush();
  EXPECT_EQ(coordinator.stats().calls, 1U) << "without operations there is no call";
}

TEST_P(CoordinatorStrategyContract, AnExceptionDiscardsWhatWasNotFlushed) {
  try {
    Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
    coordinator.queue_outbox_message(message("kept"));
    coordinator.flush();
    coordinator.queue_outbox_message(message("discarded"));
    throw std::runtime_error("the request failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_THAT(payloads(claim()), ElementsAre("kept"));
  EXPECT_EQ(platform.metrics().counter("dovetail_coordinator_discarded_total"), 1U);
}

TEST_P(CoordinatorStrategyContract, AnExceptionFlushesIfTheOptionSaysSo) {
  try {
    Coordinator coordinator{work,
                            {.strategy = WorkStrategy::scoped, .on_exception = OnException::flush}};
    coordinator.queue_outbox_message(message("kept"));
    throw std::runtime_error("the request failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(stored(), 1);
}

TEST_P(CoordinatorStrategyContract, IntervalSendsAfterItsTime) {
  Coordinator coordinator{work, {.strategy = WorkStrategy::interval}};
  coordinator.queue_outbox_message(message("a"));
  coordinator.queue_outbox_message(message("b"));
  EXPECT_EQ(stored(), 0) << "the clock stands still";
  EXPECT_TRUE(eventually([&] {
    backend.clock().advance(milliseconds{100});
    return coordinator.buffered() == 0;
  }));
  EXPECT_EQ(stored(), 2);
  EXPECT_EQ(coordinator.stats().calls, 1U);
}

TEST_P(CoordinatorStrategyContract, IntervalSendsAtOnceWhenEnoughHasGathered) {
  Coordinator coordinator{
      work, {.strategy = WorkStrategy::interval, .interval = hours{1}, .flush_at = 5}};
  for (int i = 0; i < 4; ++i) coordinator.queue_outbox_message(message("x"));
  EXPECT_EQ(coordinator.buffered(), 4U);
  coordinator.queue_outbox_message(message("x"));
  EXPECT_TRUE(eventually([&] { return coordinator.buffered() == 0; }));
  EXPECT_EQ(stored(), 5);
}

TEST_P(CoordinatorStrategyContract, IntervalSendsTheRestAtItsEnd) {
  {
    Coordinator coordinator{work, {.strategy = WorkStrategy::interval, .interval = hours{1}}};
    coordinator.queue_outbox_message(message("a"));
  }
  EXPECT_EQ(stored(), 1);
}

TEST_P(CoordinatorStrategyContract, IntervalClaimsAndHandsTheWorkOver) {
  store_outbox({message("a"), message("b", "s")});
  std::mutex mutex;
  std::vector<std::string> seen;
  Coordinator* self = nullptr;
  std::latch ready{1};
  Coordinator coordinator{work,
                          {.strategy = WorkStrategy::interval,
                           .interval = milliseconds{10},
                           .claim_outbox = WorkClaim{},
                           .on_result = [&](const WorkResult& result) {
                             ready.wait();
                             for (const auto& each : result.work) {
                               const std::scoped_lock lock{mutex};
                               seen.push_back(each.message.payload);
                               self->queue_completion(each, Stage::published);
                             }
                           }}};
  self = &coordinator;
  ready.count_down();
  EXPECT_TRUE(eventually([&] {
    backend.clock().advance(milliseconds{10});
    return platform.outbox().counts().done == 2;
  }));
  EXPECT_THAT(seen, SizeIs(2));
}

TEST_P(CoordinatorStrategyContract, WorkIsReleasedIfTheCallbackThrows) {
  store_outbox({message("a")});
  std::atomic<int> calls = 0;
  Coordinator coordinator{work,
                          {.strategy = WorkStrategy::interval,
                           .interval = milliseconds{10},
                           .claim_outbox = WorkClaim{},
                           .on_result = [&](const WorkResult& result) {
                             if (result.work.empty()) return;
                             ++calls;
                             throw std::runtime_error("broken");
                           }}};
  EXPECT_TRUE(eventually([&] {
    backend.clock().advance(milliseconds{10});
    return calls >= 3;
  })) << "it is claimed again at once";
}

// --- the buffer

TEST_P(CoordinatorStrategyContract, AFailedFlushKeepsTheOperations) {
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
  coordinator.queue_outbox_message(message("a"));
  break_table();
  EXPECT_THROW(coordinator.flush(), Error);
  EXPECT_EQ(coordinator.buffered(), 1U);
  coordinator.queue_outbox_message(message("b"));
  restore_table();
  EXPECT_THAT(coordinator.flush().outbox, SizeIs(2));
  EXPECT_EQ(coordinator.buffered(), 0U);
  EXPECT_EQ(stored(), 2);
}

TEST_P(CoordinatorStrategyContract, ADestructorThatCannotSendReportsIt) {
  {
    Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
    coordinator.queue_outbox_message(message("lost"));
    break_table();
  }
  restore_table();
  EXPECT_EQ(platform.metrics().counter("dovetail_coordinator_unsent_total"), 1U);
}

TEST_P(CoordinatorStrategyContract, AFullBufferIsSentFirst) {
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped, .max_buffered = 3}};
  for (int i = 0; i < 4; ++i) coordinator.queue_outbox_message(message("x"));
  EXPECT_EQ(coordinator.buffered(), 1U);
  EXPECT_EQ(stored(), 3);
  break_table();
  coordinator.queue_outbox_message(message("x"));
  coordinator.queue_outbox_message(message("x"));
  EXPECT_THROW(coordinator.queue_outbox_message(message("x")), Error);
  EXPECT_EQ(coordinator.buffered(), 3U) << "the operation was not queued";
  restore_table();
  EXPECT_EQ(coordinator.discard().operations(), 3U);
  EXPECT_EQ(coordinator.buffered(), 0U);
}

TEST_P(CoordinatorStrategyContract, ALongBufferTakesSeveralCallsInOrder) {
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
  for (int i = 0; i < 2'500; ++i) coordinator.queue_outbox_message(message(std::to_string(i), "s"));
  const auto result = coordinator.flush_and_claim(WorkClaim{.batch_size = 10}, {});
  EXPECT_THAT(result.outbox, SizeIs(2'500));
  EXPECT_EQ(coordinator.stats().calls, 3U);
  ASSERT_FALSE(result.work.empty());
  for (std::size_t i = 0; i < result.work.size(); ++i)
    EXPECT_EQ(result.work[i].message.payload, std::to_string(i));
}

TEST_P(CoordinatorStrategyContract, BadOperationsAreRejectedBeforeTheyAreQueued) {
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
  EXPECT_THROW(coordinator.queue_outbox_message({.topic = ""}), std::invalid_argument);
  EXPECT_THROW(coordinator.queue_outbox_message(message("x"), {.is_event = true}),
               std::invalid_argument);
  EXPECT_THROW(coordinator.queue_failure({}, ""), std::invalid_argument);
  EXPECT_EQ(coordinator.buffered(), 0U);
  EXPECT_THROW((Coordinator{work, {.interval = milliseconds{0}}}), std::out_of_range);
  EXPECT_THROW((Coordinator{work, {.flush_at = 0}}), std::out_of_range);
  EXPECT_THROW((Coordinator{work, {.max_buffered = 0}}), std::out_of_range);
  EXPECT_THROW((Coordinator{work, {.work = {.partition_count = 0}}}), std::out_of_range);
}

TEST_P(CoordinatorStrategyContract, AnIntervalThatClaimsNeedsACallback) {
  EXPECT_THROW(
      (Coordinator{work, {.strategy = WorkStrategy::interval, .claim_outbox = WorkClaim{}}}),
      std::invalid_argument);
}

TEST_P(CoordinatorStrategyContract, LargePayloadsTakeSeveralCalls) {
  store_outbox({message("input")});
  const auto claimed = claim();
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
  coordinator.queue_completion(claimed.at(0));
  for (int i = 0; i < 70; ++i)
    coordinator.queue_outbox_message(message(std::string(std::size_t{1} << 20, 'x')));
  const auto result = coordinator.flush();
  EXPECT_EQ(coordinator.stats().calls, 2U) << "64 MiB each";
  EXPECT_THAT(result.outbox, SizeIs(70));
  EXPECT_EQ(result.completed, 1U);
  EXPECT_EQ(stored(), 70);
}

TEST_P(CoordinatorStrategyContract, ALimitOfBytesHoldsForStreamsAndOthersTogether) {
  std::vector<EnqueueRequest> requests;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(message(std::string(1'000, 'x'), "s" + std::to_string(i)));
    requests.push_back(message(std::string(1'000, 'x')));
  }
  store_outbox(requests);
  const auto result = work.process_work_batch({.claim_outbox = WorkClaim{.max_bytes = 2'000}});
  EXPECT_THAT(result.work, SizeIs(2));
  EXPECT_THROW(work.process_work_batch(
                   {.claim_outbox = WorkClaim{.max_bytes = (std::size_t{64} << 20) + 1}}),
               std::out_of_range);
}

TEST_P(CoordinatorStrategyContract, AStreamStopsAlsoIfItsFailureCannotBeSent) {
  store_outbox({message("1", "s"), message("2", "s")});
  const auto claimed = claim();
  ASSERT_THAT(claimed, SizeIs(2));
  Coordinator coordinator{work, {.strategy = WorkStrategy::immediate}};
  std::vector<std::string> begun;
  break_table();
  EXPECT_THROW(OrderedStreamProcessor{}.process(
                   claimed,
                   [&](const Work& each, WorkContext&) {
                     begun.push_back(each.message.payload);
                     throw std::runtime_error("broken");
                   },
                   coordinator),
               Error);
  EXPECT_THAT(begun, ElementsAre("1"));
  restore_table();
  const auto result = coordinator.flush();
  EXPECT_EQ(result.failed, 1U);
  EXPECT_EQ(result.completed, 0U);
}

TEST_P(CoordinatorStrategyContract, ManyThreadsShareACoordinator) {
  Coordinator coordinator{
      work, {.strategy = WorkStrategy::interval, .interval = hours{1}, .max_buffered = 50}};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) coordinator.queue_outbox_message(message("x"));
      });
    }
  }
  coordinator.flush();
  EXPECT_EQ(stored(), 400);
  EXPECT_LT(coordinator.stats().calls, 200U);
}

// --- the ordered processor

TEST_P(CoordinatorStrategyContract, StreamsAreProcessedInOrderAndInParallel) {
  std::vector<EnqueueRequest> requests;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(message("a" + std::to_string(i), "a"));
    requests.push_back(message("b" + std::to_string(i), "b"));
  }
  store_outbox(requests);
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
  const auto claimed = claim();
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> seen;
  std::latch both{2};
  const OrderedStreamProcessor processor{{.threads = 2}};
  const auto done = processor.process(
      claimed,
      [&](const Work& each, WorkContext& context) {
        if (each.message.payload.ends_with('0')) both.arrive_and_wait();  // needs two threads
        context.stage_done(Stage::published);
        const std::scoped_lock lock{mutex};
        seen[*each.message.stream].push_back(each.message.payload);
      },
      coordinator);
  EXPECT_EQ(done.completed, 10U);
  EXPECT_THAT(seen["a"], ElementsAre("a0", "a1", "a2", "a3", "a4"));
  EXPECT_THAT(seen["b"], ElementsAre("b0", "b1", "b2", "b3", "b4"));
  EXPECT_EQ(coordinator.flush().completed, 10U);
}

TEST_P(CoordinatorStrategyContract, AStreamStopsAtItsFirstFailureAndKeepsTheStages) {
  store_outbox({message("1", "s"), message("2", "s"), message("3", "s"), message("x", "other"),
                message("y")});
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
  std::atomic<int> calls = 0;
  const auto done = OrderedStreamProcessor{}.process(
      claim(),
      [&](const Work& each, WorkContext& context) {
        ++calls;
        context.stage_done(Stage::receptor_processed);
        if (each.message.payload == "2") throw std::runtime_error("no");
        context.stage_done(Stage::perspective_processed);
      },
      coordinator);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(done.completed, 3U);
  EXPECT_EQ(done.failed, 1U);
  EXPECT_EQ(done.released, 1U);
  const auto result = coordinator.flush();
  EXPECT_EQ(result.completed, 3U);
  EXPECT_EQ(result.failed, 1U);
  EXPECT_EQ(result.released, 1U);
  backend.advance(std::chrono::seconds{3});
  const auto again = claim();
  EXPECT_THAT(payloads(again), ElementsAre("2", "3"));
  EXPECT_EQ(again[0].message.stages, Stage::stored | Stage::receptor_processed);
  EXPECT_EQ(again[1].message.attempts, 0);
}

TEST_P(CoordinatorStrategyContract, APermanentFailureIsADeadLetter) {
  store_outbox({message("dead")});
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
  const auto done = OrderedStreamProcessor{}.process(
      claim(), [](const Work&, WorkContext&) { throw PermanentFailure("never"); }, coordinator);
  EXPECT_EQ(done.failed, 1U);
  coordinator.flush();
  ASSERT_THAT(platform.outbox().dead_letters(), SizeIs(1));
  EXPECT_EQ(platform.outbox().dead_letters()[0].last_error, "never");
}

TEST_P(CoordinatorStrategyContract, AStopReleasesWorkAndChargesNoAttempt) {
  store_outbox({message("1", "s"), message("2", "s")});
  const auto claimed = claim();
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
  std::stop_source stop;
  OrderedStreamProcessor{{.threads = 1}}.process(
      claimed,
      [&](const Work&, WorkContext&) {
        stop.request_stop();
        throw std::runtime_error("interrupted");
      },
      coordinator, stop.get_token());
  const auto result = coordinator.flush();
  EXPECT_EQ(result.released, 2U);
  EXPECT_EQ(claim().at(0).message.attempts, 0);
}

TEST_P(CoordinatorStrategyContract, NoWorkIsNoCall) {
  Coordinator coordinator{work, {.strategy = WorkStrategy::scoped}};
  const auto done = OrderedStreamProcessor{}.process(
      {}, [](const Work&, WorkContext&) { FAIL(); }, coordinator);
  EXPECT_EQ(done.completed, 0U);
}

// --- stages of handlers

TEST_P(CoordinatorStrategyContract, ARetryOfAHandlerBeginsWithWhatHasNotSucceeded) {
  std::atomic<int> charged = 0;
  std::atomic<int> runs = 0;
  platform.on("t",
              [&](const Message&, HandlerContext& context) {
                ++runs;
                if (!context.stages().has(Stage::receptor_processed)) {
                  ++charged;
                  EXPECT_TRUE(context.stage_done(Stage::receptor_processed));
                }
                if (runs == 1) throw std::runtime_error("the second stage fails");
                static_cast<void>(context.transaction().query("select 1"));
                EXPECT_TRUE(context.stage_done(Stage::perspective_processed));
              },
              {.backoff = [](int) { return milliseconds{0}; }});
  const auto id = platform.outbox().enqueue(message("a"));
  platform.start();
  EXPECT_TRUE(eventually([&] {
    backend.clock().advance(milliseconds{100});
    return outbox_message(id).status == MessageStatus::done;
  }));
  EXPECT_EQ(charged, 1);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(outbox_message(id).message.stages,
            Stage::stored | Stage::receptor_processed | Stage::perspective_processed);
}

}  // namespace
}  // namespace dovetail::testing
