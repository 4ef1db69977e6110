// Handlers, and the service that calls them.
#include <condition_variable>
#include <set>
#include <thread>

#include "support/eventually.hpp"
#include "support/outbox_test.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HandlerContract : public OutboxTest {
 protected:
  HandlerContract() {
    auto options = backend.options();
    options.log_sink = log;
    options.worker = {.threads = 4,
                      .batch_size = 20,
                      .poll_interval = milliseconds{20},
                      .idle_poll_interval = milliseconds{50}};
    worker.emplace(Platform::open(backend.url(), options));
  }
  /// Opens the worker again with other options.
  void reopen(const std::function<void(PlatformOptions&)>& change) {
    auto options = backend.options();
    options.log_sink = log;
    options.worker.poll_interval = milliseconds{20};
    options.worker.idle_poll_interval = milliseconds{50};
    change(options);
    worker.reset();
    worker.emplace(Platform::open(backend.url(), options));
  }
  bool all_done(std::int64_t count) {
    return eventually([&] { return with_status(MessageStatus::done) == count; });
  }

  std::shared_ptr<RecordedLines> log = std::make_shared<RecordedLines>();
  std::mutex mutex;
  std::vector<std::string> seen;
  void note(const std::string& what) {
    std::lock_guard lock(mutex);
    seen.push_back(what);
  }
  std::vector<std::string> noted() {
    std::lock_guard lock(mutex);
    return seen;
  }
  std::optional<Platform> worker;  // last: its handlers use the rest
};
DOVETAIL_CONTRACT(HandlerContract);

// --- routing

TEST_P(HandlerContract, OBX_054_OBX_057_EachMessageGoesToTheHandlerOfItsTopicInFull) {
  const auto due = backend.now() - seconds{5};
  const auto id = outbox.enqueue({.topic = "a",
                                  .payload = "pa",
                                  .due_at = due,
                                  .correlation_id = "c",
                                  .headers = {{"h", "v"}},
                                  .priority = 1});
  outbox.enqueue({.topic = "A", .payload = "other case"});
  outbox.enqueue({.topic = "b", .payload = "pb"});
  Message got;
  worker->on("a", [&](const Message& message, HandlerContext& context) {
    got = message;
    EXPECT_EQ(context.epoch(), 1);
    EXPECT_TRUE(context.stop_token().stop_possible());
    note("a:" + message.payload);
  });
  worker->on("A", [&](const Message& message, HandlerContext&) { note("A:" + message.payload); });
  worker->on("b", [&](const Message& message, HandlerContext&) { note("b:" + message.payload); });
  worker->start();
  ASSERT_TRUE(all_done(3));
  EXPECT_THAT(noted(), ::testing::UnorderedElementsAre("a:pa", "A:other case", "b:pb"));
  EXPECT_EQ(got.message_id, id);
  EXPECT_EQ(got.topic, "a");
  EXPECT_EQ(got.correlation_id, "c");
  EXPECT_EQ(got.headers, (Headers{{"h", "v"}}));
  EXPECT_EQ(got.due_at, due);
  EXPECT_EQ(got.priority, 1);
  EXPECT_EQ(got.attempts, 0);
}

TEST_P(HandlerContract, AHandlerMayBeAClass) {
  class Mailer : public Handler {
   public:
    explicit Mailer(std::atomic<int>& count) : count_(count) {}
    [[nodiscard]] std::string topic() const override { return "mail"; }
    void handle(const Message&, HandlerContext&) override { ++count_; }
    [[nodiscard]] HandlerOptions options() const override { return {.concurrency = 1}; }

   private:
    std::atomic<int>& count_;
  };
  std::atomic<int> count{0};
  worker->on(std::make_shared<Mailer>(count));
  outbox.enqueue_many(std::vector<EnqueueRequest>(5, {.topic = "mail"}));
  worker->start();
  ASSERT_TRUE(all_done(5));
  EXPECT_EQ(count, 5);
}

TEST_P(HandlerContract, OBX_055_AnUnknownTopicIsWarnedAboutAndTriedAgain) {
  reopen([](PlatformOptions& options) { options.worker.unknown_topics = UnknownTopics::abandon; });
  const auto id = outbox.enqueue({.topic = "nobody"});
  worker->on("somebody", [](const Message&, HandlerContext&) {});
  worker->start();
  ASSERT_TRUE(eventually([&] { return found(id).message.attempts == 1; }));
  EXPECT_THAT(log->all(),
              Contains(AllOf(HasSubstr("warn outbox.unknown_topic"), HasSubstr("topic=nobody"),
                             HasSubstr(id.to_string()), HasSubstr("store=" + platform.name()))));
  EXPECT_EQ(found(id).status, MessageStatus::ready);
  EXPECT_THAT(found(id).last_error.value(), HasSubstr("no handler"));
}

