// A command under a lease: it runs only while this process holds the lease.
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <iostream>
#include <system_error>
#include <thread>

#include "cli/child.hpp"
#include "cli/long_run.hpp"
#include "dovetail/error.hpp"

namespace dovetail::cli {
namespace {

using LockClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int busy_code = 75;
constexpr int lost_code = 1;
constexpr int not_found_code = 127;
constexpr int not_runnable_code = 126;
constexpr milliseconds look_interval{20};
constexpr milliseconds retry_interval{200};
constexpr milliseconds stop_grace{1'000};  // from SIGTSTP to SIGSTOP
constexpr SecondsRange duration_range{milliseconds{1'000}, std::chrono::hours{24}};

struct LockArguments {
  std::string name;
  std::vector<std::string> command;
  std::string owner;
  double duration_seconds = 30;
  double wait_seconds = 0;
  int limit = 0;
};

[[noreturn]] void cannot_run(const LockArguments& arguments, int error) {
  const auto& program = arguments.command.front();
  std::cerr << "dovetail: cannot run " << program << ": ";
  if (error == ENOENT) {
    std::cerr << "command not found";
  } else {
    std::cerr << std::generic_category().message(error);
  }
  if (program.find(' ') != std::string::npos) {
    std::cerr << "; give the command and its arguments as separate words, or use sh -c 'COMMAND'";
  }
  if (error == ENOENT && program_exists(arguments.name)) {
    std::cerr << "; the lease's name stands before the command: dovetail lock NAME -- "
              << arguments.name << " " << program;
  }
  std::cerr << '\n';
  throw ExitCode{error == ENOENT ? not_found_code : not_runnable_code};
}

/// Waits for the lease until a signal arrives or the wait ends.
class LeaseWait {
 public:
  LeaseWait(LongRun& run, milliseconds wait)
      : run_(run), give_up_at_(LockClock::now() + wait), wait_(wait) {
    listener_ = std::jthread([this](const std::stop_token& done) { listen(done); });
  }

  /// Returns nullopt if others hold the lease. Throws ExitCode after a signal, and
  /// std::runtime_error if the database gave no answer during the whole wait.
  [[nodiscard]] std::optional<LeaseRunner> run(Leases& leases, const std::string& name,
                                               LeaseRunnerOptions options) {
    options.stop = give_up_.get_token();
    std::optional<LeaseRunner> runner;
    bool answered = false;
    try {
      for (;;) {
        runner = LeaseRunner::try_start(leases, name, options);
        answered = true;
        if (runner || LockClock::now() >= give_up_at_) break;
        if (!system_clock()->sleep_for(retry_interval, options.stop)) break;
      }
    } catch (const Error&) {
      if (!give_up_.stop_requested()) throw;
    }
    listener_.request_stop();
    listener_.join();
    if (signal_ != 0) throw ExitCode{exit_code_of_signal(signal_)};
    if (give_up_.stop_requested()) runner.reset();
    if (!answered) throw std::runtime_error(no_answer_within(wait_, run_.connect_error()));
    return runner;
  }

 private:
  /// Without --wait there is one attempt, and it has no time limit.
  void listen(const std::stop_token& done) {
    const auto limit = wait_.count() > 0 ? std::optional{wait_} : std::nullopt;
    if (const auto signal = run_.signals().wait_for_end(limit, done)) signal_ = *signal;
    if (!done.stop_requested()) give_up_.request_stop();
  }

  LongRun& run_;
  LockClock::time_point give_up_at_;
  milliseconds wait_;
  std::atomic<int> signal_ = 0;
  std::stop_source give_up_;
  std::jthread listener_;
};

/// Watches the command from its start to its end.
class LockWatch {
 public:
  LockWatch(StopSignals& signals, Child& child, const LeaseRunner& runner, milliseconds duration)
      : signals_(signals), child_(child), runner_(runner), duration_(duration) {}

  /// Returns the command's exit code.
  int run() {
    for (;;) {
      if (const auto code = child_.ended()) {
        if (!kill_at_ && !runner_.is_lost()) return *code;
        std::cerr << "dovetail: the lease " << runner_.lease().name << " was lost\n";
        return lost_code;
      }
      if (!kill_at_ && runner_.is_lost()) {
        child_.ask_to_end();
        kill_at_ = LockClock::now() + std::min<milliseconds>(duration_ / 20, milliseconds{500});
      }
      if (kill_at_ && LockClock::now() >= *kill_at_) child_.signal(SIGKILL);
      look_for_stop();
      if (const auto signal = signals_.wait(look_interval)) pass_on(*signal);
    }
  }

 private:
  void pass_on(int signal) {
    if (signal == SIGTSTP) {
      suspend_by_ = LockClock::now() + stop_grace;
      child_.signal(SIGTSTP);
    } else if (signal == SIGHUP) {
      child_.signal(SIGHUP);
      child_.signal(SIGCONT);
    } else {
      child_.ask_to_end();
    }
  }

  /// Ctrl-Z suspends the command and this process together. If another process has stopped the
  /// command, this process continues and renews the lease.
  void look_for_stop() {
    const auto stop = child_.stopped();
    const bool by_terminal = stop && *stop != SIGSTOP && Child::has_job_control();
    const bool overdue = suspend_by_ && LockClock::now() >= *suspend_by_;
    // The command ignores SIGTSTP, or a process that it has just forked was stopped before its
    // exec.
    if (overdue) child_.signal(SIGSTOP);
    if (by_terminal || overdue || (stop && suspend_by_)) suspend();
  }

  void suspend() {
    suspend_by_.reset();
    std::cerr << "dovetail: suspended; the lease " << runner_.lease().name
              << " is not renewed until the command is resumed\n";
    child_.suspend_with_us();
    if (runner_.is_lost()) {
      child_.signal(SIGKILL);  // a stopped command does nothing more before it dies
      kill_at_ = LockClock::now();
    } else {
      child_.resume();
    }
  }

  StopSignals& signals_;
  Child& child_;
  const LeaseRunner& runner_;
  milliseconds duration_;
  std::optional<LockClock::time_point> kill_at_;
  std::optional<LockClock::time_point> suspend_by_;  // set when SIGTSTP was forwarded
};

int run_under(const LeaseRunner& runner, const Guard& guard, StopSignals& signals,
              const LockArguments& arguments, milliseconds duration) {
  try {
    Child child(guard, arguments.command,
                {"DOVETAIL_LEASE_NAME=" + arguments.name,
                 "DOVETAIL_LEASE_TOKEN=" + std::to_string(runner.token())});
    return LockWatch(signals, child, runner, duration).run();
  } catch (const std::system_error& error) {
    cannot_run(arguments, error.code().value());
  }
}

void lock(const Globals& globals, const LockArguments& arguments) {
  const auto duration = parse_seconds("--duration", arguments.duration_seconds, duration_range);
  const auto wait = parse_seconds("--wait", arguments.wait_seconds, delay_range);
  if (!program_exists(arguments.command.front())) cannot_run(arguments, ENOENT);
  const Guard guard;
  LongRun run(true);
  const auto started = LockClock::now();
  auto platform =
      run.open(globals, globals.options(), wait.count() > 0 ? std::optional{wait} : std::nullopt);
  const auto left = wait - std::chrono::floor<milliseconds>(LockClock::now() - started);
  LeaseWait lease_wait(run, std::max(left, milliseconds{0}));
  const auto runner =
      lease_wait.run(platform.leases(), arguments.name,
                     {.owner = arguments.owner, .duration = duration, .limit = arguments.limit});
  if (!runner) {
    std::cerr << "dovetail: " << arguments.name << " is locked\n";
    throw ExitCode{busy_code};
  }
  const int code = run_under(*runner, guard, run.signals(), arguments, duration);
  if (code != 0) throw ExitCode{code};
}

constexpr const char* lock_footer =
    "The command finds the name and the fencing token of the lease in DOVETAIL_LEASE_NAME and\n"
    "DOVETAIL_LEASE_TOKEN. When the lease cannot be renewed, the command gets SIGTERM and then\n"
    "SIGKILL, before the lease expires. SIGINT and SIGTERM end the command; SIGHUP is passed on "
    "to\n"
    "it. Ctrl-Z suspends the command and the renewal of its lease. A command that is resumed "
    "after\n"
    "its lease has expired is killed. The command's process group ends with it.\n"
    "Exit code: the command's. 75: the name is locked. 1: the lease was lost, or the database "
    "gave\n"
    "no answer. 126 or 127: the command cannot be run. 128 + signal: a signal came before it ran.";

}  // namespace

void add_lock(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<LockArguments>();
  auto& command = add_command(app, globals, "lock",
                              "Run a command under a lease: dovetail lock NAME -- COMMAND…",
                              [&globals, arguments] { lock(globals, *arguments); });
  command.footer(lock_footer);
  command.add_option("NAME", arguments->name, "The lease's name: 1 to 255 characters")->required();
  command.add_option("COMMAND", arguments->command, "After --: the command and its arguments")
      ->required();
  command.add_option("--owner", arguments->owner,
                     "The holder's name; host and process id if absent");
  command
      .add_option("--duration", arguments->duration_seconds,
                  "Seconds until the lease of a dead holder expires")
      ->capture_default_str();
  command
      .add_option("--wait", arguments->wait_seconds,
                  "Seconds to wait for the database and the lease; 0: try to take the lease once")
      ->capture_default_str();
  command
      .add_option("--limit", arguments->limit,
                  "How many holders the name may have at the same time; 0: one")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
}

}  // namespace dovetail::cli
