// The dovetail command. Exit codes: 0 done, 1 the database or its schema said no, or work was left
// running, 2 the call was wrong; `lock` ends with its command's.
#include <iostream>

#include "cli/cli.hpp"

int main(int argc, char** argv) {
  using namespace dovetail;
  CLI::App app{"Reliable background work with the database you already have", "dovetail"};
  app.set_version_flag("--version", std::string{version()});
  app.require_subcommand(1);
  cli::Globals globals;
  cli::add_migrate(app, globals);
  cli::add_grants(app, globals);
  cli::add_enqueue(app, globals);
  cli::add_claim(app, globals);
  cli::add_settlements(app, globals);
  cli::add_reap(app, globals);
  cli::add_work(app, globals);
  cli::add_status(app, globals);
  cli::add_dead_letters(app, globals);
  cli::add_inbox(app, globals);
  cli::add_joins(app, globals);
  cli::add_timers(app, globals);
  cli::add_jobs(app, globals);
  cli::add_cron(app, globals);
  cli::add_leases(app, globals);
  cli::add_topics(app, globals);
  cli::add_bench(app, globals);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const cli::ExitCode& exit) {
    return exit.code;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const SchemaMismatch& error) {
    std::cerr << "dovetail: " << error.what() << '\n';
    return 1;
  } catch (const std::logic_error& error) {
    std::cerr << "dovetail: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "dovetail: " << error.what() << '\n';
    return 1;
  }
}