TEST_P(HandlerContract, AHandlerForAllOtherTopicsTakesThem) {
  worker->on("a", [&](const Message&, HandlerContext&) { note("own"); });
  worker->on_any([&](const Message& message, HandlerContext&) { note("any " + message.topic); });
  outbox.enqueue({.topic = "a"});
  outbox.enqueue({.topic = "z"});
  worker->start();
  ASSERT_TRUE(all_done(2));
  EXPECT_THAT(noted(), ::testing::UnorderedElementsAre("own", "any z"));
}

TEST_P(HandlerContract, MisuseIsRefused) {
  const auto nothing = [](const Message&, HandlerContext&) {};
  worker->on("a", nothing);
  EXPECT_THROW(worker->on("a", nothing), InvalidOperation);
  EXPECT_THROW(worker->on("", nothing), std::invalid_argument);
  EXPECT_THROW(worker->on("b", HandlerFunction{}), std::invalid_argument);
  EXPECT_THROW(worker->on("b", nothing, {.concurrency = -1}), std::out_of_range);
  EXPECT_THROW(worker->on("b", nothing, {.max_attempts = 0}), std::out_of_range);
  EXPECT_THROW(worker->on(std::shared_ptr<Handler>{}), std::invalid_argument);
  worker->start();
  EXPECT_THROW(worker->start(), InvalidOperation);
  EXPECT_THROW(worker->on("c", nothing), InvalidOperation);
  EXPECT_TRUE(worker->stop());
  EXPECT_TRUE(worker->stop());
  for (const WorkerOptions& bad :
       {WorkerOptions{.threads = -1}, WorkerOptions{.batch_size = 0},
        WorkerOptions{.lease = milliseconds{1}}, WorkerOptions{.fetchers = 0},
        WorkerOptions{.fetchers = 33}, WorkerOptions{.poll_interval = milliseconds{0}},
        WorkerOptions{.poll_interval = seconds{2}, .idle_poll_interval = seconds{1}}}) {
    reopen([&](PlatformOptions& options) { options.worker = bad; });
    EXPECT_THROW(worker->start(), std::out_of_range);
  }
}

// --- failure

TEST_P(HandlerContract, OBX_056_OBX_063_AHandlerThatThrowsIsTriedAgainAfterItsBackoff) {
  std::atomic<int> tries{0};
  std::vector<int> asked;
  worker->on("t",
             [&](const Message& message, HandlerContext&) {
               EXPECT_EQ(message.attempts, tries);
               if (++tries < 3) throw std::runtime_error("not yet");
             },
             {.backoff = [&](int attempts) {
               asked.push_back(attempts);
               return milliseconds{0};
             }});
  const auto id = outbox.enqueue({.topic = "t"});
  worker->start();
  ASSERT_TRUE(all_done(1));
  EXPECT_EQ(tries, 3);
  EXPECT_THAT(asked, ElementsAre(1, 2));
  EXPECT_EQ(found(id).last_error, "not yet");
}

TEST_P(HandlerContract, AHandlersOwnLimitMakesADeadLetter) {
  std::atomic<int> tries{0};
  worker->on("t",
             [&](const Message&, HandlerContext&) {
               ++tries;
               throw 42;  // NOLINT(hicpp-exception-baseclass): also that must be survived
             },
             {.max_attempts = 3, .backoff = [](int) { return milliseconds{0}; }});
  const auto id = outbox.enqueue({.topic = "t"});
  worker->start();
  ASSERT_TRUE(eventually([&] { return found(id).status == MessageStatus::failed; }));
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(found(id).message.attempts, 3);
}

TEST_P(HandlerContract, APermanentFailureIsADeadLetterAtOnce) {
  std::atomic<int> tries{0};
  worker->on("t", [&](const Message&, HandlerContext&) {
    ++tries;
    throw PermanentFailure("no such \xFF customer");
  });
  const auto id = outbox.enqueue({.topic = "t"});
  worker->start();
  ASSERT_TRUE(eventually([&] { return found(id).status == MessageStatus::failed; }));
  EXPECT_EQ(found(id).last_error, "no such ? customer");
  EXPECT_EQ(tries, 1);
}

TEST_P(HandlerContract, OBX_104_OBX_105_OBX_107_CallsAndExceptionsAreLogged) {
  worker->on("t", [&](const Message&, HandlerContext&) { throw std::runtime_error("kaputt"); });
  const auto id = outbox.enqueue({.topic = "t", .payload = "swordfish"});
  worker->start();
  ASSERT_TRUE(eventually([&] { return found(id).message.attempts == 1; }));
  const auto store = "store=" + platform.name();
  EXPECT_THAT(log->all(), Contains(AllOf(HasSubstr("info outbox.handling " + store),
                                         HasSubstr("topic=t"), HasSubstr(id.to_string()))));
  EXPECT_THAT(
      log->all(),
      Contains(AllOf(HasSubstr("warn outbox.retry " + store), HasSubstr("kaputt"),
                     HasSubstr("exception=std::runtime_error"), HasSubstr(id.to_string()))));
  EXPECT_THAT(log->all(), Each(Not(HasSubstr("swordfish"))));
}

