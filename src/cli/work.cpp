// A worker whose handler is a shell command.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <thread>

#include "cli/command_runner.hpp"
#include "cli/group_file.hpp"
#include "cli/long_run.hpp"

namespace dovetail::cli {
namespace {

using std::chrono::milliseconds;

constexpr int snooze_code = 75;     // EX_TEMPFAIL of sysexits.h
constexpr int permanent_code = 65;  // EX_DATAERR
/// After the drain: the time of CommandRunner between SIGTERM and SIGKILL, and time to settle.
constexpr milliseconds settle_time{CommandRunner::grace + std::chrono::seconds{5}};
constexpr std::size_t shown_command_characters = 200;
constexpr milliseconds idle_check_interval{100};

constexpr SecondsRange worker_lease_range{milliseconds{100}, std::chrono::hours{24}};
constexpr SecondsRange drain_range{milliseconds{0}, std::chrono::hours{24}};

struct WorkArguments {
  std::string command;
  std::vector<std::string> topics;
  // Absent: see [worker] of the configuration.
  std::optional<int> threads;
  std::optional<int> batch_size;
  std::optional<double> lease_seconds;
  std::optional<double> drain_seconds;
  double timeout_seconds = 600;
  double snooze_seconds = 60;
  std::optional<int> max_attempts;
  bool once = false;
  LongRunArguments long_run;
};

/// The end of a worker: running commands continue until the drain is over.
class Drain {
 public:
  /// Call it before the platform is stopped. From then on its stop tokens end no command.
  void begin() { begun_ = true; }
  [[nodiscard]] bool has_begun() const { return begun_; }
  void end() { over_.request_stop(); }
  [[nodiscard]] std::stop_token over() const { return over_.get_token(); }

