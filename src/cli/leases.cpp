#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "cli/cli.hpp"
#include "cli/message_json.hpp"
#include "cli/stop_signals.hpp"

namespace dovetail::cli {
namespace {

using nlohmann::ordered_json;
using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int busy_code = 75;
constexpr int lost_code = 1;
constexpr int interrupted_code = 130;
constexpr milliseconds look_interval{20};
constexpr milliseconds retry_interval{200};
constexpr int page_size = 1'000;
constexpr SecondsRange duration_range{milliseconds{1'000}, std::chrono::hours{24}};

// --- list and release

std::vector<Lease> all_leases(Leases& leases) {
  std::vector<Lease> all;
  for (;;) {
    LeasePage page{.size = page_size};
    if (!all.empty()) {
      page.after_name = all.back().name;
      page.after_slot = all.back().slot;
    }
    const auto some = leases.list(page);
    all.insert(all.end(), some.begin(), some.end());
    if (some.size() < static_cast<std::size_t>(page_size)) return all;
  }
}

void list_leases(const Globals& globals) {
  auto platform = globals.open();
  const auto leases = all_leases(platform.leases());
  if (globals.json) {
    ordered_json answer{{"leases", ordered_json::array()}};
    for (const auto& lease : leases) answer["leases"].push_back(to_json(lease));
    std::cout << answer.dump(2) << '\n';
    return;
  }
  if (leases.empty()) {
    std::cout << "no leases are held\n";
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(leases.size());
  for (const auto& lease : leases) {
    rows.push_back({lease.name, lease.slot == 0 ? "-" : std::to_string(lease.slot), lease.owner,
                    std::to_string(lease.token), to_string(lease.expires_at), to_string(lease.acquired_at)});
  }
  print_table({"NAME", "SLOT", "OWNER", "TOKEN", "EXPIRES AT", "ACQUIRED AT"}, rows);
}

/// Takes it away from whoever holds it: the holder finds out with its next renewal.
void release(const Globals& globals, const std::string& name, int slot) {
  auto platform = globals.open();
  std::size_t count = 0;
  for (const auto& lease : all_leases(platform.leases())) {
    if (lease.name == name && lease.slot == slot && platform.leases().release(lease)) ++count;
  }
  print_effect(globals, {.word = "released", .count = count, .asked = 1});
}

// --- lock

struct LockArguments {
  std::string name;
  std::vector<std::string> command;
  std::string owner;
  double duration_seconds = 30;
  double wait_seconds = 0;
  int limit = 0;
};

/// A program in a process group of its own, with our input and outputs. It does not outlive us.
class Child {
 public:
  Child(std::vector<std::string> command, std::vector<std::string> more_environment) {
    std::vector<char*> environment;
    for (char** each = environ; *each != nullptr; ++each) {
      if (!std::string_view{*each}.starts_with("DOVETAIL_LEASE_")) environment.push_back(*each);
    }
    for (auto& each : more_environment) environment.push_back(each.data());
    environment.push_back(nullptr);
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (auto& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "cannot run " + command.front());
    if (pid_ == 0) become(parent, words.data(), environment.data());
    ::setpgid(pid_, pid_);
    if (::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp()) {
      ::signal(SIGTTOU, SIG_IGN);
      has_terminal_ = ::tcsetpgrp(STDIN_FILENO, pid_) == 0;  // the terminal is the command's now
      signal(SIGCONT);                                       // it may have wanted it before
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      signal(SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (has_terminal_) ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
  }

  void signal(int number) const { ::kill(-pid_, number); }
  /// Also when it is stopped.
  void ask_to_end() const {
    signal(SIGTERM);
    signal(SIGCONT);
  }

  /// As a shell tells it, when it has ended.
  std::optional<int> ended() {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != pid_) {
      return std::nullopt;
    }
    signal(SIGKILL);  // what it left behind in its group does not hold the lock either
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  /// In the child: nothing here may allocate.
  [[noreturn]] static void become(pid_t parent, char** words, char** environment) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(lost_code);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    ::execvpe(words[0], words, environment);
    ::_exit(errno == ENOENT ? 127 : 126);
  }

  pid_t pid_ = -1;
  bool has_terminal_ = false;
};

/// Nothing when it is held by others, for as long as we wait.
std::optional<LeaseRunner> wait_for_lease(StopSignals& signals, Leases& leases,
                                          const LockArguments& arguments, LeaseRunnerOptions options) {
  const auto give_up_at = Steady::now() + parse_seconds("--wait", arguments.wait_seconds, delay_range);
  std::stop_source interrupted;
  options.stop = interrupted.get_token();
  std::optional<LeaseRunner> runner;
  {
    const std::jthread listener([&](const std::stop_token& done) {
      if (signals.wait(std::nullopt, done)) interrupted.request_stop();
    });
    do {
      runner = LeaseRunner::try_start(leases, arguments.name, options);
      if (!runner && Steady::now() < give_up_at)
        system_clock()->sleep_for(retry_interval, interrupted.get_token());
    } while (!runner && Steady::now() < give_up_at && !interrupted.stop_requested());
  }
  if (interrupted.stop_requested()) throw ExitCode{interrupted_code};
  return runner;
}

/// Answers the command's exit code.
int watch(StopSignals& signals, Child& child, const LeaseRunner& runner, milliseconds duration) {
  std::optional<Steady::time_point> kill_at;
  for (;;) {
    if (const auto code = child.ended()) {
      if (!kill_at && !runner.is_lost()) return *code;
      std::cerr << "dovetail: the lease " << runner.lease().name << " was lost\n";
      return lost_code;
    }
    if (!kill_at && runner.is_lost()) {
      child.ask_to_end();
      kill_at = Steady::now() + std::min<milliseconds>(duration / 20, milliseconds{500});
    }
    if (kill_at && Steady::now() >= *kill_at) child.signal(SIGKILL);
    if (signals.wait(look_interval)) child.ask_to_end();
  }
}

void lock(const Globals& globals, const LockArguments& arguments) {
  const auto duration = parse_seconds("--duration", arguments.duration_seconds, duration_range);
  StopSignals signals;
  ::signal(SIGPIPE, SIG_IGN);
  auto platform = globals.open();
  const LeaseRunnerOptions options{.owner = arguments.owner, .duration = duration, .limit = arguments.limit};
  const auto runner = wait_for_lease(signals, platform.leases(), arguments, options);
  if (!runner) {
    std::cerr << "dovetail: " << arguments.name << " is locked\n";
    throw ExitCode{busy_code};
  }
  int code = 0;
  {
    Child child(arguments.command, {"DOVETAIL_LEASE_NAME=" + arguments.name,
                                    "DOVETAIL_LEASE_TOKEN=" + std::to_string(runner->token())});
    code = watch(signals, child, *runner, duration);
  }
  if (code != 0) throw ExitCode{code};
}

}  // namespace

void add_leases(CLI::App& app, Globals& globals) {
  auto& group = add_group(app, globals, "leases", "Who holds what: see, take away");
  auto& listing =
      add_command(group, globals, "list", "All leases that are held", [&globals] { list_leases(globals); });
  listing.add_flag("--json", globals.json, "Answer in JSON");

  auto name = std::make_shared<std::string>();
  auto slot = std::make_shared<int>(0);
  auto& releasing = add_command(group, globals, "release", "Take a lease away from its holder",
                                [&globals, name, slot] { release(globals, *name, *slot); });
  releasing.add_option("NAME", *name, "The lease's name")->required();
  releasing.add_option("--slot", *slot, "Which of its slots; 0: the lease itself")->capture_default_str();
  releasing.add_flag("--json", globals.json, "Answer in JSON");

  auto arguments = std::make_shared<LockArguments>();
  auto& locking =
      add_command(app, globals, "lock", "Run a command under a lease: dovetail lock NAME -- COMMAND…",
                  [&globals, arguments] { lock(globals, *arguments); });
  locking.footer(
      "The command finds its name and fencing token in DOVETAIL_LEASE_NAME and DOVETAIL_LEASE_TOKEN. When "
      "the\n"
      "lease cannot be kept, the command gets SIGTERM and then SIGKILL, before the lease ends.\n"
      "Exit code: the command's; 75 when the name is locked, 1 when the lease was lost.");
  locking.add_option("NAME", arguments->name, "1 to 255 characters")->required();
  locking.add_option("COMMAND", arguments->command, "After --: the command and its arguments")->required();
  locking.add_option("--owner", arguments->owner, "Who is said to hold it; this host and process if absent");
  locking.add_option("--duration", arguments->duration_seconds, "Seconds until others follow a dead holder")
      ->capture_default_str();
  locking.add_option("--wait", arguments->wait_seconds, "Seconds to wait for the lease")
      ->capture_default_str();
  locking.add_option("--limit", arguments->limit, "Run as one of so many at the same time; 0: alone")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
}

}  // namespace dovetail::cli