TEST_P(HandlerContract, ASnoozeComesBackWithoutCharge) {
  std::atomic<int> calls{0};
  worker->on("t", [&](const Message& message, HandlerContext& context) {
    EXPECT_EQ(message.attempts, 0);
    if (++calls < 15) context.snooze(milliseconds{0});
  });
  outbox.enqueue({.topic = "t"});
  worker->start();
  ASSERT_TRUE(all_done(1));
  EXPECT_EQ(calls, 15);
}

// --- concurrency

TEST_P(HandlerContract, OBX_060_DifferentMessagesAreHandledAtTheSameTime) {
  std::atomic<int> inside{0};
  worker->on("t", [&](const Message&, HandlerContext&) {
    ++inside;
    EXPECT_TRUE(eventually([&] { return inside == 4; })) << "all four threads";
  });
  outbox.enqueue_many(std::vector<EnqueueRequest>(4, {.topic = "t"}));
  worker->start();
  ASSERT_TRUE(all_done(4));
}

TEST_P(HandlerContract, AHandlersConcurrencyIsItsLimitAndNobodyElses) {
  reopen([](PlatformOptions& options) {
    options.worker.threads = 4;
    options.worker.lease = std::chrono::hours{1};
  });
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<int> others{0};
  worker->on("slow",
             [&](const Message&, HandlerContext&) {
               most = std::max(most.load(), ++inside);
               std::this_thread::sleep_for(milliseconds{1});
               --inside;
             },
             {.concurrency = 2});
  worker->on("quick", [&](const Message&, HandlerContext&) { ++others; });
  outbox.enqueue_many(std::vector<EnqueueRequest>(300, {.topic = "slow"}));
  outbox.enqueue_many(std::vector<EnqueueRequest>(50, {.topic = "quick"}));
  worker->start();
  EXPECT_TRUE(eventually([&] {
    backend.advance(milliseconds{100});  // snoozed messages become ready again
    return with_status(MessageStatus::done) == 350;
  }));
  EXPECT_EQ(most, 2);
  EXPECT_EQ(others, 50);
}

TEST_P(HandlerContract, OBX_059_AMessageIsNeverHandledTwiceAtTheSameTime) {
  reopen([](PlatformOptions& options) { options.worker.threads = 4; });
  auto second = Platform::open(backend.url(), [&] {
    auto options = backend.options();
    options.worker.poll_interval = milliseconds{5};
    options.worker.idle_poll_interval = milliseconds{5};
    return options;
  }());
  std::set<std::string> inside;
  const auto handler = [&](const Message& message, HandlerContext&) {
    {
      std::lock_guard lock(mutex);
      EXPECT_TRUE(inside.insert(message.payload).second) << message.payload;
    }
    std::this_thread::sleep_for(milliseconds{2});
    std::lock_guard lock(mutex);
    inside.erase(message.payload);
  };
  worker->on("t", handler);
  second.on("t", handler);
  std::vector<EnqueueRequest> requests;
  for (int i = 0; i < 300; ++i) requests.push_back({.topic = "t", .payload = std::to_string(i)});
  worker->start();
  second.start();
  outbox.enqueue_many(requests);
  ASSERT_TRUE(all_done(300));
}

