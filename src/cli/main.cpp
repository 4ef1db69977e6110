// The dovetail command. Exit codes: 0 done; 1 the database or its schema refused it, no named thing
// was changed, or commands were left running; 2 the call was wrong; 128 + signal when a signal
// ended it before its work began. `lock` ends with the exit code of its command.
#include <iostream>

#include "cli/cli.hpp"
#include "cli/mistakes.hpp"

namespace {

int complain(const std::string& text, int code) {
  std::cerr << "dovetail: " << text << '\n';
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace dovetail;
  CLI::App app{"Reliable background work with the database you already have", "dovetail"};
  app.set_version_flag("--version", std::string{version()});
  app.require_subcommand(1);
  cli::Globals globals;
  cli::add_global_options(app, globals);
  cli::add_migrate(app, globals);
  cli::add_grants(app, globals);
  cli::add_enqueue(app, globals);
  cli::add_claim(app, globals);
  cli::add_settlements(app, globals);
  cli::add_reap(app, globals);
  cli::add_work(app, globals);
  cli::add_schedule(app, globals);
  cli::add_status(app, globals);
  cli::add_instances(app, globals);
  cli::add_dead_letters(app, globals);
  cli::add_inbox(app, globals);
  cli::add_joins(app, globals);
  cli::add_timers(app, globals);
  cli::add_jobs(app, globals);
  cli::add_cron(app, globals);
  cli::add_leases(app, globals);
  cli::add_lock(app, globals);
  cli::add_topics(app, globals);
  cli::add_bench(app, globals);
  if (argc < 2) {
    std::cerr << app.help();
    return 2;
  }
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.front() == "help") {  // as other commands have it: `dovetail help status`
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (const auto answer = cli::unknown_command(app, words)) return complain(*answer, 2);
  try {
    // CLI11 takes the words from the back.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return 0;
  } catch (const cli::ExitCode& exit) {
    return exit.code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    return complain(cli::refusal(app, error), 2);
  } catch (const SchemaMismatch& error) {
    return complain(error.what(), 1);
  } catch (const std::logic_error& error) {
    return complain(error.what(), 2);
  } catch (const std::exception& error) {
    return complain(error.what(), 1);
  }
}
