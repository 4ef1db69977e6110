// Leases on the command line.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "support/cli_test.hpp"
#include "support/eventually.hpp"

namespace dovetail::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

[[noreturn]] void exec(const Words& words) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

/// The state letter of ps: T is stopped, Z is a zombie, - means that the process does not exist.
char process_state(int pid) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/stat"};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  const auto name_end = text.rfind(')');
  return name_end == std::string::npos ? '-' : text[name_end + 2];
}

class CliLeasesContract : public CliTest {
 protected:
  CliLeasesContract() {
    auto options = backend.options();
    options.clock = nullptr;
    platform.emplace(Platform::open(backend.url(), options));
  }
  /// Runs `dovetail lock …`. Its own options precede the command.
  CommandResult lock(const std::string& name, const Words& options, const Words& command) {
    return run_command(lock_words(name, options, command));
  }
  [[nodiscard]] Words lock_words(const std::string& name, const Words& options,
                                 const Words& command) const {
    Words words = call({"lock", name});
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  [[nodiscard]] ChildProcess lock_in_background(const std::string& name, const Words& options,
                                                const Words& command) const {
    return ChildProcess([words = lock_words(name, options, command)] { exec(words); });
  }
  Leases& leases() { return platform->leases(); }

  /// A command for a lock in the background: it writes its process ids, and steps until `finish()`.
  [[nodiscard]] Words steps(const std::string& before = ":") const {
    return {"sh", "-c",
            before + "; echo $PPID $$ > " + path("new") + "; mv " + path("new") + " " +
                path("pids") + "; while [ ! -e " + path("finish") + " ]; do echo step >> " +
                path("steps") + "; sleep 0.02; done"};
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (directory.path() / name).string();
  }
  struct Pids {
    int lock = 0;
    int command = 0;
  };
  [[nodiscard]] Pids pids() const {
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(path("pids")); }));
    Pids pids;
    std::ifstream{path("pids")} >> pids.lock >> pids.command;
    return pids;
  }
  void finish() const { std::ofstream{path("finish")} << "now"; }
  [[nodiscard]] std::uintmax_t steps_made() const {
    std::error_code none;
    const auto size = std::filesystem::file_size(path("steps"), none);
    return none ? 0 : size;
  }
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
  const auto again = dovetail({"leases", "release", "report"});
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(again.out, "released 0 of 1\n");
  EXPECT_THAT(again.err, HasSubstr("nobody holds report"));
  EXPECT_EQ(ask({"leases", "release", "api", "--slot", "1"})["released"], 1);
  EXPECT_EQ(dovetail({"leases", "list"}).out, "no leases are held\n");
}

TEST_P(CliLeasesContract, ACommandRunsUnderItsLease) {
  const auto result = lock("job", {"--owner", "cron"},
                           {"sh", "-c", "echo $DOVETAIL_LEASE_NAME $DOVETAIL_LEASE_TOKEN; exit 7"});
  EXPECT_EQ(result.code, 7) << result.err;
  EXPECT_THAT(result.out, HasSubstr("job "));
  EXPECT_FALSE(leases().find("job")) << "it is given back";
  EXPECT_EQ(lock("job", {}, {"true"}).code, 0);
  EXPECT_EQ(lock("job", {}, {"sh", "-c", "kill -9 $$"}).code, 128 + SIGKILL);
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
  const auto held = leases().find("job");
  ASSERT_TRUE(held);
  EXPECT_TRUE(leases().release(*held));
  EXPECT_EQ(locked.wait(), 1);
}

TEST_P(CliLeasesContract, ASignalEndsTheCommand) {
  const auto marker = directory.path() / "running";
  auto locked = lock_in_background(
      "job", {},
      {"sh", "-c",
       "trap 'exit 9' TERM; touch " + marker.string() + "; while :; do sleep 0.05; done"});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(marker); }));
  locked.signal(SIGTERM);
  EXPECT_EQ(locked.wait(), 9);
  EXPECT_FALSE(leases().find("job"));
}

TEST_P(CliLeasesContract, ACommandThatCannotBeRunLeavesNoLease) {
  const auto missing = lock("job", {}, {"nosuchcmd"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_EQ(missing.err, "dovetail: cannot run nosuchcmd: command not found\n");
  EXPECT_EQ(lock("job", {}, {"/no/such/program"}).code, 127);
  const auto quoted = lock("job", {}, {"echo hello"});
  EXPECT_EQ(quoted.code, 127);
  EXPECT_THAT(quoted.err, HasSubstr("as separate words"));
  std::ofstream{path("text")} << "no program";
  const auto text = lock("job", {}, {path("text")});
  EXPECT_EQ(text.code, 126);
  EXPECT_THAT(text.err, HasSubstr("cannot run " + path("text")));
  EXPECT_FALSE(leases().find("job"));
}

TEST_P(CliLeasesContract, AHangupIsPassedOn) {
  auto locked = lock_in_background("job", {}, steps("trap 'exit 7' HUP"));
  static_cast<void>(pids());
  locked.signal(SIGHUP);
  EXPECT_EQ(locked.wait(), 7);
  EXPECT_FALSE(leases().find("job"));
}

TEST_P(CliLeasesContract, ASuspendedLockSuspendsItsCommandAndBothAreResumed) {
  auto locked = lock_in_background("job", {}, steps());
  const auto [lock, command] = pids();
  locked.signal(SIGTSTP);
  ASSERT_TRUE(eventually([&, lock = lock] { return process_state(lock) == 'T'; }));
  // A shell that waits in vfork() has the state D until its stopped child calls exec().
  EXPECT_THAT(process_state(command), AnyOf('T', 'D'))
      << "the command does not run without the lock";
  EXPECT_TRUE(leases().find("job"));
  const auto made = steps_made();
  locked.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return steps_made() > made; }));
  finish();
  EXPECT_EQ(locked.wait(), 0);
  EXPECT_FALSE(leases().find("job"));
}

