// Schedulers are killed repeatedly: every scheduled time of every job has exactly one run, and
// every timer fires exactly once.
//
// DOVETAIL_SCHEDULER_KILLS is the number of kills. The default is small.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <thread>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int wanted_kills() {
  const char* text = std::getenv("DOVETAIL_SCHEDULER_KILLS");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? std::max(1, std::atoi(text)) : 8;
}

class ScheduleFault : public BackendTest {
 protected:
  PlatformOptions options() const {
    PlatformOptions options{.schema = backend.schema(), .log_sink = null_log_sink()};
    options.worker.lease = milliseconds{500};
    options.worker.poll_interval = milliseconds{20};
    options.worker.idle_poll_interval = milliseconds{50};
    return options;
  }
  [[nodiscard]] std::string table() const {
    return backend.is_postgres() ? backend.schema() + ".effects" : "effects";
  }
  void work(Platform& platform) const {
    platform.on("tick", [this](const Message& message, HandlerContext& context) {
      context.transaction().execute("insert into " + table() + " (message) values ($1)",
                                    message.message_id.to_string());
    });
    platform.start();
  }
};
DOVETAIL_CONTRACT(ScheduleFault);

TEST_P(ScheduleFault, NoRunIsMissedOrDoneTwiceThoughSchedulersAreKilled) {
  Platform::migrate(backend.url(), options());
  backend.sql("create table " + table() +
              " (message text)");  // without a key: a second effect is visible
  const int kills = wanted_kills();
  // Two schedulers that live and one that is killed. They are started before threads exist here.
  const auto scheduler = [&] {
    return ChildProcess([&] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto mine = Platform::open(backend.url(), options());
      work(mine);
      for (;;) ::pause();
    });
  };
  auto first = scheduler();
  auto second = scheduler();
  ChildProcess killer([&] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < kills; ++i) {
      auto victim = scheduler();
      ::usleep(static_cast<useconds_t>(200'000 + i % 7 * 130'000));
      victim.signal(SIGKILL);
      victim.wait();
    }
  });
  auto platform = Platform::open(backend.url(), options());
  platform.jobs().create_or_update({.name = "j",
                                    .topic = "tick",
                                    .cron = "* * * * * *",
                                    .misfire = Misfire::all,
                                    .misfire_limit = 1'000,
                                    .max_concurrent_runs = 0});
  const auto from = *platform.jobs().find("j")->next_due_at;
  std::set<TimerId> timers;
  for (int i = 0; i < 200; ++i) {
    const auto due = from + milliseconds{i * 10};
    timers.insert(platform.timers().schedule({.topic = "tick", .due_at = due}));
  }
  EXPECT_EQ(killer.wait(), 0);
  const auto until = backend.now();
  platform.jobs().disable("j");
  const auto unfinished = [&] {
    return backend.number("select count(*) from " + backend.table("outbox_messages") +
                          " where status < 2") +
           backend.number("select count(*) from " + backend.table("timers_messages") +
                          " where status < 2");
  };
  EXPECT_TRUE(eventually([&] { return unfinished() == 0; }, seconds{60}));

  const auto runs = platform.jobs().runs("j", {.size = 10'000});
  ASSERT_FALSE(runs.empty());
  std::set<WallTime> times;
  for (const auto& run : runs) {
    times.insert(run.scheduled_time);
    EXPECT_EQ(run.status, RunStatus::done);
  }
  EXPECT_EQ(times.size(), runs.size()) << "two runs for one time";
  EXPECT_EQ(*times.begin(), from);
  EXPECT_EQ((*times.rbegin() - from) / seconds{1} + 1, static_cast<std::int64_t>(times.size()))
      << "one was missed";
  EXPECT_GE(*times.rbegin(), until - seconds{2}) << "the last ones were missed";
  EXPECT_EQ(backend.number("select count(*) from " + table()),
            static_cast<std::int64_t>(runs.size() + timers.size()));
  EXPECT_EQ(backend.number("select count(distinct message) from " + table()),
            static_cast<std::int64_t>(runs.size() + timers.size()));
}

}  // namespace
}  // namespace dovetail::testing
