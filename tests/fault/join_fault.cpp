// Faults of joins: steps are attached before, while and after they end. They are handled by
// processes that are killed and restarted. Some steps fail, some are retried, some outlive their
// lease, some are reported twice, and some joins are cancelled. In the end every counter is
// correct, every join has ended, and each has exactly one continuation, the right one.
//
// DOVETAIL_CHAOS_JOINS is the number of joins. The default is small.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int wanted_joins() {
  const char* text = std::getenv("DOVETAIL_CHAOS_JOINS");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? std::max(1, std::atoi(text)) : 30;
}

/// A number that processes share.
class SharedCounter {
 public:
  SharedCounter()
      : value_(static_cast<std::atomic<int>*>(::mmap(nullptr, sizeof(std::atomic<int>),
                                                     PROT_READ | PROT_WRITE,
                                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedCounter() { ::munmap(value_, sizeof(std::atomic<int>)); }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  void add() const { ++*value_; }
  [[nodiscard]] int value() const { return *value_; }

 private:
  std::atomic<int>* value_;
};

class JoinFault : public BackendTest {
 protected:
  struct Plan {
    JoinId join;
    std::vector<MessageId> steps;
    bool cancelled = false;
  };

  PlatformOptions options() const {
    PlatformOptions options{.schema = backend.schema(), .log_sink = null_log_sink()};
    options.outbox.max_attempts = 6;
    options.worker.lease = milliseconds{300};
    options.worker.poll_interval = milliseconds{20};
    options.worker.idle_poll_interval = milliseconds{50};
    options.worker.threads = 4;
    return options;
  }

  /// The worker of a process. It completes most steps, and the others fail in different ways.
  /// `calm`: no handler outlives its lease.
  void work(Platform& platform, bool calm) const {
    platform.on(
        "step",
        [calm](const Message& message, HandlerContext& context) {
          // The outcome depends on the message and its attempt, so that a later attempt may
          // succeed.
          std::mt19937 dice(static_cast<unsigned>(std::hash<Uuid>{}(message.message_id.uuid()) +
                                                  static_cast<std::size_t>(message.attempts)));
          const auto roll = dice() % 100;
          if (roll < 4) throw PermanentFailure("bad luck");
          if (roll < 12) throw std::runtime_error("try again");
          // A snooze charges no attempt: the next roll is the same.
          if (roll < 15 && context.epoch() < 4) return context.snooze(milliseconds{5});
          if (roll < 17 && !calm)
            std::this_thread::sleep_for(milliseconds{400});  // a zombie when it wakes
          if (roll < 40)
            (void)context.transaction().query("select 1");  // acks in its own transaction
        },
        {.backoff = [](int) { return milliseconds{5}; }});
    platform.on("continued", [](const Message&, HandlerContext&) {});
    platform.start();
  }

  std::map<std::string, std::int64_t> counts(const std::string& query) {
    std::map<std::string, std::int64_t> found;
    const auto database = backend.open_database();
    database->read([&](storage::ReadSession& session) {
      for (const auto& row : session.query(query, {})) {
        found[row.get<Uuid>(0).to_string()] = row.get<std::int64_t>(1);
      }
    });
    return found;
  }

  std::mt19937 random{20261116};
};
DOVETAIL_CONTRACT(JoinFault);

TEST_P(JoinFault, JOIN_060_CountersAreTheTruthWhateverHappens) {
  const int total = wanted_joins();
  Platform::migrate(backend.url(), options());
  // Workers are killed repeatedly from the beginning. Another process does it, so that this process
  // has no threads when it forks.
  const SharedCounter kills;
  ChildProcess killer([&] {
    std::mt19937 dice(4711);
    for (;;) {
      ChildProcess worker([&] {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        auto mine = Platform::open(backend.url(), options());
        work(mine, false);
        for (;;) ::pause();
      });
      ::usleep(150'000 + dice() % 400'000);
      worker.signal(SIGKILL);
      worker.wait();
      kills.add();
    }
  });
  auto platform = Platform::open(backend.url(), options());
  std::vector<Plan> plans;
  std::vector<std::pair<JoinId, MessageId>> late;  // to be attached later
  std::set<MessageId> reported;

  for (int i = 0; i < total; ++i) {
    Plan plan;
    const auto size = 1 + (random() % 10 == 0 ? random() % 100 : random() % 8);
    const Continuation continuation{.fail_if_any_step_failed = random() % 2 == 0,
                                    .on_complete_topic = "continued",
                                    .on_complete_payload = "",
                                    .on_fail_topic = "continued"};
    if (random() % 3 == 0) {
      FanOut fan;
      fan.steps.assign(size, {.topic = "step"});
      fan.wait = continuation;
      const auto answer = platform.joins().fan_out(fan);
      plan.join = answer.join;
      plan.steps.assign(answer.steps.begin(), answer.steps.end());
    } else {
      plan.join = platform.joins().start({.expected_steps = static_cast<int>(size)});
      const bool waits_first = random() % 2 == 0;
      if (waits_first) platform.joins().enqueue_wait(plan.join, continuation);
      for (std::size_t n = 0; n < size; ++n) {
        EnqueueRequest request{.topic = "step"};
        const auto way = random() % 3;
        if (way == 0) request.joins = {plan.join};
        const auto id = platform.outbox().enqueue(request);
        plan.steps.push_back(id);
        if (way == 1) platform.joins().attach(plan.join, id);
        if (way == 2) late.emplace_back(plan.join, id);
      }
      if (!waits_first) platform.joins().enqueue_wait(plan.join, continuation);
    }
    plans.push_back(std::move(plan));
    // Unexpected reports, and cancels.
    if (random() % 4 == 0) {
      const auto& victim = plans[random() % plans.size()];
      const auto step = victim.steps[random() % victim.steps.size()];
      try {
        for (int twice = 0; twice < 2; ++twice) {
          if (random() % 2 == 0) {
            platform.joins().report_step_completed(victim.join, step);
          } else {
            platform.joins().report_step_failed(victim.join, step);
          }
          reported.insert(step);
        }
      } catch (const InvalidOperation&) {  // NOLINT(bugprone-empty-catch): not attached yet
      }
    }
    if (random() % 20 == 0) {
      auto& victim = plans[random() % plans.size()];
      victim.cancelled = platform.joins().cancel(victim.join) || victim.cancelled;
    }
  }
  // Attach the late steps. Many of their messages have ended by now. Some are attached twice.
  std::shuffle(late.begin(), late.end(), random);
  for (const auto& [join, message] : late) {
    platform.joins().attach(join, message);
    if (random() % 10 == 0) platform.joins().attach(join, message);
  }

  // One worker that is not killed handles the rest.
  auto last = Platform::open(backend.url(), options());
  work(last, true);
  const auto unfinished = [&] {
    return backend.number("select count(*) from " + backend.table("outbox_messages") +
                          " where status < 2");
  };
  EXPECT_TRUE(eventually([&] { return unfinished() == 0; }, seconds{60 + total / 10}))
      << unfinished() << " are stuck";
  EXPECT_TRUE(eventually([&] { return kills.value() > 1; }));
  killer.signal(SIGKILL);
  killer.wait();

  const auto completed =
      counts("select join_id, count(*) from " + backend.table("outbox_join_members") +
             " where status = 1 group by join_id");
  const auto failed =
      counts("select join_id, count(*) from " + backend.table("outbox_join_members") +
             " where status = 2 group by join_id");
  std::int64_t cancelled = 0;
  for (const auto& plan : plans) {
    const auto join = platform.joins().find(plan.join);
    ASSERT_TRUE(join);
    const auto id = plan.join.to_string();
    const auto of = [&](const auto& map) {
      const auto entry = map.find(id);
      return entry == map.end() ? 0 : entry->second;
    };
    EXPECT_EQ(of(completed) + of(failed), static_cast<std::int64_t>(plan.steps.size()))
        << id << ": a member is pending";
    if (plan.cancelled) {
      EXPECT_EQ(join->status, JoinStatus::cancelled);
      ++cancelled;
      continue;
    }
    EXPECT_EQ(join->completed_steps, of(completed)) << id;
    EXPECT_EQ(join->failed_steps, of(failed)) << id;
    EXPECT_EQ(join->status, join->failed_steps > 0 ? JoinStatus::failed : JoinStatus::completed)
        << id;
  }
  // The status of each member equals that of its message, unless a report was different.
  for (const auto& plan : plans) {
    for (const auto& member : platform.joins().members(plan.join)) {
      if (reported.contains(member.message)) continue;
      const auto message = platform.outbox().find(member.message);
      ASSERT_TRUE(message);
      EXPECT_EQ(member.status == StepStatus::completed, message->status == MessageStatus::done);
    }
  }
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_messages") +
                           " where topic = 'continued'"),
            static_cast<std::int64_t>(plans.size()) - cancelled);
  EXPECT_EQ(backend.number("select count(*) from " + backend.table("outbox_messages") +
                           " where topic = 'join.wait' and status = 2"),
            static_cast<std::int64_t>(plans.size()));
}

}  // namespace
}  // namespace dovetail::testing