TEST_P(HandlerContract, OBX_118_ThousandsOfMessagesAreHandledOnceEachWhenNothingGoesWrong) {
  std::vector<std::atomic<int>> counts(3'000);
  std::vector<EnqueueRequest> requests;
  for (std::size_t i = 0; i < counts.size(); ++i)
    requests.push_back({.topic = "t", .payload = std::to_string(i)});
  worker->on(
      "t", [&](const Message& message, HandlerContext&) { ++counts[std::stoul(message.payload)]; });
  outbox.enqueue_many(requests);
  worker->start();
  ASSERT_TRUE(all_done(3'000));
  for (const auto& count : counts) ASSERT_EQ(count, 1);
}

TEST_P(HandlerContract, AHandlerAtItsLimitDoesNotKeepOtherTopicsWaiting) {
  reopen([](PlatformOptions& options) {
    options.worker.threads = 2;
    options.worker.batch_size = 10;
    options.worker.lease = std::chrono::hours{1};
  });
  std::atomic<int> quick{0};
  worker->on("slow",
             [&](const Message&, HandlerContext&) { eventually([&] { return quick == 5; }); },
             {.concurrency = 1});
  worker->on("quick", [&](const Message&, HandlerContext&) { ++quick; });
  outbox.enqueue_many(std::vector<EnqueueRequest>(150, {.topic = "slow"}));
  outbox.enqueue_many(std::vector<EnqueueRequest>(5, {.topic = "quick"}));
  worker->start();
  EXPECT_TRUE(eventually([&] { return quick == 5; }))
      << "stuck behind the topic that is at its limit";
  EXPECT_TRUE(eventually([&] {
    backend.advance(milliseconds{500});
    return with_status(MessageStatus::done) == 155;
  }));
}

TEST_P(HandlerContract, AMessageThatExpiresWhileItWaitsForItsHandlerIsNotDelivered) {
  std::atomic<bool> go_on{false};
  worker->on("t",
             [&](const Message& message, HandlerContext&) {
               note(message.payload);
               eventually([&] { return go_on.load(); });
             },
             {.concurrency = 1});
  outbox.enqueue({.topic = "t", .payload = "first"});
  const auto late =
      outbox.enqueue({.topic = "t", .payload = "late", .expires_at = backend.now() + seconds{4}});
  worker->start();
  ASSERT_TRUE(eventually([&] { return with_status(MessageStatus::in_progress) == 2; }));
  std::this_thread::sleep_for(milliseconds{4'100});
  go_on = true;
  ASSERT_TRUE(eventually([&] { return found(late).status == MessageStatus::failed; }));
  EXPECT_THAT(noted(), ElementsAre("first"));
}

TEST_P(HandlerContract, OBX_114_LargePayloadsTravelWhole) {
  reopen(
      [](PlatformOptions& options) { options.outbox.max_payload_bytes = std::size_t{64} << 20; });
  std::string payload(std::size_t{20} << 20, 'x');
  for (std::size_t i = 0; i < payload.size(); i += 1'000)
    payload[i] = static_cast<char>('a' + i % 26);
  std::atomic<bool> same{false};
  worker->on("t",
             [&](const Message& message, HandlerContext&) { same = message.payload == payload; });
  worker->start();
  worker->outbox().enqueue({.topic = "t", .payload = payload});
  ASSERT_TRUE(all_done(1));
  EXPECT_TRUE(same);
}

// --- the handler's transaction

TEST_P(HandlerContract, WhatAHandlerWritesCommitsWithItsAck) {
  backend.sql("create table " + backend.table("effects") + " (note text)");
  worker->on("order", [&](const Message& message, HandlerContext& context) {
    auto& transaction = context.transaction();
    transaction.execute("insert into " + backend.table("effects") + " (note) values ($1)",
                        message.payload);
    worker->outbox().enqueue(transaction, {.topic = "follow-up", .payload = message.payload});
    EXPECT_THROW(transaction.commit(), InvalidOperation) << "its end is not the handler's";
    EXPECT_EQ(&context.transaction(), &transaction);
  });
  worker->on("follow-up", [&](const Message& message, HandlerContext&) { note(message.payload); });
  outbox.enqueue({.topic = "order", .payload = "7"});
  worker->start();
  ASSERT_TRUE(all_done(2));
  EXPECT_THAT(noted(), ElementsAre("7"));
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("effects")), 1);
}

TEST_P(HandlerContract, WhatAHandlerWroteBeforeItThrewOrSnoozedNeverHappened) {
  backend.sql("create table " + backend.table("effects") + " (note text)");
  std::atomic<int> calls{0};
  worker->on("order",
             [&](const Message& message, HandlerContext& context) {
               context.transaction().execute(
                   "insert into " + backend.table("effects") + " (note) values ($1)",
                   message.payload);
               worker->outbox().enqueue(context.transaction(), {.topic = "follow-up"});
               const int call = ++calls;
               if (call == 1) throw std::runtime_error("after the write");
               if (call == 2) context.snooze(milliseconds{0});
             },
             {.backoff = [](int) { return milliseconds{0}; }});
  worker->on("follow-up", [&](const Message&, HandlerContext&) { note("follow-up"); });
  outbox.enqueue({.topic = "order"});
  worker->start();
  ASSERT_TRUE(all_done(2));
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("effects")), 1);
  EXPECT_THAT(noted(), ElementsAre("follow-up"));
}

TEST_P(HandlerContract, WhatAHandlerWroteWithoutALeaseIsRolledBack) {
  backend.sql("create table " + backend.table("effects") + " (note text)");
  std::atomic<int> calls{0};
  std::atomic<bool> asleep{false};
  worker->on("order", [&](const Message&, HandlerContext& context) {
    if (++calls == 1) {
      backend.advance(seconds{60});  // the lease expires before the transaction begins
      asleep = true;
    }
    context.transaction().execute("insert into " + backend.table("effects") +
                                  " (note) values ('x')");
  });
  const auto id = outbox.enqueue({.topic = "order"});
  worker->start();
  // The message may be claimed again while its first handler still runs. Then it is snoozed for a
  // short time by the clock of the database.
  ASSERT_TRUE(eventually([&] {
    if (asleep) backend.advance(milliseconds{10});
    return with_status(MessageStatus::done) == 1;
  }));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("effects")), 1);
  EXPECT_EQ(found(id).message.attempts, 1);
  EXPECT_THAT(log->all(), Contains(HasSubstr("warn outbox.lease_lost")));
}

