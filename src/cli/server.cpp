// A process that answers HTTP beside timers, jobs, joins and the housekeeping.
#include "dovetail/server.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <iostream>

#include "cli/group_file.hpp"
#include "cli/long_run.hpp"
#include "cli/service_manager.hpp"

namespace dovetail::cli {
namespace {

constexpr rlim_t wanted_files = 16'384;

/// What must exist before the first thread.
struct ServerProcess {
  explicit ServerProcess(const Globals& globals) : run(globals, true) {
    run.reloader()->report_to(Metrics{metrics});
  }

  LongRun run;
  ServiceManager manager;
  std::shared_ptr<MetricsRegistry> metrics = std::make_shared<MetricsRegistry>();
};

/// Connections need files. The limit of most systems is 1,024, and a process may raise it.
void allow_many_files() {
  struct rlimit files {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, wanted_files));
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

/// Returns when a signal asks us to end. Tells the watchdog that this process is alive as long as
/// it is.
void wait_for_stop_signal(ServerProcess& process, HealthService& health) {
  while (!process.run.wait(process.manager.watchdog_interval())) {
    if (health.live().status != HealthStatus::unhealthy) process.manager.alive();
  }
}

/// `Target` is a Platform or a PlatformGroup.
template <class Target>
void serve(Target& target, ServerProcess& process, const ServerOptions& options, bool quiet,
           const std::string& databases) {
  Server server(target, options);
  if (!options.read_only) target.start();
  server.start();
  const auto status = "serving " + databases + " at " + server.url();
  if (!quiet) std::cerr << "dovetail: " << status << " until SIGINT or SIGTERM\n";
  process.run.reloader()->on_reload(
      [&server](const config::Settings& settings) { server.reload(settings.server); });
  process.manager.ready(status);
  wait_for_stop_signal(process, target.health());
  process.manager.stopping();
  target.stop();  // meanwhile the server tells that this process is alive
  server.stop();
}

void set_read_only(PlatformOptions& options, bool read_only) {
  options.read_only = read_only;
  options.deploy_schema = options.deploy_schema && !read_only;
}

void run_server(const Globals& globals, const LongRunArguments& arguments) {
  allow_many_files();
  ServerProcess process(globals);
  auto server = globals.loaded.settings.server;
  server.log_sink = globals.log_sink;
  if (globals.has_group()) {
    auto options = globals.group_service_options();
    options.database.metrics = process.metrics;
    set_read_only(options.database, server.read_only);
    arguments.set_polls(options);
    auto group = open_group(globals, std::move(options));
    serve(group, process, server, arguments.quiet,
          count_of_databases(group.keys().size()) + " of " + globals.group);
  } else {
    auto options = globals.service_options();
    options.metrics = process.metrics;
    set_read_only(options, server.read_only);
    arguments.set_polls(options.worker);
    auto platform = process.run.open(globals, std::move(options));
    serve(platform, process, server, arguments.quiet,
          platform.name() + " schema " + globals.schema);
  }
}

void add_address(CLI::App& command, Globals& globals) {
  const auto add = [&](const char* flag, const char* name, const char* description) {
    add_setting(command, globals, flag, name, description);
  };
  add("--address", "server.address", "The IP address to listen on");
  add("--port", "server.port", "The port to listen on; 0: a free one");
  add("--base-path", "server.base_path",
      "The path under which a reverse proxy shows the server, such as /dovetail");
  add("--allowed-host", "server.allowed_hosts",
      "A name that the Host header may have, besides IP addresses and localhost; may be repeated");
  add("--tls-certificate", "server.tls_certificate",
      "The certificate and its chain, in PEM format: serves HTTPS");
  add("--tls-key", "server.tls_key", "The key of the certificate, in PEM format");
  add("--read-only", "server.read_only",
      "Open the database for reading only: refuse changes, and run no timers, jobs and joins");
}

}  // namespace

void add_server(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<LongRunArguments>();
  auto& command = add_command(app, globals, "server",
                              "Answer HTTP: health, the API; and run timers, jobs and joins",
                              [&globals, arguments] { run_server(globals, *arguments); });
  allow_group(command, globals);
  command.footer(
      "Answers /health/live, /health/ready, /health and /api/v1/, and does the work of `dovetail\n"
      "schedule`, until SIGINT or SIGTERM. Tells systemd that it is ready and alive (Type=notify,\n"
      "WatchdogSec=).");
  add_address(command, globals);
  arguments->add_to(command, "Seconds between two polls for due timers and jobs");
}

}  // namespace dovetail::cli
