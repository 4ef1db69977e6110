// Contenders for one lease are killed and stopped at random. By the clock of the database the lease
// never has two holders, tokens increase, and no contender believes that it holds the lease of
// another.
//
// DOVETAIL_LEASE_ROUNDS is the number of grants. The default is small.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr milliseconds duration{250};

int wanted_grants() {
  const char* text = std::getenv("DOVETAIL_LEASE_ROUNDS");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? std::max(1, std::atoi(text)) : 20;
}

/// A report of a contender. It is in a pipe, which survives the contender. All processes of a
/// machine have the same monotonic clock.
struct Word {
  enum class Kind : std::int64_t { granted, holds } kind;
  std::int64_t token;
  std::int64_t at;  // by the monotonic clock. granted: after the answer; holds: just before the
                    // check
};

class LeaseFault : public BackendTest {
 protected:
  LeaseFault() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0); }
  ~LeaseFault() override {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void say(Word::Kind kind, std::int64_t token, Steady::time_point at) const {
    const Word word{kind, token, at.time_since_epoch().count()};
    while (::write(ends[1], &word, sizeof word) != sizeof word) ::usleep(100);
  }
  void listen() {
    Word word{};
    while (::read(ends[0], &word, sizeof word) == sizeof word) words.push_back(word);
  }
  [[noreturn]] void contend(unsigned seed) const {
    auto platform =
        Platform::open(backend.url(), {.schema = backend.schema(), .log_sink = null_log_sink()});
    std::mt19937 dice(seed);
    for (;;) {
      if (auto runner =
              LeaseRunner::try_start(platform.leases(), "crown", {.duration = duration})) {
        say(Word::Kind::granted, runner->token(), Steady::now());
        const auto until = Steady::now() + milliseconds{dice() % 400};
        while (Steady::now() < until) {
          const auto at = Steady::now();
          if (runner->is_lost()) break;
          say(Word::Kind::holds, runner->token(), at);
          ::usleep(2'000);
        }
      }
      ::usleep(10'000 + dice() % 20'000);
    }
  }
  std::size_t grants() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        words, [](const Word& word) { return word.kind == Word::Kind::granted; }));
  }
  /// Records every change of the lease, with the time of the database.
  void keep_history() {
    if (backend.is_postgres()) {
      backend.sql("create table " + backend.table("history") +
                  " (place bigint generated always as identity, token bigint, until_us bigint, "
                  "at_us bigint)");
      backend.sql(
          "create function " + backend.table("note") +
          "() returns trigger language plpgsql as $$ begin insert into " +
          backend.table("history") +
          " (token, until_us, at_us) values (coalesce(new.token, old.token), case when tg_op <> "
          "'DELETE' then (extract(epoch "
          "from new.lease_until) * 1000000)::bigint end, (extract(epoch from clock_timestamp()) * "
          "1000000)::bigint); "
          "return null; end $$");
      backend.sql("create trigger note after insert or update or delete on " +
                  backend.table("lease") + " for each row execute function " +
                  backend.table("note") + "()");
      return;
    }
    backend.sql("create table " + backend.table("history") +
                " (place integer primary key, token integer, until_us integer, at_us integer)");
    for (const std::string event : {"insert", "update", "delete"}) {
      const auto until = event == "delete" ? std::string{"null"} : std::string{"new.lease_until"};
      const auto token = event == "delete" ? std::string{"old.token"} : std::string{"new.token"};
      backend.sql("create trigger note_" + event + " after " + event + " on " +
                  backend.table("lease") + " begin insert into " + backend.table("history") +
                  " (token, until_us, at_us) values (" + token + ", " + until +
                  ", cast((julianday('now') - 2440587.5) * 86400000000 as integer)); end");
    }
  }

  int ends[2] = {-1, -1};
  std::vector<Word> words;
};
DOVETAIL_CONTRACT(LeaseFault);

