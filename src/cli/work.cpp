// A worker whose handler is a shell command.
#include <functional>
#include <iostream>
#include <map>

#include "cli/command_worker.hpp"
#include "cli/group_file.hpp"
#include "cli/tracing.hpp"

namespace dovetail::cli {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t shown_command_characters = 200;
constexpr milliseconds idle_check_interval{100};

struct WorkArguments {
  CommandWorkerArguments worker;
  bool once = false;
  LongRunArguments long_run;
};

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

void say_what_it_does(const std::string& databases, const Globals& globals,
                      const WorkArguments& arguments, const WorkerOptions& options) {
  if (arguments.long_run.quiet) return;
  std::string topics;
  for (const auto& topic : arguments.worker.topics) topics += (topics.empty() ? "" : ", ") + topic;
  std::cerr << "dovetail: working on " << databases << " schema " << globals.schema << ", "
            << (topics.empty() ? "all topics" : "topics " + topics) << ", "
            << (options.threads == 0 ? "a thread per core"
                                     : std::to_string(options.threads) + " threads")
            << ", batches of " << options.batch_size << ", command: "
            << shortened(arguments.worker.command.value_or(""), shown_command_characters) << '\n';
}

/// `Target` is a Platform or a PlatformGroup.
template <class Target>
void work(Target& target, CommandWorker& worker, LongRun& run, bool once,
          const std::function<bool()>& has_work) {
  worker.register_handlers(target);
  target.start();
  wait_for_end(run, once, [&] { return worker.running() == 0 && !has_work(); });
  worker.stop(target, run);
}

void work_on_database(const Globals& globals, const WorkArguments& arguments) {
  auto options = globals.service_options();
  arguments.worker.apply_to(options.worker);
  arguments.long_run.set_polls(options.worker);
  CommandWorker worker(arguments.worker, false, options.worker.drain);
  LongRun run(globals);
  set_trace_sink(globals, options);
  const auto used = options.worker;
  auto platform = run.open(globals, std::move(options));
  say_what_it_does(platform.name(), globals, arguments, used);
  work(platform, worker, run, arguments.once,
       [&] { return has_work(platform.outbox(), arguments.worker.topics); });
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
  arguments.worker.apply_to(options.database.worker);
  arguments.long_run.set_polls(options.database.worker);
  arguments.long_run.set_polls(options);
  CommandWorker worker(arguments.worker, true, options.database.worker.drain);
  LongRun run(globals);
  set_trace_sink(globals, options.database);
  const auto used = options.database.worker;
  auto group = open_group(globals, std::move(options));
  say_what_it_does(count_of_databases(group.keys().size()) + " of " + globals.group, globals,
                   arguments, used);
  LeftOut left_out;
  work(group, worker, run, arguments.once,
       [&] { return group_has_work(group, arguments.worker.topics, left_out); });
  if (arguments.once) complain_of(left_out, group.status().bad_entries);
}

constexpr const char* work_footer =
    "After SIGINT or SIGTERM the worker starts no further command and lets the running ones\n"
    "finish. SIGHUP does the same, unless there is a configuration file: then the worker reads it\n"
    "again.\n"
    "With --group, the command also gets DOVETAIL_DATABASE_KEY, the key of the message's "
    "database.\n"
    "The worker reads the file again when it changes.";

}  // namespace

void add_work(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<WorkArguments>();
  auto& command =
      add_command(app, globals, "work", "Run a shell command for every message, as a worker",
                  [&globals, arguments] {
                    globals.has_group() ? work_on_group(globals, *arguments)
                                        : work_on_database(globals, *arguments);
                  });
  allow_group(command, globals);
  command.footer(std::string{command_worker_help} + work_footer);
  arguments->worker.add_to(command, true);
  command.add_flag("--once", arguments->once,
                   "End when no message is ready or in progress; scheduled messages do not count");
  arguments->long_run.add_to(command, "Seconds between two polls for messages");
}

}  // namespace dovetail::cli
