// A process that answers HTTP beside timers, jobs, joins and the housekeeping.
#include "dovetail/server.hpp"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <iostream>

#include "cli/group_file.hpp"
#include "cli/long_run.hpp"

namespace dovetail::cli {
namespace {

constexpr rlim_t wanted_files = 16'384;

struct ServerArguments {
  ServerOptions server;
  LongRunArguments long_run;
};

/// Connections need files. The limit of most systems is 1,024, and a process may raise it.
void allow_many_files() {
  struct rlimit files {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, wanted_files));
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

/// `Target` is a Platform or a PlatformGroup.
template <class Target>
void serve(Target& target, LongRun& run, const ServerArguments& arguments,
           const std::string& databases) {
  Server server(target, arguments.server);
  target.start();
  server.start();
  if (!arguments.long_run.quiet) {
    std::cerr << "dovetail: serving " << databases << " at " << server.url()
              << " until SIGINT or SIGTERM\n";
  }
  while (run.signals().wait(std::nullopt) == SIGHUP) {
    std::cerr << "dovetail: SIGHUP: there is no configuration file to read again\n";
  }
  target.stop();  // meanwhile the server tells that this process is alive
  server.stop();
}

void run_server(const Globals& globals, ServerArguments& arguments) {
  allow_many_files();
  LongRun run;
  arguments.server.log_sink = globals.options().log_sink;
  if (globals.has_group()) {
    GroupOptions options{.database = globals.options()};
    arguments.long_run.set_polls(options);
    auto group = open_group(globals, std::move(options));
    serve(group, run, arguments, count_of_databases(group.keys().size()) + " of " + globals.group);
  } else {
    auto options = globals.options();
    arguments.long_run.set_polls(options.worker);
    auto platform = run.open(globals, std::move(options));
    serve(platform, run, arguments, platform.name() + " schema " + globals.schema);
  }
}

}  // namespace

void add_server(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<ServerArguments>();
  auto& command =
      add_command(app, globals, "server", "Answer HTTP: health; and run timers, jobs and joins",
                  [&globals, arguments] { run_server(globals, *arguments); });
  allow_group(command, globals);
  command.footer(
      "Answers /health/live, /health/ready and /health, and does the work of `dovetail schedule`,\n"
      "until SIGINT or SIGTERM.");
  command
      .add_option("--address", arguments->server.address,
                  "The IP address to listen on, of the loopback interface")
      ->capture_default_str();
  command.add_option("--port", arguments->server.port, "The port to listen on; 0: a free one")
      ->capture_default_str();
  arguments->long_run.add_to(command, "Seconds between two polls for due timers and jobs");
}

}  // namespace dovetail::cli