TEST_P(CliLeasesContract, ACommandThatIgnoresTheSuspensionIsStoppedAllTheSame) {
  auto locked = lock_in_background("job", {}, steps("trap '' TSTP"));
  const auto [lock, command] = pids();
  locked.signal(SIGTSTP);
  ASSERT_TRUE(eventually([&, lock = lock] { return process_state(lock) == 'T'; }));
  ASSERT_TRUE(eventually([&, command = command] {
    const auto state = process_state(command);
    return state == 'T' || state == 'D';
  }));
  finish();
  locked.signal(SIGCONT);
  EXPECT_EQ(locked.wait(), 0);
}

TEST_P(CliLeasesContract, ACommandWhoseLeaseEndedWhileItWasSuspendedMakesNoFurtherStep) {
  auto locked = lock_in_background("job", {"--duration", "1"}, steps("trap '' TERM"));
  const auto [lock, command] = pids();
  ASSERT_TRUE(eventually([&] { return steps_made() > 0; }));
  locked.signal(SIGTSTP);
  ASSERT_TRUE(eventually([&, lock = lock] { return process_state(lock) == 'T'; }));
  ASSERT_TRUE(eventually([&] { return !leases().find("job"); }))
      << "others follow a suspended holder";
  const auto made = steps_made();
  locked.signal(SIGCONT);
  EXPECT_EQ(locked.wait(), 1);
  EXPECT_EQ(steps_made(), made);
}

TEST_P(CliLeasesContract, NothingOfACommandOutlivesAKilledLock) {
  auto locked = lock_in_background("job", {}, steps("sleep 600 & echo $! > " + path("grandchild")));
  const auto [lock, command] = pids();
  int grandchild = 0;
  std::ifstream{path("grandchild")} >> grandchild;
  ASSERT_GT(grandchild, 0);
  locked.signal(SIGKILL);
  locked.wait();
  for (const auto pid : {command, grandchild}) {
    EXPECT_TRUE(eventually([&] {
      const auto state = process_state(pid);
      return state == '-' || state == 'Z' || state == 'X';
    })) << pid;
  }
}

// --- a server that does not answer

/// Accepts connections and sends nothing.
class MuteServer {
 public:
  MuteServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 100), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = "postgresql://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/orders";
  }
  ~MuteServer() {
    for (const int each : accepted_) ::close(each);
    ::close(socket_);
  }
  MuteServer(const MuteServer&) = delete;
  MuteServer& operator=(const MuteServer&) = delete;
  [[nodiscard]] const std::string& url() const { return url_; }
  /// Returns when a client has connected.
  void accept() { accepted_.push_back(::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  int socket_;
  std::vector<int> accepted_;
  std::string url_;
};

TEST(CliSignals, EndACommandThatStillConnects) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    for (const auto& words : std::vector<Words>{
             {"lock", "job", "--", "true"}, {"work", "--exec", "true"}, {"schedule"}}) {
      MuteServer server;
      Words call{command_path, "--database", server.url()};
      call.insert(call.end(), words.begin(), words.end());
      ChildProcess command([&] { exec(call); });
      server.accept();
      command.signal(signal);
      EXPECT_EQ(command.wait(), 128 + signal) << words[0];
    }
  }
}

TEST(CliSignals, TheWaitOfALockIsALimitForConnectingToo) {
  MuteServer server;
  const auto result =
      run_command({command_path, "lock", "job", "--wait", "0.2", "-d", server.url(), "--", "true"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("gave no answer within 0.2 seconds"));
}

TEST(CliSignals, ALockThatCannotConnectNamesTheReasonLast) {
  const auto result = run_command({command_path, "lock", "job", "--wait", "0.3", "-d",
                                   "postgresql://x@127.0.0.1:1/x", "--", "true"});
  EXPECT_EQ(result.code, 1);
  const auto last = result.err.substr(result.err.rfind("dovetail: "));
  EXPECT_THAT(last, HasSubstr("Connection refused"));
}

}  // namespace
}  // namespace dovetail::testing
