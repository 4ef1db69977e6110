// Leases on the command line.
#include <signal.h>

#include <fstream>
#include <thread>

#include "support/cli_test.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CliLeasesContract : public CliTest {
 protected:
  CliLeasesContract() {
    auto options = backend.options();
    options.clock = nullptr;
    platform.emplace(Platform::open(backend.url(), options));
  }
  /// `dovetail lock …`, whose own options stand before the command.
  CommandResult lock(const std::string& name, const Words& options, const Words& command) {
    return run_command(lock_words(name, options, command));
  }
  [[nodiscard]] Words lock_words(const std::string& name, const Words& options, const Words& command) const {
    Words words = call({"lock", name});
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  [[nodiscard]] ChildProcess lock_in_background(const std::string& name, const Words& options,
                                                const Words& command) const {
    return ChildProcess([words = lock_words(name, options, command)] {
      std::vector<char*> argv;
      for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    });
  }
  Leases& leases() { return platform->leases(); }
  std::optional<Platform> platform;
};
DOVETAIL_CONTRACT(CliLeasesContract);

TEST_P(CliLeasesContract, LeasesAreListedAndTakenAway) {
  EXPECT_EQ(dovetail({"leases", "list"}).out, "no leases are held\n");
  const auto lease = leases().try_acquire("report", "me", seconds{60});
  const auto slot = leases().try_acquire_slot("api", 3, "you", seconds{60});
  ASSERT_TRUE(lease && slot);
  EXPECT_THAT(dovetail({"leases", "list"}).out,
              AllOf(HasSubstr("report"), HasSubstr("me"), HasSubstr("api")));
  const auto json = ask({"leases", "list"});
  ASSERT_EQ(json["leases"].size(), 2U);
  EXPECT_EQ(json["leases"][1]["name"], "report");
  EXPECT_EQ(json["leases"][1]["token"], lease->token);
  EXPECT_EQ(dovetail({"leases", "release", "report"}).out, "released 1 of 1\n");
  EXPECT_EQ(dovetail({"leases", "release", "report"}).out, "released 0 of 1\n");
  EXPECT_EQ(ask({"leases", "release", "api", "--slot", "1"})["released"], 1);
  EXPECT_EQ(dovetail({"leases", "list"}).out, "no leases are held\n");
}

TEST_P(CliLeasesContract, ACommandRunsUnderItsLease) {
  const auto result = lock("job", {"--owner", "cron"},
                           {"sh", "-c", "echo $DOVETAIL_LEASE_NAME $DOVETAIL_LEASE_TOKEN; exit 7"});
  EXPECT_EQ(result.code, 7) << result.err;
  EXPECT_THAT(result.out, HasSubstr("job "));
  EXPECT_FALSE(leases().get("job")) << "it is given back";
  EXPECT_EQ(lock("job", {}, {"true"}).code, 0);
  EXPECT_EQ(lock("job", {}, {"sh", "-c", "kill -9 $$"}).code, 128 + SIGKILL);
  EXPECT_EQ(lock("job", {}, {"/no/such/program"}).code, 127);
  const auto nested = lock("a", {}, lock_words("b", {}, {"sh", "-c", "echo $DOVETAIL_LEASE_NAME"}));
  EXPECT_EQ(nested.out, "b\n") << nested.err;
  EXPECT_EQ(lock("", {}, {"true"}).code, 2);
  EXPECT_EQ(lock("job", {"--duration", "0"}, {"true"}).code, 2);
  EXPECT_EQ(dovetail({"lock", "job"}).code, 2);
}

TEST_P(CliLeasesContract, ALockedNameIsBusy) {
  const auto held = leases().try_acquire("job", "me", seconds{60});
  ASSERT_TRUE(held);
  const auto busy = lock("job", {}, {"true"});
  EXPECT_EQ(busy.code, 75);
  EXPECT_THAT(busy.err, HasSubstr("job is locked"));
  std::jthread later([&] {
    std::this_thread::sleep_for(milliseconds{300});
    leases().release(*held);
  });
  EXPECT_EQ(lock("job", {"--wait", "30"}, {"true"}).code, 0);
  EXPECT_EQ(lock("job", {"--limit", "2"}, {"true"}).code, 0);
}

TEST_P(CliLeasesContract, ACommandThatLosesItsLeaseIsStopped) {
  const auto marker = directory.path() / "running";
  auto locked = lock_in_background(
      "job", {"--duration", "1"},
      {"sh", "-c", "trap '' TERM; touch " + marker.string() + "; while :; do sleep 0.1; done"});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(marker); }));
  const auto held = leases().get("job");
  ASSERT_TRUE(held);
  EXPECT_TRUE(leases().release(*held));
  EXPECT_EQ(locked.wait(), 1);
}

TEST_P(CliLeasesContract, ASignalEndsTheCommand) {
  const auto marker = directory.path() / "running";
  auto locked = lock_in_background(
      "job", {},
      {"sh", "-c", "trap 'exit 9' TERM; touch " + marker.string() + "; while :; do sleep 0.05; done"});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(marker); }));
  locked.signal(SIGTERM);
  EXPECT_EQ(locked.wait(), 9);
  EXPECT_FALSE(leases().get("job"));
}

}  // namespace
}  // namespace dovetail::testing
