// Processes of the work coordinator that are killed: nothing is lost, and the order of each stream
// holds.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <map>
#include <random>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int stream_count = 12;
constexpr int messages_per_stream = 25;

class CoordinatorFault : public BackendTest {
 protected:
  CoordinatorFault() {
    Platform::migrate(backend.url(), options());
    const auto* number = backend.is_postgres() ? "bigserial primary key" : "integer primary key";
    backend.sql("create table " + effects() + " (n " + number + ", stream text, place integer)");
  }
  [[nodiscard]] PlatformOptions options() const {
    return {.schema = backend.schema(), .log_sink = null_log_sink()};
  }
  [[nodiscard]] std::string effects() const {
    return backend.is_postgres() ? backend.schema() + ".effects" : "effects";
  }
  [[nodiscard]] std::int64_t unfinished() const {
    return backend.number("select count(*) from " + backend.table("outbox_messages") +
                          " where status < 2");
  }

  /// Claims and processes until its process ends. Its lease is long: only the clean-up of stale
  /// instances gives its work to others in time.
  void work() const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto platform = Platform::open(backend.url(), options());
    Coordinator coordinator{platform.work(),
                            {.strategy = WorkStrategy::scoped,
                             .work = {.stale_after = seconds{1}, .help_after = milliseconds{200}},
                             .claim_outbox = WorkClaim{.batch_size = 20}}};
    const OrderedStreamProcessor processor{{.threads = 2}};
    for (;;) {
      const auto claimed = coordinator.flush_and_claim();
      if (claimed.work.empty()) ::usleep(5'000);
      processor.process(
          claimed.work,
          [&](const Work& each, WorkContext&) {
            auto transaction = platform.begin();
            transaction.execute("insert into " + effects() + " (stream, place) values ($1, $2)",
                                *each.message.stream, std::stoll(each.message.payload));
            transaction.commit();
          },
          coordinator);
    }
  }
  [[nodiscard]] ChildProcess worker() const {
    return ChildProcess([this] { work(); });
  }
  void store_all() const {
    auto platform = Platform::open(backend.url(), options());
    Coordinator coordinator{platform.work(), {.strategy = WorkStrategy::scoped}};
    for (int i = 1; i <= messages_per_stream; ++i) {
      for (int stream = 0; stream < stream_count; ++stream) {
        coordinator.queue_outbox_message(
            {.topic = "t", .payload = std::to_string(i), .stream = "s" + std::to_string(stream)});
      }
    }
    coordinator.flush();
  }

  /// Each stream has the effects 1, 2, 3 … in this order. Effects of a process that was killed
  /// before its report are repeated.
  void expect_all_in_order() const {
    std::map<std::string, std::int64_t> last;
    std::map<std::string, std::int64_t> highest;
    for (const auto& row : backend.sql("select stream, place from " + effects() + " order by n")) {
      const auto stream = row.get<std::string>(0);
      const auto place = row.get<std::int64_t>(1);
      EXPECT_LE(place, highest[stream] + 1) << stream << ": a message was left out";
      last[stream] = place;
      highest[stream] = std::max(highest[stream], place);
    }
    EXPECT_EQ(last.size(), static_cast<std::size_t>(stream_count));
    for (const auto& [stream, place] : last) EXPECT_EQ(place, messages_per_stream) << stream;
  }
};
DOVETAIL_CONTRACT(CoordinatorFault);

TEST_P(CoordinatorFault, WorkOfKilledInstancesIsTakenOverInOrder) {
  store_all();
  std::mt19937 random{20261118};
  auto survivor = worker();
  for (int kill = 0; kill < 4; ++kill) {
    auto victim = worker();
    ::usleep(static_cast<useconds_t>(100'000 + random() % 300'000));
    victim.signal(SIGKILL);
    victim.wait();
  }
  EXPECT_TRUE(eventually([&] { return unfinished() == 0; }, seconds{60}));
  survivor.signal(SIGKILL);
  survivor.wait();
  expect_all_in_order();
}

}  // namespace
}  // namespace dovetail::testing
