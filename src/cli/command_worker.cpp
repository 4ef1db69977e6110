#include "cli/command_worker.hpp"

#include <unistd.h>

#include <cstdlib>
#include <map>

namespace dovetail::cli {
namespace {

using std::chrono::milliseconds;

constexpr int snooze_code = 75;     // EX_TEMPFAIL of sysexits.h
constexpr int permanent_code = 65;  // EX_DATAERR

constexpr SecondsRange worker_lease_range{milliseconds{100}, std::chrono::hours{24}};
constexpr SecondsRange drain_range{milliseconds{0}, std::chrono::hours{24}};

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
  const CommandWorker::Drain& drain;
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

void add_claiming(CLI::App& command, CommandWorkerArguments& arguments) {
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

void add_limits(CLI::App& command, CommandWorkerArguments& arguments) {
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
}

}  // namespace

const char* const command_worker_help =
    "The command gets the payload as its standard input, and in its environment DOVETAIL_TOPIC,\n"
    "DOVETAIL_MESSAGE_ID, DOVETAIL_CORRELATION_ID, DOVETAIL_ATTEMPT and a DOVETAIL_HEADER_<NAME>\n"
    "per header. Its exit code decides about the message:\n"
    "  0                  it is done\n"
    "  75 (EX_TEMPFAIL)   it is snoozed; no attempt is charged\n"
    "  65 (EX_DATAERR)    it fails for good: it is a dead letter at once\n"
    "  other, or a signal it is retried after a backoff\n";

void CommandWorkerArguments::add_to(CLI::App& app, bool required) {
  auto* exec = app.add_option("--exec", command, "Run by /bin/sh -c for each message");
  add_claiming(app, *this);
  add_limits(app, *this);
  exec->required(required);
  if (required) return;
  for (const auto* flag : {"--topic", "--threads", "--batch", "--lease", "--timeout", "--snooze",
                           "--max-attempts", "--drain"})
    app.get_option(flag)->needs(exec);
}

void CommandWorkerArguments::apply_to(WorkerOptions& options) const {
  options.threads = threads.value_or(options.threads);
  options.batch_size = batch_size.value_or(options.batch_size);
  if (lease_seconds) options.lease = parse_seconds("--lease", *lease_seconds, worker_lease_range);
  if (drain_seconds) options.drain = parse_seconds("--drain", *drain_seconds, drain_range);
}

CommandWorker::CommandWorker(const CommandWorkerArguments& arguments, bool in_group,
                             milliseconds drain)
    : arguments_(arguments),
      in_group_(in_group),
      patience_(drain),
      snooze_(parse_seconds("--snooze", arguments.snooze_seconds, delay_range)),
      options_{.max_attempts = arguments.max_attempts,
               .timeout = parse_seconds("--timeout", arguments.timeout_seconds, delay_range)},
      runner_(arguments.command.value_or("")) {
  if (!arguments.command || arguments.command->empty())
    throw std::invalid_argument("--exec must not be empty");
  warn_of_commas(arguments.topics);
}

HandlerFunction CommandWorker::handler() {
  return CommandHandler{runner_, drain_, snooze_, options_.timeout, in_group_};
}

void CommandWorker::end_at_signal(LongRun& run, const std::stop_token& done) {
  if (!run.wait(std::nullopt, done)) return;
  runner_.kill_all();
  std::_Exit(1);
}

bool CommandWorker::end_drain_in_time(const std::stop_token& done) {
  if (!system_clock()->sleep_for(patience_, done)) return false;
  const bool some = runner_.running() > 0;
  drain_.end();
  return some;
}

void CommandWorker::kill_the_rest() {
  runner_.kill_all();
  throw std::runtime_error(
      "commands were still running when the time to drain was over; they were told to stop, or "
      "killed");
}

}  // namespace dovetail::cli
