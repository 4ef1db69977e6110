// A process that answers HTTP beside timers, jobs, joins and the housekeeping.
#include "dovetail/server.hpp"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <iostream>

#include "cli/group_file.hpp"
#include "cli/long_run.hpp"
#include "cli/service_manager.hpp"

namespace dovetail::cli {
namespace {

constexpr rlim_t wanted_files = 16'384;

struct ServerArguments {
  ServerOptions server;
  LongRunArguments long_run;
};

/// What must exist before the first thread.
struct ServerProcess {
  LongRun run;
  ServiceManager manager;
};

/// Connections need files. The limit of most systems is 1,024, and a process may raise it.
void allow_many_files() {
  struct rlimit files {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, wanted_files));
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

/// Returns when a signal asks us to end.
void wait_for_stop_signal(StopSignals& signals, const ServiceManager& manager) {
  while (true) {
    const auto signal = signals.wait(manager.watchdog_interval());
    manager.alive();
    if (signal == SIGHUP) {
      std::cerr << "dovetail: SIGHUP: there is no configuration file to read again\n";
    } else if (signal) {
      return;
    }
  }
}

/// `Target` is a Platform or a PlatformGroup.
template <class Target>
void serve(Target& target, ServerProcess& process, const ServerArguments& arguments,
           const std::string& databases) {
  Server server(target, arguments.server);
  if (!arguments.server.read_only) target.start();
  server.start();
  const auto status = "serving " + databases + " at " + server.url();
  if (!arguments.long_run.quiet)
    std::cerr << "dovetail: " << status << " until SIGINT or SIGTERM\n";
  process.manager.ready(status);
  wait_for_stop_signal(process.run.signals(), process.manager);
  process.manager.stopping();
  target.stop();  // meanwhile the server tells that this process is alive
  server.stop();
}

void run_server(const Globals& globals, ServerArguments& arguments) {
  allow_many_files();
  ServerProcess process;
  arguments.server.log_sink = globals.options().log_sink;
  if (globals.has_group()) {
    GroupOptions options{.database = globals.options()};
    options.database.read_only = arguments.server.read_only;
    arguments.long_run.set_polls(options);
    auto group = open_group(globals, std::move(options));
    serve(group, process, arguments,
          count_of_databases(group.keys().size()) + " of " + globals.group);
  } else {
    auto options = globals.options();
    options.read_only = arguments.server.read_only;
    arguments.long_run.set_polls(options.worker);
    auto platform = process.run.open(globals, std::move(options));
    serve(platform, process, arguments, platform.name() + " schema " + globals.schema);
  }
}

void add_address(CLI::App& command, ServerOptions& server) {
  command.add_option("--address", server.address, "The IP address to listen on")
      ->capture_default_str();
  command.add_option("--port", server.port, "The port to listen on; 0: a free one")
      ->capture_default_str();
  command
      .add_option("--base-path", server.base_path,
                  "The path under which a reverse proxy shows the server, such as /dovetail")
      ->type_name("PATH");
  command
      .add_option("--allowed-host", server.allowed_hosts,
                  "A name that the Host header may have, besides IP addresses and localhost; may "
                  "be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      .add_option("--tls-certificate", server.tls.certificate_file,
                  "The certificate and its chain, in PEM format: serves HTTPS")
      ->type_name("FILE");
  command.add_option("--tls-key", server.tls.key_file, "The key of the certificate, in PEM format")
      ->type_name("FILE");
  command.add_flag(
      "--read-only", server.read_only,
      "Open the database for reading only: refuse changes, and run no timers, jobs and joins");
}

}  // namespace

void add_server(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<ServerArguments>();
  auto& command = add_command(app, globals, "server",
                              "Answer HTTP: health, live events; and run timers, jobs and joins",
                              [&globals, arguments] { run_server(globals, *arguments); });
  allow_group(command, globals);
  command.footer(
      "Answers /health/live, /health/ready, /health and /api/v1/events, and does the work of\n"
      "`dovetail schedule`, until SIGINT or SIGTERM. It tells systemd when it is ready, and that "
      "it "
      "is\nalive (Type=notify, WatchdogSec=).");
  add_address(command, arguments->server);
  arguments->long_run.add_to(command, "Seconds between two polls for due timers and jobs");
}

}  // namespace dovetail::cli
