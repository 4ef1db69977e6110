// A process that fires timers, starts jobs, continues joins and does the housekeeping, without
// handlers of its own.
#include <iostream>

#include "cli/group_file.hpp"
#include "cli/long_run.hpp"
#include "cli/tracing.hpp"

namespace dovetail::cli {
namespace {

void run_schedule(const Globals& globals, const LongRunArguments& arguments) {
  auto options = globals.service_options();
  arguments.set_polls(options.worker);
  LongRun run(globals);
  set_trace_sink(globals, options);
  auto platform = run.open(globals, std::move(options));
  platform.start();
  if (!arguments.quiet) {
    std::cerr << "dovetail: running timers, jobs and joins of " << platform.name() << " schema "
              << globals.schema << " until SIGINT or SIGTERM\n";
  }
  static_cast<void>(run.wait(std::nullopt));
  platform.stop();
}

void run_group_schedule(const Globals& globals, const LongRunArguments& arguments) {
  auto options = globals.group_service_options();
  arguments.set_polls(options);
  LongRun run(globals);
  set_trace_sink(globals, options.database);
  auto group = open_group(globals, std::move(options));
  group.start();
  if (!arguments.quiet) {
    std::cerr << "dovetail: running timers, jobs and joins of "
              << count_of_databases(group.keys().size()) << " of " << globals.group
              << " until SIGINT or SIGTERM\n";
  }
  static_cast<void>(run.wait(std::nullopt));
  group.stop();
}

}  // namespace

void add_schedule(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<LongRunArguments>();
  auto& command = add_command(app, globals, "schedule",
                              "Run timers, jobs and joins, and handle no other messages",
                              [&globals, arguments] {
                                globals.has_group() ? run_group_schedule(globals, *arguments)
                                                    : run_schedule(globals, *arguments);
                              });
  allow_group(command, globals);
  command.footer(
      "Fires due timers, starts due jobs, continues joins and does the housekeeping, until SIGINT "
      "or "
      "SIGTERM.\n"
      "Every started Platform and `dovetail work` do the same beside their handlers: this command "
      "is for a\n"
      "database whose workers do not, such as workers in other languages. Several of them may run "
      "at once.");
  arguments->add_to(command, "Seconds between two polls for due timers and jobs");
}

}  // namespace dovetail::cli
