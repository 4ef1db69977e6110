// A process that answers HTTP beside workers, timers, jobs, joins and the housekeeping.
#include "dovetail/server.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <iostream>

#include "cli/command_worker.hpp"
#include "cli/group_file.hpp"
#include "cli/service_manager.hpp"
#include "cli/tracing.hpp"
#include "config/transport_settings.hpp"

namespace dovetail::cli {
namespace {

constexpr rlim_t wanted_files = 16'384;

struct ServerArguments {
  CommandWorkerArguments worker;
  LongRunArguments long_run;

  [[nodiscard]] bool has_worker() const { return worker.command.has_value(); }
};

/// What must exist before the first thread.
struct ServerProcess {
  /// `drain`: the time that running commands of the worker get at the end.
  ServerProcess(const Globals& globals, const ServerArguments& arguments,
                std::chrono::milliseconds drain)
      : run(globals, true) {
    run.reloader()->report_to(Metrics{metrics});
    if (arguments.has_worker()) worker.emplace(arguments.worker, globals.has_group(), drain);
  }

  LongRun run;
  std::optional<CommandWorker> worker;
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
  if (process.worker) process.worker->register_handlers(target);
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
  // Meanwhile the server tells that this process is alive.
  process.worker ? process.worker->stop(target, process.run) : static_cast<void>(target.stop());
  server.stop();
}

void set_read_only(PlatformOptions& options, bool read_only) {
  options.read_only = read_only;
  options.deploy_schema = options.deploy_schema && !read_only;
}

void serve_group(const Globals& globals, const ServerArguments& arguments,
                 const ServerOptions& server) {
  auto options = globals.group_service_options();
  arguments.worker.apply_to(options.database.worker);
  ServerProcess process(globals, arguments, options.database.worker.drain);
  options.database.metrics = process.metrics;
  set_trace_sink(globals, options.database);
  set_read_only(options.database, server.read_only);
  arguments.long_run.set_polls(options.database.worker);
  arguments.long_run.set_polls(options);
  auto group = open_group(globals, std::move(options));
  serve(group, process, server, arguments.long_run.quiet,
        count_of_databases(group.keys().size()) + " of " + globals.group);
}

void serve_database(const Globals& globals, const ServerArguments& arguments,
                    const ServerOptions& server) {
  auto options = globals.service_options();
  arguments.worker.apply_to(options.worker);
  ServerProcess process(globals, arguments, options.worker.drain);
  options.metrics = process.metrics;
  set_trace_sink(globals, options);
  set_read_only(options, server.read_only);
  arguments.long_run.set_polls(options.worker);
  auto platform = process.run.open(globals, std::move(options));
  if (!server.read_only) config::add_transports(globals.loaded.settings.transports, platform);
  serve(platform, process, server, arguments.long_run.quiet,
        platform.name() + " schema " + globals.schema);
}

void run_server(const Globals& globals, const ServerArguments& arguments) {
  allow_many_files();
  auto server = globals.loaded.settings.server;
  server.log_sink = globals.log_sink;
  if (server.read_only && arguments.has_worker()) {
    throw std::invalid_argument(
        "--exec cannot be used with a read-only server: it changes messages");
  }
  globals.has_group() ? serve_group(globals, arguments, server)
                      : serve_database(globals, arguments, server);
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
  auto arguments = std::make_shared<ServerArguments>();
  auto& command =
      add_command(app, globals, "server",
                  "Answer HTTP: health, metrics, the API; and run timers, jobs, joins and workers",
                  [&globals, arguments] { run_server(globals, *arguments); });
  allow_group(command, globals);
  globals.server_command = &command;
  command.footer(
      "Answers /health/live, /health/ready, /health, /metrics and /api/v1/, and does the work of\n"
      "`dovetail schedule`, until SIGINT or SIGTERM. Tells systemd that it is ready and alive\n"
      "(Type=notify, WatchdogSec=). With --exec it does the work of `dovetail work`, too. It runs\n"
      "the routes and sources of the configuration file ([[publish]], [[consume]]).\n" +
      std::string{command_worker_help});
  add_address(command, globals);
  arguments->worker.add_to(command, false);
  arguments->long_run.add_to(command, "Seconds between two polls for messages, timers and jobs");
}

}  // namespace dovetail::cli
