// A worker without a line of C++: a shell command is the handler.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <thread>

#include "cli/cli.hpp"
#include "cli/command_runner.hpp"
#include "cli/stop_signals.hpp"

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
constexpr SecondsRange poll_range{milliseconds{1}, std::chrono::hours{1}};
constexpr SecondsRange drain_range{milliseconds{0}, std::chrono::hours{24}};

struct WorkArguments {
  std::string command;
  std::vector<std::string> topics;
  int threads = 0;
  int batch_size = 50;
  double lease_seconds = 30;
  double poll_seconds = 0.5;
  double timeout_seconds = 600;
  double snooze_seconds = 60;
  double drain_seconds = 30;
  std::optional<int> max_attempts;
  bool once = false;
  bool quiet = false;
};

/// The end of a worker: commands that run go on until the drain is over.
class Drain {
 public:
  /// Before the platform is stopped. Its stop tokens end no command from then on.
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

std::map<std::string, std::string> variables_of(const Message& message) {
  std::map<std::string, std::string> variables{
      {"DOVETAIL_TOPIC", message.topic},
      {"DOVETAIL_MESSAGE_ID", message.message_id.to_string()},
      {"DOVETAIL_CORRELATION_ID", message.correlation_id.value_or("")},
      {"DOVETAIL_ATTEMPT", std::to_string(message.attempts + 1)}};
  for (const auto& [name, value] : message.headers) variables.emplace(variable_name(name), value);
  return variables;
}

/// Ours, with the message's variables, and with none of another message's.
std::vector<std::string> environment_of(const Message& message) {
  const auto variables = variables_of(message);
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

  void operator()(const Message& message, HandlerContext& context) const {
    std::stop_source stop;
    const std::stop_callback on_stop(context.stop_token(), [&] {
      if (!drain.has_begun()) stop.request_stop();
    });
    const std::stop_callback on_end_of_drain(drain.over(), [&] { stop.request_stop(); });
    const auto end = runner.run(
        {.text = message.payload, .environment = environment_of(message), .timeout = timeout},
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

void register_handlers(Platform& platform, const std::vector<std::string>& topics,
                       const HandlerFunction& handler, const HandlerOptions& options) {
  if (topics.empty()) {
    platform.on_any(handler, options);
    return;
  }
  for (const auto& topic : std::set<std::string>(topics.begin(), topics.end())) {
    platform.on(topic, handler, options);
  }
}

// --- the worker

WorkerOptions worker_options(const WorkArguments& arguments) {
  WorkerOptions options{
      .threads = arguments.threads,
      .batch_size = arguments.batch_size,
      .lease = parse_seconds("--lease", arguments.lease_seconds, worker_lease_range),
      .poll_interval = parse_seconds("--poll", arguments.poll_seconds, poll_range),
      .drain = parse_seconds("--drain", arguments.drain_seconds, drain_range)};
  options.idle_poll_interval = std::max(options.idle_poll_interval, options.poll_interval);
  return options;
}

bool is_idle(Outbox& outbox, CommandRunner& runner, const std::vector<std::string>& topics) {
  if (runner.running() > 0) return false;
  if (!topics.empty()) return !outbox.has_work(topics);
  const auto counts = outbox.counts();
  return counts.ready == 0 && counts.in_progress == 0;
}

/// Returns when a signal asks us to end, or with `once` when nothing is left to do.
void wait_for_end(StopSignals& signals, Outbox& outbox, CommandRunner& runner,
                  const WorkArguments& arguments) {
  if (!arguments.once) {
    static_cast<void>(signals.wait(std::nullopt));
    return;
  }
  while (!signals.wait(idle_check_interval) && !is_idle(outbox, runner, arguments.topics)) {
  }
}

void stop(Platform& platform, StopSignals& signals, CommandRunner& runner, Drain& drain,
          milliseconds patience) {
  drain.begin();
  const std::jthread impatient([&](const std::stop_token& done) {
    if (!signals.wait(std::nullopt, done)) return;
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
    ended = platform.stop(patience + settle_time);
  }
  if (ended && !too_late) return;
  runner.kill_all();
  throw std::runtime_error(
      "commands were still running when the time to drain was over; they were told to stop, or "
      "killed");
}

void say_what_it_does(const Globals& globals, const WorkArguments& arguments,
                      const Platform& platform) {
  std::string topics;
  for (const auto& topic : arguments.topics) topics += (topics.empty() ? "" : ", ") + topic;
  std::cerr << "dovetail: working on " << platform.name() << " schema " << globals.schema << ", "
            << (topics.empty() ? "all topics" : "topics " + topics) << ", "
            << (arguments.threads == 0 ? "a thread per core"
                                       : std::to_string(arguments.threads) + " threads")
            << ", batches of " << arguments.batch_size
            << ", command: " << shortened(arguments.command, shown_command_characters) << '\n';
}

void work(const Globals& globals, const WorkArguments& arguments) {
  if (arguments.command.empty()) throw std::invalid_argument("--exec must not be empty");
  auto options = globals.options();
  options.worker = worker_options(arguments);
  const auto patience = options.worker.drain;
  const auto snooze = parse_seconds("--snooze", arguments.snooze_seconds, delay_range);
  const HandlerOptions handler_options{
      .max_attempts = arguments.max_attempts,
      .timeout = parse_seconds("--timeout", arguments.timeout_seconds, delay_range)};
  StopSignals signals;
  ::signal(SIGPIPE, SIG_IGN);
  CommandRunner runner(arguments.command);
  Drain drain;
  auto platform = open_unless_stopped(globals.database, std::move(options), signals);
  register_handlers(platform, arguments.topics,
                    CommandHandler{runner, drain, snooze, handler_options.timeout},
                    handler_options);
  if (!arguments.quiet) say_what_it_does(globals, arguments, platform);
  platform.start();
  wait_for_end(signals, platform.outbox(), runner, arguments);
  stop(platform, signals, runner, drain, patience);
}

}  // namespace

void add_work(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<WorkArguments>();
  auto& command =
      add_command(app, globals, "work", "Run a shell command for every message, as a worker",
                  [&globals, arguments] { work(globals, *arguments); });
  command.footer(
      "The command gets the payload as its standard input, and in its environment DOVETAIL_TOPIC,\n"
      "DOVETAIL_MESSAGE_ID, DOVETAIL_CORRELATION_ID, DOVETAIL_ATTEMPT and a DOVETAIL_HEADER_<NAME> "
      "per "
      "header.\n"
      "Exit code 0: the message is done. 75 (EX_TEMPFAIL): it is snoozed, and no attempt is "
      "charged. 65 "
      "(EX_DATAERR):\n"
      "it fails for good, and is a dead letter at once. Any other, or a signal: it is retried "
      "after a "
      "backoff.\n"
      "After SIGINT, SIGTERM or SIGHUP it starts no further command, and lets those that run "
      "finish.");
  command.add_option("--exec", arguments->command, "Run by /bin/sh -c for each message")
      ->required();
  command
      .add_option("--topic", arguments->topics,
                  "Only messages of this topic; may be repeated. Others are left alone")
      ->allow_extra_args(false)
      ->check(topic_rule());
  command
      .add_option("--threads", arguments->threads,
                  "Commands at the same time; 0: one per core, four at least")
      ->check(CLI::Range(0, 1'000))
      ->capture_default_str();
  command.add_option("--batch", arguments->batch_size, "Messages claimed at once, at most")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command
      .add_option("--lease", arguments->lease_seconds,
                  "Seconds a claim holds without a sign of life")
      ->capture_default_str();
  command.add_option("--poll", arguments->poll_seconds, "Seconds between looks for messages")
      ->capture_default_str();
  command
      .add_option("--timeout", arguments->timeout_seconds,
                  "Seconds a command may take, then SIGTERM, 5 seconds later SIGKILL; 0: no limit")
      ->capture_default_str();
  command
      .add_option("--snooze", arguments->snooze_seconds,
                  "Seconds until the next try after exit code 75")
      ->capture_default_str();
  command
      .add_option("--max-attempts", arguments->max_attempts,
                  "Failed tries that make a dead letter; 10 if absent")
      ->check(CLI::Range(1, 1'000));
  command
      .add_option("--drain", arguments->drain_seconds,
                  "Seconds that running commands may go on after SIGINT or SIGTERM, then SIGTERM, "
                  "5 seconds later "
                  "SIGKILL; a second signal kills them at once")
      ->capture_default_str();
  command.add_flag(
      "--once", arguments->once,
      "End when nothing is ready or in progress any more; what is scheduled does not count");
  command.add_flag("-q,--quiet", arguments->quiet, "Do not say at the start what it does");
}

}  // namespace dovetail::cli
