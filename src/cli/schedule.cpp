// A process that fires timers, starts jobs, continues joins and does the housekeeping, without
// handlers of its own.
#include <iostream>

#include "cli/cli.hpp"
#include "cli/stop_signals.hpp"

namespace dovetail::cli {
namespace {

struct ScheduleArguments {
  double poll_seconds = 0.5;
  bool quiet = false;
};

constexpr SecondsRange schedule_poll_range{std::chrono::milliseconds{1}, std::chrono::hours{1}};

void run_schedule(const Globals& globals, const ScheduleArguments& arguments) {
  auto options = globals.options();
  options.worker.poll_interval =
      parse_seconds("--poll", arguments.poll_seconds, schedule_poll_range);
  options.worker.idle_poll_interval =
      std::max(options.worker.idle_poll_interval, options.worker.poll_interval);
  StopSignals signals;
  auto platform = open_unless_stopped(globals.database, std::move(options), signals);
  platform.start();
  if (!arguments.quiet) {
    std::cerr << "dovetail: running timers, jobs and joins of " << platform.name() << " schema "
              << globals.schema << " until SIGINT or SIGTERM\n";
  }
  static_cast<void>(signals.wait(std::nullopt));
  platform.stop();
}

}  // namespace

void add_schedule(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<ScheduleArguments>();
  auto& command = add_command(app, globals, "schedule",
                              "Run timers, jobs and joins, and handle no other messages",
                              [&globals, arguments] { run_schedule(globals, *arguments); });
  command.footer(
      "Fires due timers, starts due jobs, continues joins and does the housekeeping, until SIGINT "
      "or "
      "SIGTERM.\n"
      "Every started Platform and `dovetail work` do the same beside their handlers: this command "
      "is for a\n"
      "database whose workers do not, such as workers in other languages. Several of them may run "
      "at once.");
  command.add_option("--poll", arguments->poll_seconds, "Seconds between looks for what is due")
      ->capture_default_str();
  command.add_flag("-q,--quiet", arguments->quiet, "Do not say at the start what it does");
}

}  // namespace dovetail::cli
