// One-time timers.
#include <atomic>
#include <thread>

#include "postgres/sql.hpp"
#include "sqlite/sql.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TimerContract : public BackendTest {
 protected:
  ScheduledTimer in(std::chrono::milliseconds delay, const std::string& topic = "t") {
    return timers.schedule({.topic = topic, .payload = "p", .due_at = backend.now() + delay});
  }
  std::vector<ClaimedMessage> messages() {
    return platform.outbox().claim({.owner = owner, .batch_size = 1'000});
  }

  Platform platform = backend.open();
  Timers& timers = platform.timers();
  OwnerToken owner = OwnerToken::generate();
};
DOVETAIL_CONTRACT(TimerContract);

TEST_P(TimerContract, ATimerBecomesAMessageWhenItsTimeComesAndNotBefore) {
  const auto due = backend.now() + seconds{30};
  const auto id = timers.schedule({.topic = "remind",
                                   .payload = "{}",
                                   .due_at = due,
                                   .correlation_id = "c",
                                   .headers = {{"h", "v"}},
                                   .priority = 3});
  EXPECT_TRUE(id.stored());
  EXPECT_EQ(timers.fire_due(), 0U);
  backend.advance(seconds{29});
  EXPECT_EQ(timers.fire_due(), 0U) << "never early";
  EXPECT_THAT(messages(), IsEmpty());
  backend.advance(milliseconds{1'500});
  EXPECT_EQ(timers.fire_due(), 1U);
  EXPECT_EQ(timers.fire_due(), 0U) << "never twice";
  const auto claimed = messages();
  ASSERT_THAT(claimed, SizeIs(1));
  const auto& message = claimed.front().message;
  EXPECT_EQ(message.message_id.uuid(), id.uuid());
  EXPECT_EQ(message.topic, "remind");
  EXPECT_EQ(message.payload, "{}");
  EXPECT_EQ(message.correlation_id, "c");
  EXPECT_EQ(message.headers, (Headers{{"h", "v"}}));
  EXPECT_EQ(message.priority, 3);
  EXPECT_EQ(message.due_at, due);
  const auto timer = timers.find(id);
  ASSERT_TRUE(timer);
  EXPECT_EQ(timer->status, MessageStatus::done);
  EXPECT_GE(timer->fired_at, due);
}

TEST_P(TimerContract, WhatIsPastFiresAtOnce) {
  in(-hours{1});
  EXPECT_EQ(timers.fire_due(), 1U);
  EXPECT_THAT(messages(), SizeIs(1));
}

TEST_P(TimerContract, CancelAnswersTrueOnceAndNeverAfterItFired) {
  const auto first = in(seconds{10});
  EXPECT_TRUE(timers.cancel(first));
  EXPECT_FALSE(timers.cancel(first));
  EXPECT_FALSE(timers.cancel(TimerId::generate()));
  const auto second = in(seconds{10});
  backend.advance(seconds{11});
  EXPECT_EQ(timers.fire_due(), 1U);
  EXPECT_FALSE(timers.cancel(second));
  EXPECT_THAT(messages(), SizeIs(1));
  EXPECT_FALSE(timers.find(first));
}

TEST_P(TimerContract, CancelAndFireExcludeEachOther) {
  constexpr int count = 60;
  std::vector<TimerId> ids;
  for (int i = 0; i < count; ++i) ids.push_back(in(milliseconds{0}));
  std::atomic<int> cancelled{0};
  std::atomic<std::size_t> fired{0};
  {
    const std::jthread firing([&] {
      for (int i = 0; i < 30; ++i) fired += timers.fire_some({}, 3).count;
    });
    for (const auto& id : ids) cancelled += timers.cancel(id) ? 1 : 0;
  }
  fired += timers.fire_due();
  EXPECT_EQ(static_cast<std::size_t>(cancelled) + fired, static_cast<std::size_t>(count));
  EXPECT_THAT(messages(), SizeIs(fired.load()));
}

TEST_P(TimerContract, ATimerIsRescheduledBothWays) {
  const auto id = in(hours{1});
  EXPECT_TRUE(timers.reschedule(id, backend.now() + seconds{5}));
  backend.advance(seconds{6});
  EXPECT_EQ(timers.fire_due(), 1U);
  EXPECT_FALSE(timers.reschedule(id, backend.now()));
  const auto later = in(seconds{1});
  EXPECT_TRUE(timers.reschedule(later, backend.now() + hours{1}));
  backend.advance(seconds{10});
  EXPECT_EQ(timers.fire_due(), 0U);
  EXPECT_EQ(timers.find(later)->status, MessageStatus::ready);
}

TEST_P(TimerContract, AUniqueKeyHasOneTimerThatWaits) {
  const TimerRequest request{
      .topic = "t", .due_at = backend.now() + seconds{10}, .unique_key = "k"};
  const auto first = timers.schedule(request);
  const auto second = timers.schedule(request);
  EXPECT_FALSE(second.stored());
  EXPECT_EQ(second.uuid(), first.uuid());
  backend.advance(seconds{11});
  EXPECT_EQ(timers.fire_due(), 1U);
  EXPECT_TRUE(timers.schedule(request).stored()) << "the first one has fired";
}

TEST_P(TimerContract, AnIdOfYourOwnMakesARepeatedCallHarmless) {
  const auto id = TimerId::generate();
  EXPECT_TRUE(timers.schedule({.topic = "t", .due_at = backend.now(), .timer_id = id}).stored());
  EXPECT_FALSE(timers.schedule({.topic = "t", .due_at = backend.now(), .timer_id = id}).stored());
  EXPECT_EQ(timers.fire_due(), 1U);
  EXPECT_FALSE(timers.schedule({.topic = "t", .due_at = backend.now(), .timer_id = id}).stored());
}

TEST_P(TimerContract, EverythingTakesPartInTheCallersTransaction) {
  const auto kept = in(hours{1});
  {
    auto transaction = platform.begin();
    timers.schedule(transaction, {.topic = "t", .due_at = backend.now()});
    EXPECT_TRUE(timers.cancel(transaction, kept));
  }
  EXPECT_EQ(timers.fire_due(), 0U);
  EXPECT_TRUE(timers.find(kept));
  {
    auto transaction = platform.begin();
    const std::vector<TimerRequest> many(3, {.topic = "t", .due_at = backend.now()});
    EXPECT_THAT(timers.schedule_many(transaction, many), SizeIs(3));
    EXPECT_TRUE(timers.reschedule(transaction, kept, backend.now()));
    transaction.commit();
  }
  EXPECT_EQ(timers.fire_due(), 4U);
}

TEST_P(TimerContract, TimersAreListedByTheirTime) {
  const auto c = in(minutes{3});
  const auto a = in(minutes{1}, "x");
  const auto b = in(minutes{2});
  const auto ids = [](const std::vector<Timer>& list) {
    std::vector<TimerId> found;
    for (const auto& timer : list) found.push_back(timer.id);
    return found;
  };
  EXPECT_THAT(ids(timers.list()), ElementsAre(a, b, c));
  EXPECT_THAT(ids(timers.list("t")), ElementsAre(b, c));
  const auto first = timers.list({}, {.size = 1});
  EXPECT_THAT(ids(first), ElementsAre(a));
  EXPECT_THAT(
      ids(timers.list({}, {.after_time = first[0].next_attempt_at, .after_id = first[0].id})),
      ElementsAre(b, c));
  EXPECT_EQ(first[0].topic, "x");
  EXPECT_EQ(first[0].status, MessageStatus::ready);
}

TEST_P(TimerContract, AProcessorOfYourOwnClaimsAcksAbandonsAndReaps) {
  const auto id = in(milliseconds{0});
  auto claimed = timers.queue().claim({.owner = owner});
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].message.message_id.uuid(), id.uuid());
  EXPECT_EQ(timers.fire_due(), 0U) << "it is the processor's";
  EXPECT_FALSE(timers.cancel(id));
  EXPECT_EQ(timers.find(id)->status, MessageStatus::in_progress);
  EXPECT_EQ(timers.queue().abandon(owner, std::vector{claimed[0].claim}, {.delay = seconds{1}}),
            1U);
  backend.advance(seconds{2});
  claimed = timers.queue().claim({.owner = owner, .lease = seconds{5}});
  ASSERT_THAT(claimed, SizeIs(1));
  backend.advance(seconds{6});
  EXPECT_EQ(timers.queue().reap_expired(), 1U);
  claimed = timers.queue().claim({.owner = owner});
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(timers.queue().ack(owner, std::vector{claimed[0].claim}), 1U);
  EXPECT_THAT(messages(), IsEmpty()) << "what it does is the processor's own";
}

TEST_P(TimerContract, AMessageThatIsThereAlreadyDoesNotStandInTheWay) {
  const auto id = in(milliseconds{0});
  in(milliseconds{0});
  platform.outbox().enqueue({.topic = "t", .message_id = MessageId{id.uuid()}});
  EXPECT_EQ(timers.fire_due(), 2U);
  EXPECT_THAT(messages(), SizeIs(2));
}

TEST_P(TimerContract, AClockThatStepsBackFiresNothingTwice) {
  in(seconds{10});
  backend.advance(seconds{11});
  EXPECT_EQ(timers.fire_due(), 1U);
  backend.advance(-hours{1});
  EXPECT_EQ(timers.fire_due(), 0U);
  const auto late = in(seconds{10});
  backend.advance(hours{1});
  EXPECT_EQ(timers.fire_due(), 1U);
  EXPECT_EQ(timers.find(late)->status, MessageStatus::done);
}

TEST_P(TimerContract, WhatIsBeyondALimitIsRefusedAndNothingIsStored) {
  EXPECT_THROW(timers.schedule({.topic = "", .due_at = backend.now()}), std::invalid_argument);
  EXPECT_THROW(timers.schedule({.topic = std::string(256, 't'), .due_at = backend.now()}),
               std::invalid_argument);
  EXPECT_THROW(timers.schedule({.topic = "t", .due_at = WallTime::max()}), std::out_of_range);
  EXPECT_THROW((void)timers.list({}, {.size = 0}), std::out_of_range);
  EXPECT_THROW(timers.reschedule(TimerId::generate(), WallTime::max()), std::out_of_range);
}

TEST_P(TimerContract, APlatformThatLeavesThemToOthersFiresNone) {
  auto options = backend.options();
  options.clock = nullptr;  // real time
  options.schedule.fire_timers = false;
  auto worker = Platform::open(backend.url(), options);
  std::atomic<int> runs{0};
  worker.on("job", [&](const Message&, HandlerContext&) { ++runs; });
  worker.on("t", [](const Message&, HandlerContext&) {});
  const auto timer = worker.timers().schedule({.topic = "t", .due_at = WallTime{}});
  worker.jobs().create_or_update({.name = "each second", .topic = "job", .cron = "* * * * * *"});
  worker.start();
  // A scheduler that fires timers fires them before it creates runs of jobs.
  EXPECT_TRUE(eventually([&] { return runs > 0; }));
  EXPECT_EQ(worker.timers().find(timer)->status, MessageStatus::ready);

  options.schedule.fire_timers = true;
  auto other = Platform::open(backend.url(), options);
  other.on("t", [](const Message&, HandlerContext&) {});
  other.start();
  EXPECT_TRUE(
      eventually([&] { return other.timers().find(timer)->status == MessageStatus::done; }));
}

TEST_P(TimerContract, AStartedPlatformFiresThemAndIsWokenByAnEarlierOne) {
  auto options = backend.options();
  options.clock = nullptr;  // real time
  options.worker.poll_interval = seconds{5};
  options.worker.idle_poll_interval = seconds{5};
  auto worker = Platform::open(backend.url(), options);
  std::mutex mutex;
  std::vector<std::string> seen;
  worker.on("t", [&](const Message& message, HandlerContext&) {
    std::lock_guard lock(mutex);
    seen.push_back(message.payload);
  });
  worker.start();
  const auto now =
      std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
  worker.timers().schedule({.topic = "t", .payload = "far", .due_at = now + hours{1}});
  std::this_thread::sleep_for(milliseconds{200});  // the scheduler sleeps now
  worker.timers().schedule({.topic = "t", .payload = "near", .due_at = now + milliseconds{500}});
  EXPECT_TRUE(eventually(
      [&] {
        std::lock_guard lock(mutex);
        return seen.size() == 1;
      },
      seconds{4}))
      << "before it would have polled";
  std::lock_guard lock(mutex);
  EXPECT_THAT(seen, ElementsAre("near"));
}

TEST_P(TimerContract, EnqueuedMessagesDoNotMakeTheSchedulerLook) {
  const auto looks = [&] {
    const auto statements =
        backend.is_postgres() ? postgres::sql::statements() : sqlite::sql::statements();
    const auto found =
        std::ranges::find(statements, "schedule_next_due", &storage::Statement::name);
    return (*found)->runs.load();
  };
  auto options = backend.options();
  options.clock = nullptr;  // real time
  options.worker.poll_interval = minutes{1};
  options.worker.idle_poll_interval = minutes{1};
  auto worker = Platform::open(backend.url(), options);
  std::atomic<int> handled{0};
  worker.on("t", [&](const Message&, HandlerContext&) { ++handled; });
  worker.start();
  worker.timers().schedule({.topic = "t", .delay = milliseconds{0}});
  ASSERT_TRUE(eventually([&] { return handled == 1; }));
  constexpr int burst = 500;
  const auto before = looks();
  for (int i = 0; i < burst; ++i) worker.outbox().enqueue({.topic = "t"});
  EXPECT_TRUE(eventually([&] { return handled == burst + 1; }));
  // The timer and the start of the listener may still cause some checks.
  EXPECT_LE(looks() - before, 4U);
  worker.timers().schedule({.topic = "t", .delay = milliseconds{0}});
  EXPECT_TRUE(eventually([&] { return handled == burst + 2; })) << "but a timer does";
}

TEST_P(TimerContract, ACrowdThatIsDueAtOnceFiresOnceEachWhileOtherMessagesAreHandled) {
  auto options = backend.options();
  options.clock = nullptr;  // real time
  auto worker = Platform::open(backend.url(), options);
  constexpr int crowd = 1'500;
  std::atomic<int> fired{0};
  std::atomic<int> others{0};
  worker.on("t", [&](const Message&, HandlerContext&) { ++fired; });
  worker.on("other", [&](const Message&, HandlerContext&) { ++others; });
  worker.timers().schedule_many(
      std::vector<TimerRequest>(crowd, {.topic = "t", .due_at = WallTime{}}));
  worker.start();
  for (int i = 0; i < 20; ++i) worker.outbox().enqueue({.topic = "other"});
  EXPECT_TRUE(eventually([&] { return fired >= crowd && others == 20; }));
  EXPECT_THAT(worker.timers().list(), IsEmpty());
  EXPECT_EQ(fired, crowd);
}

// --- delays: by the database's clock

class DelayContract : public BackendTest {
 protected:
  DelayContract() {
    // PostgreSQL uses the clock of its server. The clock of this client differs by years.
    auto options = backend.options();
    options.clock = {std::shared_ptr<void>{}, &backend.clock()};
    platform.emplace(Platform::open(backend.url(), options));
  }
  std::size_t claimed() {
    return platform->outbox()
        .claim({.owner = OwnerToken::generate(), .batch_size = 1'000, .lease = hours{1}})
        .size();
  }
  std::optional<Platform> platform;
};
DOVETAIL_CONTRACT(DelayContract);

TEST_P(DelayContract, ATimerWithADelayFiresByTheDatabasesClock) {
  auto& timers = platform->timers();
  const auto timer = timers.schedule({.topic = "t", .delay = seconds{30}});
  EXPECT_LE(timers.find(timer)->due_at - backend.now(), seconds{30});
  EXPECT_GT(timers.find(timer)->due_at - backend.now(), seconds{0});
  EXPECT_EQ(timers.fire_due(), 0U);
  backend.advance(seconds{31});
  EXPECT_EQ(timers.fire_due(), 1U);
  EXPECT_EQ(claimed(), 1U);
}

TEST_P(DelayContract, ATimerIsRescheduledByADelay) {
  auto& timers = platform->timers();
  const auto timer = timers.schedule({.topic = "t", .delay = hours{1}});
  EXPECT_TRUE(timers.reschedule(timer, seconds{30}));
  auto transaction = platform->begin();
  EXPECT_TRUE(timers.reschedule(transaction, timer, seconds{60}));
  transaction.commit();
  backend.advance(seconds{31});
  EXPECT_EQ(timers.fire_due(), 0U);
  backend.advance(seconds{31});
  EXPECT_EQ(timers.fire_due(), 1U);
}

TEST_P(DelayContract, AMessageWithADelayIsNotClaimedBefore) {
  auto& outbox = platform->outbox();
  outbox.enqueue({.topic = "one", .delay = seconds{30}});
  outbox.enqueue({.topic = "keyed", .delay = seconds{30}, .unique_key = "k"});
  std::vector<EnqueueRequest> many;
  for (int i = 0; i < 150; ++i) many.push_back({.topic = "many"});
  many[7].delay = seconds{30};
  many[8].due_at = backend.now() + seconds{30};
  outbox.enqueue_many(many);
  auto transaction = platform->begin();
  outbox.enqueue(transaction, {.topic = "inside", .delay = seconds{30}});
  transaction.commit();
  EXPECT_EQ(claimed(), 148U);
  backend.advance(seconds{31});
  EXPECT_EQ(claimed(), 5U);
}

TEST_P(DelayContract, WhatMakesNoSenseIsRefused) {
  EXPECT_THROW(
      platform->timers().schedule({.topic = "t", .due_at = backend.now(), .delay = seconds{1}}),
      std::invalid_argument);
  EXPECT_THROW(platform->timers().schedule({.topic = "t", .delay = -seconds{1}}),
               std::out_of_range);
  EXPECT_THROW(platform->timers().reschedule(TimerId::generate(), -seconds{1}), std::out_of_range);
  EXPECT_THROW(
      platform->outbox().enqueue({.topic = "t", .due_at = backend.now(), .delay = seconds{1}}),
      std::invalid_argument);
  EXPECT_THROW(platform->outbox().enqueue({.topic = "t", .delay = hours{24 * 365 * 101}}),
               std::out_of_range);
}

}  // namespace
}  // namespace dovetail::testing