 private:
  std::atomic<bool> begun_ = false;
  std::stop_source over_;
};

// --- the command's environment

/// Upper-cased; every character that cannot be part of a variable's name becomes an underscore.
std::string variable_name(const std::string& header) {
  std::string name = "DOVETAIL_HEADER_";
  for (const char c : header) {
    if ((c & 0xC0) == 0x80) continue;  // not the first byte of its character
    if (c >= 'a' && c <= 'z') {
      name += static_cast<char>(c - 'a' + 'A');
    } else {
      name += (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
    }
  }
  return name;
}

/// `key` is the database's key in its group; empty without a group.
std::map<std::string, std::string> variables_of(const Message& message, const std::string& key) {
  std::map<std::string, std::string> variables{
      {"DOVETAIL_TOPIC", message.topic},
      {"DOVETAIL_MESSAGE_ID", message.message_id.to_string()},
      {"DOVETAIL_CORRELATION_ID", message.correlation_id.value_or("")},
      {"DOVETAIL_ATTEMPT", std::to_string(message.attempts + 1)}};
  if (!key.empty()) variables.emplace("DOVETAIL_DATABASE_KEY", key);
  for (const auto& [name, value] : message.headers) variables.emplace(variable_name(name), value);
  return variables;
}

/// Our environment with the variables of the message, without header variables of other messages.
std::vector<std::string> environment_of(const Message& message, const std::string& key) {
  const auto variables = variables_of(message, key);
  std::vector<std::string> environment;
  for (auto** each = ::environ; *each != nullptr; ++each) {
    const std::string_view text{*each};
    const std::string name{text.substr(0, text.find('='))};
    if (!variables.contains(name) && !name.starts_with("DOVETAIL_HEADER_"))
      environment.emplace_back(text);
  }
  for (const auto& [name, value] : variables)
    environment.emplace_back(name).append("=").append(value);
  return environment;
}

// --- the handler

std::string described_end(const CommandEnd& end) {
  std::string text = end.told_to_stop ? "told to stop: " : "";
  text += end.exit_code ? "exit code " + std::to_string(*end.exit_code)
                        : "killed by signal " + std::to_string(end.signal);
  const auto last = end.last_words.find_last_not_of(" \n");
  if (last != std::string::npos) text += ": " + end.last_words.substr(0, last + 1);
  return text;
}

struct CommandHandler {
  CommandRunner& runner;
  const Drain& drain;
  milliseconds snooze;
  milliseconds timeout;
  bool in_group;

  void operator()(const Message& message, HandlerContext& context) const {
    std::stop_source stop;
    const std::stop_callback on_stop(context.stop_token(), [&] {
      if (!drain.has_begun()) stop.request_stop();
    });
    const std::stop_callback on_end_of_drain(drain.over(), [&] { stop.request_stop(); });
    const auto key = in_group ? context.database() : std::string{};
    const auto end = runner.run(
        {.text = message.payload, .environment = environment_of(message, key), .timeout = timeout},
        stop.get_token());
    if (end.exit_code == snooze_code) {
      context.snooze(snooze);
    } else if (end.exit_code == permanent_code) {
      throw PermanentFailure(described_end(end));
    } else if (end.exit_code != 0) {
      throw std::runtime_error(described_end(end));
    }
  }
};

/// `Target` is a Platform or a PlatformGroup, here and below.
template <class Target>
void register_handlers(Target& target, const std::vector<std::string>& topics,
                       const HandlerFunction& handler, const HandlerOptions& options) {
  if (topics.empty()) {
    target.on_any(handler, options);
    return;
  }
  for (const auto& topic : std::set<std::string>(topics.begin(), topics.end())) {
    target.on(topic, handler, options);
  }
}

// --- the worker

/// The options of the configuration, with those of the flags.
void set_worker_options(WorkerOptions& options, const WorkArguments& arguments) {
  options.threads = arguments.threads.value_or(options.threads);
  options.batch_size = arguments.batch_size.value_or(options.batch_size);
  if (arguments.lease_seconds)
    options.lease = parse_seconds("--lease", *arguments.lease_seconds, worker_lease_range);
  if (arguments.drain_seconds)
    options.drain = parse_seconds("--drain", *arguments.drain_seconds, drain_range);
  arguments.long_run.set_polls(options);
}

bool has_work(Outbox& outbox, const std::vector<std::string>& topics) {
  if (!topics.empty()) return outbox.has_work(topics);
  const auto counts = outbox.counts();
  return counts.ready > 0 || counts.in_progress > 0;
}

/// Returns when a signal asks us to end, or with `once` when no work is left.
void wait_for_end(LongRun& run, bool once, const std::function<bool()>& is_idle) {
  if (!once) {
    static_cast<void>(run.wait(std::nullopt));
    return;
  }
  while (!run.wait(idle_check_interval) && !is_idle()) {
  }
}

template <class Target>
void stop(Target& target, LongRun& run, CommandRunner& runner, Drain& drain,
          milliseconds patience) {
  drain.begin();
  const std::jthread impatient([&](const std::stop_token& done) {
    if (!run.wait(std::nullopt, done)) return;
    runner.kill_all();
    std::_Exit(1);
  });
  bool too_late = false;
  bool ended = false;
  {
    const std::jthread timer([&](const std::stop_token& done) {
      if (!system_clock()->sleep_for(patience, done)) return;
      too_late = runner.running() > 0;
      drain.end();
    });
    ended = target.stop(patience + settle_time);
  }
  if (ended && !too_late) return;
  runner.kill_all();
  throw std::runtime_error(
      "commands were still running when the time to drain was over; they were told to stop, or "
      "killed");
}

void say_what_it_does(const std::string& databases, const Globals& globals,
                      const WorkArguments& arguments, const WorkerOptions& options) {
  std::string topics;
  for (const auto& topic : arguments.topics) topics += (topics.empty() ? "" : ", ") + topic;
  std::cerr << "dovetail: working on " << databases << " schema " << globals.schema << ", "
            << (topics.empty() ? "all topics" : "topics " + topics) << ", "
            << (options.threads == 0 ? "a thread per core"
                                     : std::to_string(options.threads) + " threads")
            << ", batches of " << options.batch_size
            << ", command: " << shortened(arguments.command, shown_command_characters) << '\n';
}

/// The shared part of a worker on one database and on a group. The arguments are checked before its
/// construction.
class CommandWorker {
 public:
  CommandWorker(const Globals& globals, const WorkArguments& arguments,
                const WorkerOptions& options)
      : globals_(globals),
        arguments_(arguments),
        options_(options),
        snooze_(parse_seconds("--snooze", arguments.snooze_seconds, delay_range)),
        handler_{.max_attempts = arguments.max_attempts,
                 .timeout = parse_seconds("--timeout", arguments.timeout_seconds, delay_range)},
        run_(globals),
        runner_(arguments.command) {}

  template <class Target>
  void work(Target& target, const std::string& databases, const std::function<bool()>& has_work) {
    const CommandHandler handler{runner_, drain_, snooze_, handler_.timeout, globals_.has_group()};
    register_handlers(target, arguments_.topics, handler, handler_);
    if (!arguments_.long_run.quiet) say_what_it_does(databases, globals_, arguments_, options_);
    target.start();
    wait_for_end(run_, arguments_.once, [&] { return runner_.running() == 0 && !has_work(); });
    stop(target, run_, runner_, drain_, options_.drain);
  }

  [[nodiscard]] LongRun& run() { return run_; }

 private:
  const Globals& globals_;
  const WorkArguments& arguments_;
  const WorkerOptions options_;
  const milliseconds snooze_;
  const HandlerOptions handler_;
  LongRun run_;
  CommandRunner runner_;
  Drain drain_;
};

void work_on_database(const Globals& globals, const WorkArguments& arguments) {
  auto options = globals.service_options();
  set_worker_options(options.worker, arguments);
  CommandWorker worker(globals, arguments, options.worker);
  auto platform = worker.run().open(globals, std::move(options));
  worker.work(platform, platform.name(),
              [&] { return has_work(platform.outbox(), arguments.topics); });
}

// --- a group

/// For --once: the databases that were left out, with the reasons.
using LeftOut = std::map<std::string, std::string>;

/// Puts databases that fail into `left_out`, and counts them as idle.
bool group_has_work(PlatformGroup& group, const std::vector<std::string>& topics,
                    LeftOut& left_out) {
  left_out.clear();
  for (const auto& each : group.status().databases) {
    if (each.state == GroupDatabaseState::closed) return true;  // its work is not known yet
    if (each.state == GroupDatabaseState::failing) {
      left_out.emplace(each.key, each.last_error);
      continue;
    }
    try {
      const auto platform = group.find(each.key);
      if (platform && has_work(platform->outbox(), topics)) return true;
    } catch (const std::exception& error) {
      left_out.emplace(each.key, error.what());
    }
  }
  return false;
}

void complain_of(const LeftOut& left_out, const std::vector<std::string>& bad_entries) {
  for (const auto& [key, error] : left_out)
    std::cerr << "dovetail: " << key << " FAILED: " << error << '\n';
  for (const auto& entry : bad_entries) std::cerr << "dovetail: " << entry << '\n';
  if (!left_out.empty() || !bad_entries.empty()) throw ExitCode{1};
}

void work_on_group(const Globals& globals, const WorkArguments& arguments) {
  auto options = globals.group_service_options();
  set_worker_options(options.database.worker, arguments);
  arguments.long_run.set_polls(options);
  CommandWorker worker(globals, arguments, options.database.worker);
  auto group = open_group(globals, std::move(options));
  LeftOut left_out;
  worker.work(group, count_of_databases(group.keys().size()) + " of " + globals.group,
              [&] { return group_has_work(group, arguments.topics, left_out); });
  if (arguments.once) complain_of(left_out, group.status().bad_entries);
}

void work(const Globals& globals, const WorkArguments& arguments) {
  if (arguments.command.empty()) throw std::invalid_argument("--exec must not be empty");
  warn_of_commas(arguments.topics);
  globals.has_group() ? work_on_group(globals, arguments) : work_on_database(globals, arguments);
}

// --- the options

constexpr const char* work_footer =
    "The command gets the payload as its standard input, and in its environment DOVETAIL_TOPIC,\n"
    "DOVETAIL_MESSAGE_ID, DOVETAIL_CORRELATION_ID, DOVETAIL_ATTEMPT and a DOVETAIL_HEADER_<NAME>\n"
    "per header. Its exit code decides about the message:\n"
    "  0                  it is done\n"
    "  75 (EX_TEMPFAIL)   it is snoozed; no attempt is charged\n"
    "  65 (EX_DATAERR)    it fails for good: it is a dead letter at once\n"
    "  other, or a signal it is retried after a backoff\n"
    "After SIGINT or SIGTERM the worker starts no further command and lets the running ones\n"
    "finish. SIGHUP does the same, unless there is a configuration file: then the worker reads it\n"
    "again.\n"
    "With --group, the command also gets DOVETAIL_DATABASE_KEY, the key of the message's "
    "database.\n"
    "The worker reads the file again when it changes.";

void add_claiming(CLI::App& command, WorkArguments& arguments) {
  command
      .add_option("--topic", arguments.topics,
                  "Only messages of this topic; may be repeated. Other messages are not touched")
      ->allow_extra_args(false)
      ->check(topic_rule());
  command
      .add_option("--threads", arguments.threads,
                  "Commands at the same time; 0: one per core, at least four")
      ->check(CLI::Range(0, 1'000))
      ->default_str("0");
  command.add_option("--batch", arguments.batch_size, "Messages claimed at once, at most")
      ->check(CLI::Range(1, 10'000))
      ->default_str("50");
  command
      .add_option("--lease", arguments.lease_seconds,
                  "Seconds until the lease of a dead worker expires")
      ->default_str("30");
}

void add_limits(CLI::App& command, WorkArguments& arguments) {
  command
      .add_option("--timeout", arguments.timeout_seconds,
                  "Seconds a command may take, then SIGTERM, 5 seconds later SIGKILL; 0: no limit")
      ->capture_default_str();
  command
      .add_option("--snooze", arguments.snooze_seconds,
                  "Seconds until the retry after exit code 75")
      ->capture_default_str();
  command
      .add_option("--max-attempts", arguments.max_attempts,
                  "A message is a dead letter after this many failed attempts; 10 if absent")
      ->check(CLI::Range(1, 1'000));
  command
      .add_option("--drain", arguments.drain_seconds,
                  "Seconds that running commands may take after SIGINT or SIGTERM, then SIGTERM, "
                  "5 seconds later SIGKILL; a second signal kills them at once")
      ->default_str("30");
  command.add_flag("--once", arguments.once,
                   "End when no message is ready or in progress; scheduled messages do not count");
}

}  // namespace

void add_work(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<WorkArguments>();
  auto& command =
      add_command(app, globals, "work", "Run a shell command for every message, as a worker",
                  [&globals, arguments] { work(globals, *arguments); });
  allow_group(command, globals);
  command.footer(work_footer);
  command.add_option("--exec", arguments->command, "Run by /bin/sh -c for each message")
      ->required();
  add_claiming(command, *arguments);
  add_limits(command, *arguments);
  arguments->long_run.add_to(command, "Seconds between two polls for messages");
}

}  // namespace dovetail::cli
