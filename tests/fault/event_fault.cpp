// Projections whose processes are killed or stopped: each event has one effect, and the events of a
// stream have their effects in order.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <map>
#include <random>
#include <utility>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int streams = 10;
constexpr int parts = 3;

class EventFault : public BackendTest {
 protected:
  EventFault() {
    Platform::migrate(backend.url(), options());
    const auto* number = backend.is_postgres() ? "bigserial primary key" : "integer primary key";
    backend.sql("create table " + effects() + " (n " + number + ", stream text, version integer)");
  }
  [[nodiscard]] PlatformOptions options() const {
    return {.schema = backend.schema(), .log_sink = null_log_sink()};
  }
  [[nodiscard]] std::string effects() const {
    return backend.is_postgres() ? backend.schema() + ".effects" : "effects";
  }
  [[nodiscard]] std::int64_t effect_count() const {
    return backend.number("select count(*) from " + effects());
  }

  /// Subscribes and works until its process ends. `pause` is called in the middle of each batch.
  void project(int part_count, const std::function<void()>& pause) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto platform = Platform::open(backend.url(), options());
    platform.events().subscribe(
        "projection", {.parts = part_count, .batch_size = 7, .lease = milliseconds{1'000}},
        [&](std::span<const Event> batch, SubscriptionContext& context) {
          for (const auto& event : batch) {
            context.transaction().execute(
                "insert into " + effects() + " (stream, version) values ($1, $2)", event.stream,
                event.version);
            if (&event == &batch[batch.size() / 2]) pause();
          }
        });
    platform.start();
    for (;;) ::pause();
  }
  [[nodiscard]] ChildProcess projection(
      int part_count, const std::function<void()>& pause = [] { ::usleep(2'000); }) const {
    return ChildProcess([=, this] { project(part_count, pause); });
  }

  /// A process that appends `count` events to each stream.
  [[nodiscard]] ChildProcess writer(int count) const {
    return ChildProcess([=, this] { append(count); });
  }
  void append(int count) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto platform = Platform::open(backend.url(), options());
    for (int i = 0; i < count; ++i) {
      for (int stream = 0; stream < streams; ++stream) {
        platform.events().append("s" + std::to_string(stream), ExpectedVersion::any(),
                                 {{.type = "t"}});
      }
    }
  }

  /// Each stream has the effects 1, 2, 3 … in this order.
  void expect_each_once_in_order(int count) const {
    std::map<std::string, std::int64_t> last;
    for (const auto& row :
         backend.sql("select stream, version from " + effects() + " order by n")) {
      auto& version = last[row.get<std::string>(0)];
      EXPECT_EQ(row.get<std::int64_t>(1), version + 1) << row.get<std::string>(0);
      version = row.get<std::int64_t>(1);
    }
    EXPECT_EQ(last.size(), static_cast<std::size_t>(streams));
    for (const auto& [stream, version] : last) EXPECT_EQ(version, count) << stream;
  }
};
DOVETAIL_CONTRACT(EventFault);

TEST_P(EventFault, AProjectionThatIsKilledAgainAndAgainHasEachEffectOnce) {
  constexpr int count = 60;
  std::mt19937 random{20261117};
  auto writing = writer(count);
  for (int kill = 0; kill < 12; ++kill) {
    // The number of parts changes with every process.
    auto victim = projection(1 + kill % parts);
    ::usleep(static_cast<useconds_t>(200'000 + random() % 400'000));
    victim.signal(SIGKILL);
    victim.wait();
  }
  EXPECT_EQ(writing.wait(), 0);
  auto survivor = projection(parts);
  EXPECT_TRUE(eventually([&] { return effect_count() == streams * count; }, seconds{60}));
  survivor.signal(SIGKILL);
  survivor.wait();
  expect_each_once_in_order(count);
}

TEST_P(EventFault, AnotherProjectionTakesOverThePartsOfOneThatIsKilled) {
  constexpr int count = 40;
  auto first = projection(parts);
  auto second = projection(parts);
  EXPECT_EQ(writer(count / 2).wait(), 0);
  EXPECT_TRUE(eventually([&] { return effect_count() >= streams; }, seconds{60}));
  first.signal(SIGKILL);
  first.wait();
  EXPECT_EQ(writer(count / 2).wait(), 0);
  EXPECT_TRUE(eventually([&] { return effect_count() == streams * count; }, seconds{60}));
  second.signal(SIGKILL);
  second.wait();
  expect_each_once_in_order(count);
}

/// Stopped processes. On SQLite, a stopped process that has written holds the write lock.
class StoppedEventFault : public EventFault {};
INSTANTIATE_TEST_SUITE_P(Engines, StoppedEventFault, ::testing::Values(BackendKind::postgres),
                         backend_name);

/// A process stops itself in the middle of a batch, with an open transaction. Another one takes
/// over when the lease has expired. Then the first one continues, and changes nothing.
TEST_P(StoppedEventFault, AProjectionBeyondItsLeaseChangesNothing) {
  constexpr int count = 20;
  EXPECT_EQ(writer(count).wait(), 0);
  auto zombie = projection(1, [stops = true]() mutable {
    if (std::exchange(stops, false)) ::raise(SIGSTOP);
  });
  EXPECT_TRUE(eventually([&] {
    return backend.number("select count(*) from " + backend.table("event_subscriptions") +
                          " where held_parts = 1") == 1;
  }));
  auto heir = projection(1);
  EXPECT_TRUE(eventually([&] { return effect_count() == streams * count; }, seconds{60}));
  zombie.signal(SIGCONT);
  EXPECT_EQ(writer(count).wait(), 0);
  EXPECT_TRUE(eventually([&] { return effect_count() == 2 * streams * count; }, seconds{60}));
  for (auto* each : {&zombie, &heir}) {
    each->signal(SIGKILL);
    each->wait();
  }
  expect_each_once_in_order(2 * count);
}

}  // namespace
}  // namespace dovetail::testing
