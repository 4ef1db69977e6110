// The clock of a database is set back.
#include <atomic>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/recorded_lines.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::HasSubstr;

class ClockContract : public BackendTest {
 protected:
  struct Steps final : MetricsSink {
    void count(std::string_view name, std::uint64_t by,
               std::span<const MetricLabel> /*labels*/) override {
      if (name == "dovetail_clock_stepped_back_total") total += static_cast<int>(by);
    }
    void time(std::string_view, std::chrono::nanoseconds, std::span<const MetricLabel>) override {}
    std::atomic<int> total{0};
  };
  Platform open() {
    auto options = backend.options();
    options.log_sink = log;
    options.metrics = steps;
    options.worker.lease = milliseconds{200};  // housekeeping runs every second
    return Platform::open(backend.url(), options);
  }
  std::ptrdiff_t warnings() { return log->count("platform.clock_stepped_back"); }

  std::shared_ptr<RecordedLines> log = std::make_shared<RecordedLines>();
  std::shared_ptr<Steps> steps = std::make_shared<Steps>();
};
DOVETAIL_CONTRACT(ClockContract);

TEST_P(ClockContract, AClockThatWasSetBackIsToldWhenTheDatabaseIsOpened) {
  open().outbox().enqueue({.topic = "t"});
  backend.advance(-seconds{2});
  open();
  EXPECT_EQ(warnings(), 0) << "clocks are corrected all the time";
  backend.advance(-hours{3});
  open();
  EXPECT_EQ(warnings(), 1);
  EXPECT_EQ(steps->total, 1);
  EXPECT_THAT(log->all(), Contains(HasSubstr("warn platform.clock_stepped_back")));
  backend.advance(hours{4});
  open();
  EXPECT_EQ(warnings(), 1) << "it is right again";
}

TEST_P(ClockContract, MessagesThatStillWaitTellOfItWhenManyNewerOnesAreStored) {
  for (const bool inbox : {false, true}) {
    auto platform = open();
    const auto store = [&](int number) {
      if (inbox) {
        platform.inbox().enqueue(
            {.topic = "t", .source = "s", .message_id = std::to_string(number)});
      } else {
        platform.outbox().enqueue({.topic = "t", .message_id = MessageId::generate()});
      }
    };
    for (int i = 0; i < 3; ++i) store(i);
    backend.advance(-hours{5});
    const auto before = warnings();
    for (int i = 3; i < 153; ++i) store(i);
    open();
    EXPECT_EQ(warnings(), before + 1) << (inbox ? "inbox" : "outbox");
    backend.advance(hours{6});
  }
}

TEST_P(ClockContract, TimersAndLeasesTellOfItAsWell) {
  open().timers().schedule({.topic = "t", .due_at = backend.now() + hours{48}});
  backend.advance(-hours{3});
  open();
  EXPECT_EQ(warnings(), 1) << "a timer";
  backend.advance(hours{4});
  auto platform = open();
  ASSERT_TRUE(platform.leases().try_acquire("l", "o", hours{1}));
  backend.advance(-hours{3});
  open();
  EXPECT_EQ(warnings(), 2) << "a lease";
}

TEST_P(ClockContract, AStartedPlatformTellsItOnce) {
  auto platform = open();
  auto transaction = platform.begin();
  platform.outbox().enqueue(transaction, {.topic = "t", .due_at = backend.now() + hours{1}});
  transaction.commit();
  platform.start();
  backend.advance(-hours{3});
  EXPECT_TRUE(eventually([&] { return steps->total >= 2; }));
  EXPECT_EQ(warnings(), 1);
}

TEST_P(ClockContract, AMessageThatIsDueLaterIsNoSignOfIt) {
  open().outbox().enqueue({.topic = "t", .due_at = backend.now() + hours{24}});
  open();
  EXPECT_EQ(warnings(), 0);
}

}  // namespace
}  // namespace dovetail::testing