TEST_P(HandlerContract, HandlersThatHoldAllConnectionsDoNotKeepLeasesFromBeingRenewed) {
  backend.sql("create table " + backend.table("effects") + " (note text)");
  reopen([](PlatformOptions& options) {
    options.max_connections = 2;
    options.worker.threads = 2;
    options.worker.lease = milliseconds{400};
  });
  worker->on("order",
             [&](const Message& message, HandlerContext& context) {
               context.transaction().execute(
                   "insert into " + backend.table("effects") + " (note) values ($1)",
                   message.payload);
               std::this_thread::sleep_for(milliseconds{1'000});  // longer than two leases
             },
             {.max_attempts = 100, .backoff = [](int) { return milliseconds{0}; }});
  for (int i = 0; i < 2; ++i) outbox.enqueue({.topic = "order", .payload = std::to_string(i)});
  worker->start();
  ASSERT_TRUE(all_done(2));
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("effects")), 2);
  EXPECT_EQ(backend.number("select count(distinct note) from " + backend.table("effects")), 2);
}

// --- leases and stopping

TEST_P(HandlerContract, ALongHandlerKeepsItsLease) {
  reopen([](PlatformOptions& options) { options.worker.lease = milliseconds{3'000}; });
  std::atomic<int> calls{0};
  worker->on("t", [&](const Message&, HandlerContext& context) {
    ++calls;
    // The test moves the time of the database, in steps shorter than the renewal interval.
    for (int i = 0; i < 50; ++i) {
      std::this_thread::sleep_for(milliseconds{100});
      if (!backend.is_postgres()) backend.advance(milliseconds{100});
    }
    EXPECT_FALSE(context.stop_token().stop_requested());
  });
  outbox.enqueue({.topic = "t"});
  worker->start();
  ASSERT_TRUE(all_done(1));
  EXPECT_EQ(calls, 1);
}

TEST_P(HandlerContract, AHandlerIsToldWhenItsLeaseIsLost) {
  reopen([](PlatformOptions& options) { options.worker.lease = milliseconds{300}; });
  std::atomic<bool> told{false};
  std::atomic<int> calls{0};
  worker->on("t", [&](const Message&, HandlerContext& context) {
    if (++calls > 1) return;
    backend.advance(seconds{10});  // as if this process had been suspended
    told = eventually([&] { return context.stop_token().stop_requested(); });
    throw std::runtime_error("stopped");
  });
  outbox.enqueue({.topic = "t"});
  worker->start();
  ASSERT_TRUE(eventually([&] { return told.load(); }));
  backend.advance(seconds{5});  // past the delay of the next attempt
  ASSERT_TRUE(all_done(1));
  EXPECT_THAT(log->all(), Contains(HasSubstr("outbox.lease_lost")));
}

TEST_P(HandlerContract, AHandlerIsToldWhenItsTimeIsUp) {
  std::atomic<bool> told{false};
  worker->on("t",
             [&](const Message&, HandlerContext& context) {
               told = eventually([&] { return context.stop_token().stop_requested(); });
               throw std::runtime_error("out of time");
             },
             {.timeout = milliseconds{50}});
  const auto id = outbox.enqueue({.topic = "t"});
  worker->start();
  ASSERT_TRUE(eventually([&] { return found(id).message.attempts == 1; }));
  EXPECT_TRUE(told);
  EXPECT_EQ(found(id).last_error, "out of time");
  EXPECT_THAT(log->all(), Contains(HasSubstr("error outbox.handler_timeout")));
}

TEST_P(HandlerContract, AStopCallbackThatBlocksHoldsUpNoOtherHandler) {
  std::atomic<bool> blocked{false};
  std::atomic<bool> told{false};
  worker->on("blocks",
             [&](const Message&, HandlerContext& context) {
               const std::stop_callback wait(context.stop_token(), [&] {
                 blocked = true;
                 eventually([&] { return told.load(); });
               });
               eventually([&] { return told.load(); });
             },
             {.timeout = milliseconds{50}});
  worker->on("other",
             [&](const Message&, HandlerContext& context) {
               EXPECT_TRUE(eventually([&] { return blocked.load(); }));
               told =
                   eventually([&] { return context.stop_token().stop_requested(); }, seconds{10});
               EXPECT_TRUE(told);
               told = true;
             },
             {.timeout = milliseconds{200}});
  outbox.enqueue({.topic = "blocks"});
  outbox.enqueue({.topic = "other"});
  worker->start();
  EXPECT_TRUE(all_done(2));
}

TEST_P(HandlerContract, AHandlerThatHangsLosesItsMessageAndTheOthersGoOn) {
  reopen([](PlatformOptions& options) {
    options.worker.threads = 1;
    options.worker.lease = milliseconds{200};
  });
  std::atomic<bool> release{false};
  std::atomic<int> calls{0};
  worker->on("hang",
             [&](const Message&, HandlerContext&) {
               if (++calls == 1) eventually([&] { return release.load(); });
             },
             {.timeout = milliseconds{50}});
  worker->on("t", [&](const Message&, HandlerContext&) { note("t"); });
  outbox.enqueue({.topic = "hang"});
  worker->start();
  ASSERT_TRUE(eventually([&] { return calls == 1; }));
  outbox.enqueue({.topic = "t"});
  ASSERT_TRUE(eventually([&] { return noted().size() == 1; }))
      << "the only thread was not replaced";
  ASSERT_TRUE(eventually([&] {
    backend.advance(milliseconds{20});
    return with_status(MessageStatus::done) == 2;
  })) << "the message of the hanging handler did not come back";
  EXPECT_GE(calls, 2);
  EXPECT_THAT(log->all(), Contains(HasSubstr("error outbox.handler_hangs")));
  release = true;
  worker.reset();  // waits for the handler
}

TEST_P(HandlerContract, StoppingDrainsWhatRunsAndGivesBackTheRest) {
  reopen([](PlatformOptions& options) { options.worker.threads = 2; });
  std::atomic<int> begun{0};
  std::atomic<bool> go_on{false};
  worker->on("t", [&](const Message&, HandlerContext& context) {
    ++begun;
    eventually([&] { return go_on || context.stop_token().stop_requested(); });
  });
  outbox.enqueue_many(std::vector<EnqueueRequest>(10, {.topic = "t"}));
  worker->start();
  ASSERT_TRUE(
      eventually([&] { return begun == 2 && with_status(MessageStatus::in_progress) == 10; }));
  EXPECT_TRUE(worker->stop(seconds{30}));
  EXPECT_EQ(with_status(MessageStatus::done), 2);
  EXPECT_EQ(with_status(MessageStatus::ready), 8) << "released, not left to expire";
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_messages") +
                           " where retry_count > 0"),
            0);
  EXPECT_EQ(begun, 2);
}

TEST_P(HandlerContract, AHandlerThatThrowsBecauseWeStopCostsNoAttempt) {
  std::atomic<bool> begun{false};
  worker->on("t", [&](const Message&, HandlerContext& context) {
    begun = true;
    eventually([&] { return context.stop_token().stop_requested(); });
    throw std::runtime_error("stopped");
  });
  const auto id = outbox.enqueue({.topic = "t"});
  worker->start();
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  EXPECT_TRUE(worker->stop());
  EXPECT_EQ(found(id).status, MessageStatus::ready);
  EXPECT_EQ(found(id).message.attempts, 0);
}

TEST_P(HandlerContract, StoppingEndsAtItsDeadlineWhateverHandlersDo) {
  std::atomic<bool> begun{false};
  std::atomic<bool> release{false};
  worker->on("t", [&](const Message&, HandlerContext&) {
    begun = true;
    eventually([&] { return release.load(); });
  });
  outbox.enqueue({.topic = "t"});
  worker->start();
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  EXPECT_FALSE(worker->stop(milliseconds{50}));
  EXPECT_EQ(with_status(MessageStatus::in_progress), 1) << "left to its lease";
  release = true;
  worker.reset();  // waits for the handler
}

// --- waking and polling

TEST_P(HandlerContract, AnEnqueueWakesAnIdleWorkerAtOnce) {
  reopen([](PlatformOptions& options) {
    options.worker.poll_interval = std::chrono::minutes{10};  // polling alone would never find it
    options.worker.idle_poll_interval = std::chrono::minutes{10};
  });
  worker->on("t", [&](const Message& message, HandlerContext&) { note(message.payload); });
  worker->start();
  ASSERT_TRUE(eventually([&] {
    return std::ranges::count_if(log->all(), [](const auto& line) {
             return line.find("outbox.claimed") != line.npos;
           }) > 0;
  }));
  worker->outbox().enqueue({.topic = "t", .payload = "own"});
  EXPECT_TRUE(eventually([&] { return noted().size() == 1; }))
      << "by this process, in its own transaction";
  {
    auto transaction = worker->begin();
    worker->outbox().enqueue(transaction, {.topic = "t", .payload = "transaction"});
    transaction.commit();
  }
  EXPECT_TRUE(eventually([&] { return noted().size() == 2; }))
      << "by this process, in a transaction";
  outbox.enqueue({.topic = "t", .payload = "other"});
  EXPECT_TRUE(eventually([&] { return noted().size() == 3; })) << "by another Platform";
  {
    UserConnection user(backend);
    user.execute(backend.is_postgres() ? "begin" : "begin immediate");
    auto transaction = user.borrow();
    outbox.enqueue(transaction, {.topic = "t", .payload = "borrowed"});
    user.execute("commit");
  }
  EXPECT_TRUE(eventually([&] { return noted().size() == 4; })) << "through a borrowed transaction";
  outbox.enqueue_many(std::vector<EnqueueRequest>(3, {.topic = "t", .payload = "many"}));
  EXPECT_TRUE(eventually([&] { return noted().size() == 7; })) << "in bulk";
}

TEST_P(HandlerContract, AScheduledMessageIsHandledWhenItsTimeComes) {
  reopen([](PlatformOptions& options) {
    options.worker.poll_interval = std::chrono::minutes{10};
    options.worker.idle_poll_interval = std::chrono::minutes{10};
  });
  worker->on("t", [&](const Message& message, HandlerContext&) { note(message.payload); });
  outbox.enqueue({.topic = "t", .due_at = backend.now() + milliseconds{300}});
  worker->start();
  // The worker waits in real time until the message is due by the clock of the database. The test
  // moves that clock on SQLite.
  if (!backend.is_postgres()) backend.advance(milliseconds{300});
  EXPECT_TRUE(eventually([&] { return noted().size() == 1; }));
}

TEST_P(HandlerContract, WhatComesBackByItselfDoesNotWaitForThePoll) {
  reopen([](PlatformOptions& options) {
    options.worker.poll_interval = std::chrono::minutes{10};
    options.worker.idle_poll_interval = std::chrono::minutes{10};
  });
  std::atomic<int> calls{0};
  worker->on("t",
             [&](const Message&, HandlerContext& context) {
               const int call = ++calls;
               if (call == 1) context.snooze(milliseconds{50});
               if (call == 2) throw std::runtime_error("again");
             },
             {.backoff = [](int) { return milliseconds{50}; }});
  worker->start();
  worker->outbox().enqueue({.topic = "t", .due_at = backend.now() - seconds{1}});
  EXPECT_TRUE(eventually([&] {
    if (!backend.is_postgres()) backend.advance(milliseconds{10});
    return with_status(MessageStatus::done) == 1;
  }));
  EXPECT_EQ(calls, 3);
}

TEST_P(HandlerContract, APauseThatPlainSqlEndedIsEndedForAllItsMessages) {
  reopen([](PlatformOptions& options) { options.worker.lease = milliseconds{1'000}; });
  std::atomic<int> handled{0};
  worker->on("t", [&](const Message&, HandlerContext&) { ++handled; });
  outbox.pause("t");
  outbox.enqueue_many(std::vector<EnqueueRequest>(1'200, {.topic = "t"}));
  worker->start();
  ASSERT_TRUE(eventually([&] { return outbox.counts().paused == 1'200; }));
  EXPECT_EQ(handled, 0);
  backend.sql("delete from " + backend.table("outbox_paused"));
  EXPECT_TRUE(all_done(1'200));
}

TEST_P(HandlerContract, OBX_053_TheServiceReapsRegularly) {
  reopen([](PlatformOptions& options) { options.worker.lease = milliseconds{1'000}; });
  worker->on("t", [](const Message&, HandlerContext&) {});
  worker->start();
  const auto reaps = [&] {
    return std::ranges::count_if(
        log->all(), [](const auto& line) { return line.find("outbox.reaped") != line.npos; });
  };
  EXPECT_TRUE(eventually([&] { return reaps() >= 2; }));
}

TEST_P(HandlerContract, OBX_106_AReapIsLoggedWithItsCount) {
  outbox.enqueue_many(std::vector<EnqueueRequest>(3, {.topic = "t"}));
  ASSERT_THAT(claim(), SizeIs(3));
  backend.advance(seconds{31});
  EXPECT_EQ(worker->outbox().reap_expired(), 3U);
  EXPECT_THAT(log->all(), Contains("info outbox.reaped store=" + platform.name() + " count=3"));
}

TEST_P(HandlerContract, AScheduledMessageDoesNotWaitForThePollOfAWarmWorker) {
  reopen([](PlatformOptions& options) {
    options.worker.poll_interval = std::chrono::minutes{10};
    options.worker.idle_poll_interval = std::chrono::minutes{10};
  });
  worker->on("t", [&](const Message& message, HandlerContext&) { note(message.payload); });
  worker->start();
  worker->outbox().enqueue({.topic = "t", .payload = "warm"});
  ASSERT_TRUE(all_done(1));
  std::this_thread::sleep_for(milliseconds{300});
  worker->outbox().enqueue(
      {.topic = "t", .payload = "later", .due_at = backend.now() + milliseconds{200}});
  if (!backend.is_postgres()) backend.advance(milliseconds{200});
  EXPECT_TRUE(all_done(2));
}

TEST_P(HandlerContract, TimesFarAheadAreNeitherExpiredNorDue) {
  const WallTime far = std::chrono::sys_days{std::chrono::year{9999} / 12 / 31};
  worker->on("t", [&](const Message& message, HandlerContext&) { note(message.payload); });
  outbox.enqueue({.topic = "t", .payload = "never", .due_at = far});
  const auto lasting = outbox.enqueue({.topic = "t", .payload = "lasting", .expires_at = far});
  worker->start();
  ASSERT_TRUE(all_done(1));
  EXPECT_EQ(found(lasting).status, MessageStatus::done);
  EXPECT_THAT(noted(), ElementsAre("lasting"));
}

TEST_P(HandlerContract, MoreThreadsThanABatchHoldsAllWork) {
  reopen([](PlatformOptions& options) {
    options.max_connections = 16;
    options.worker.threads = 8;
    options.worker.batch_size = 1;
  });
  std::atomic<int> inside{0};
  worker->on("t", [&](const Message&, HandlerContext&) {
    ++inside;
    EXPECT_TRUE(eventually([&] { return inside == 8; }));
  });
  outbox.enqueue_many(std::vector<EnqueueRequest>(8, {.topic = "t"}));
  worker->start();
  EXPECT_TRUE(all_done(8));
}

TEST_P(HandlerContract, TheServicePurgesOldHistory) {
  reopen([](PlatformOptions& options) {
    options.worker.lease = milliseconds{1'000};
    options.outbox.retain_done = seconds{60};
  });
  outbox.ack(owner, claimed_one());
  backend.advance(seconds{120});
  worker->on("t", [](const Message&, HandlerContext&) {});
  worker->start();
  EXPECT_TRUE(eventually([&] { return stored() == 0; }));
}

TEST_P(HandlerContract, OBX_122_AnIdleWorkerLooksLessAndLessOften) {
  reopen([](PlatformOptions& options) {
    options.worker.poll_interval = milliseconds{10};
    options.worker.idle_poll_interval = milliseconds{500};
  });
  worker->on("t", [](const Message&, HandlerContext&) {});
  worker->start();
  std::this_thread::sleep_for(milliseconds{2'000});
  const auto claims = std::ranges::count_if(
      log->all(), [](const auto& line) { return line.find("outbox.claimed") != line.npos; });
  EXPECT_GE(claims, 3);
  EXPECT_LE(claims, 120) << "200 without a backoff";
}

TEST_P(HandlerContract, OBX_116_OBX_117_DefaultsAreTheSpecifications) {
  const WorkerOptions worker_defaults;
  EXPECT_EQ(worker_defaults.batch_size, 50);
  EXPECT_EQ(worker_defaults.lease, seconds{30});
  EXPECT_EQ(worker_defaults.poll_interval, milliseconds{500});
  EXPECT_EQ(ClaimRequest{}.batch_size, 50);
  EXPECT_EQ(ClaimRequest{}.lease, seconds{30});
  EXPECT_EQ(QueueOptions{}.max_attempts, 10);
}

TEST_P(HandlerContract, CountersAndTimingsReachTheSink) {
  class Numbers : public MetricsSink {
   public:
    void count(std::string_view name, std::uint64_t by,
               std::span<const MetricLabel> labels) override {
      std::lock_guard lock(mutex_);
      counters_[std::string{name}] += by;
      EXPECT_FALSE(labels.empty());
    }
    void time(std::string_view name, std::chrono::nanoseconds duration,
              std::span<const MetricLabel>) override {
      std::lock_guard lock(mutex_);
      EXPECT_GE(duration.count(), 0);
      counters_[std::string{name}] += 1;
    }
    std::uint64_t of(const std::string& name) {
      std::lock_guard lock(mutex_);
      return counters_[name];
    }

   private:
    std::mutex mutex_;
    std::map<std::string, std::uint64_t> counters_;
  };
  const auto numbers = std::make_shared<Numbers>();
  reopen([&](PlatformOptions& options) { options.metrics = numbers; });
  worker->on("t", [](const Message&, HandlerContext&) {});
  worker->outbox().enqueue({.topic = "t", .unique_key = "k"});
  worker->outbox().enqueue({.topic = "t", .unique_key = "k"});
  worker->outbox().enqueue_many(std::vector<EnqueueRequest>(4, {.topic = "t"}));
  worker->start();
  ASSERT_TRUE(all_done(5));
  worker->stop();
  EXPECT_EQ(numbers->of("dovetail_enqueued_total"), 5U);
  EXPECT_EQ(numbers->of("dovetail_duplicates_total"), 1U);
  EXPECT_EQ(numbers->of("dovetail_claimed_total"), 5U);
  EXPECT_EQ(numbers->of("dovetail_settled_total"), 5U);
  EXPECT_EQ(numbers->of("dovetail_handler_seconds"), 5U);
  EXPECT_GE(numbers->of("dovetail_round_trip_seconds"), 1U);

  // Settling a batch and claiming the next is one round trip.
  reopen([&](PlatformOptions& options) { options.metrics = numbers; });
  worker->on("t", [](const Message&, HandlerContext&) {});
  worker->outbox().enqueue_many(std::vector<EnqueueRequest>(3'000, {.topic = "t"}));
  const auto before = numbers->of("dovetail_round_trip_seconds");
  worker->start();
  ASSERT_TRUE(eventually([&] { return numbers->of("dovetail_settled_total") == 3'005U; }));
  // There are 60 batches; on a loaded machine they are smaller. One round trip for each claim and
  // each ack would be 6,000 round trips.
  EXPECT_LT(numbers->of("dovetail_round_trip_seconds") - before, 3'000U);
}

}  // namespace
}  // namespace dovetail::testing