TEST_P(LeaseFault, KilledAndStoppedContendersNeverShareALease) {
  Platform::migrate(backend.url(), {.schema = backend.schema(), .log_sink = null_log_sink()});
  keep_history();
  const auto wanted = static_cast<std::size_t>(wanted_grants());
  std::mt19937 random{20261116};
  std::vector<ChildProcess> contenders;
  const auto start = [&] {
    return ChildProcess([&, seed = static_cast<unsigned>(random())] { contend(seed); });
  };
  contenders.reserve(6);
  for (int i = 0; i < 6; ++i) contenders.push_back(start());
  std::vector<std::pair<std::size_t, Steady::time_point>> stopped;
  const auto give_up_at = Steady::now() + std::chrono::seconds{60} + duration * 4 * wanted;
  while (grants() < wanted && Steady::now() < give_up_at) {
    ::usleep(40'000);
    listen();
    std::erase_if(stopped, [&](const auto& each) {
      if (Steady::now() < each.second) return false;
      contenders[each.first].signal(SIGCONT);
      return true;
    });
    const auto victim = random() % contenders.size();
    if (std::ranges::any_of(stopped, [&](const auto& each) { return each.first == victim; }))
      continue;
    if (random() % 4 == 0) {
      contenders[victim].signal(SIGSTOP);
      stopped.emplace_back(victim, Steady::now() + milliseconds{random() % 700});
    } else if (random() % 4 == 0) {
      contenders[victim].signal(SIGKILL);
      contenders[victim].wait();
      std::vector<ChildProcess> others;
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        others.push_back(i == victim ? start() : std::move(contenders[i]));
      }
      contenders = std::move(others);
    }
  }
  for (const auto& contender : contenders) contender.signal(SIGKILL);
  contenders.clear();
  listen();
  EXPECT_GE(grants(), wanted) << "the lease got stuck";

  // In the database, each grant follows the release or the expiry of the previous one.
  std::int64_t token = 0;
  std::optional<std::int64_t> until;
  for (const auto& row : backend.sql("select token, coalesce(until_us, 0), at_us from " +
                                     backend.table("history") + " order by place")) {
    const auto row_token = row.get<std::int64_t>(0);
    const auto row_until = row.get<std::int64_t>(1);
    const auto at = row.get<std::int64_t>(2);
    if (row_token != token) {
      EXPECT_GT(row_token, token) << "tokens must grow";
      EXPECT_GE(at + 2'000, until.value_or(0)) << "granted before the one before had ended";
      token = row_token;
    }
    until = row_until == 0 ? std::nullopt : std::optional{row_until};
  }
  EXPECT_GT(token, 0);

  // No contender believes that it holds the lease after another contender has acquired it.
  std::map<std::int64_t, std::int64_t> granted_at;
  for (const auto& word : words) {
    if (word.kind == Word::Kind::granted) granted_at[word.token] = word.at;
  }
  for (const auto& word : words) {
    if (word.kind != Word::Kind::holds) continue;
    const auto next = granted_at.upper_bound(word.token);
    if (next == granted_at.end()) continue;
    EXPECT_LT(word.at, next->second) << "two believe to hold it";
  }
}

TEST_P(LeaseFault, AKilledLeaderIsFollowedWithinItsLeaseAndOneRenewal) {
  const LeaseRunnerOptions options{.duration = milliseconds{2'000}};
  Platform::migrate(backend.url(), {.schema = backend.schema(), .log_sink = null_log_sink()});
  const auto candidate = [&] {
    return ChildProcess([&] {
      auto mine =
          Platform::open(backend.url(), {.schema = backend.schema(), .log_sink = null_log_sink()});
      run_while_leader(
          mine.leases(), "leader",
          [](LeaseRunner&) {
            for (;;) ::pause();
          },
          options);
    });
  };
  auto first = candidate();
  auto platform =
      Platform::open(backend.url(), {.schema = backend.schema(), .log_sink = null_log_sink()});
  ASSERT_TRUE(eventually([&] { return platform.leases().find("leader").has_value(); }));
  const auto token = platform.leases().find("leader")->token;
  std::optional<Lease> next;
  std::jthread second([&] {
    auto mine =
        Platform::open(backend.url(), {.schema = backend.schema(), .log_sink = null_log_sink()});
    run_while_leader(
        mine.leases(), "leader", [&](LeaseRunner& runner) { next = runner.lease(); }, options);
  });
  first.signal(SIGKILL);
  first.wait();
  const auto left_behind = platform.leases().find("leader");
  ASSERT_TRUE(left_behind) << "a killed leader gives nothing back: its lease runs out";
  second.join();
  ASSERT_TRUE(next);
  EXPECT_GT(next->token, token);
  EXPECT_LE(next->acquired_at - left_behind->renewed_at, options.duration * 16 / 10);
}

}  // namespace
}  // namespace dovetail::testing
