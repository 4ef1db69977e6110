// The dovetail command. Exit codes: 0 success; 1 the database or its schema refused the command,
// none of the named things was changed, or commands were left running; 2 the call was wrong; 128 +
// signal if a signal ended it before its work began. `lock` ends with the exit code of its command.
#include <iostream>

#include "cli/cli.hpp"
#include "cli/mistakes.hpp"
#include "transport/kind.hpp"

namespace dovetail::cli {
namespace {

int complain(const std::string& text, int code) {
  std::cerr << "dovetail: " << text << '\n';
  return code;
}

void add_commands(CLI::App& app, Globals& globals) {
  add_global_options(app, globals);
  allow_group(app, globals);
  add_migrate(app, globals);
  add_grants(app, globals);
  add_enqueue(app, globals);
  add_claim(app, globals);
  add_settlements(app, globals);
  add_reap(app, globals);
  add_work(app, globals);
  add_schedule(app, globals);
#ifdef DOVETAIL_WITH_SERVER
  add_server(app, globals);
#endif
  add_publish(app, globals);
  add_consume(app, globals);
  add_transports(app, globals);
  add_status(app, globals);
  add_health(app, globals);
  add_instances(app, globals);
  add_dead_letters(app, globals);
  add_inbox(app, globals);
  add_joins(app, globals);
  add_timers(app, globals);
  add_jobs(app, globals);
  add_fanout(app, globals);
  add_cron(app, globals);
  add_leases(app, globals);
  add_lock(app, globals);
  add_topics(app, globals);
  add_streams(app, globals);
  add_events(app, globals);
  add_subscriptions(app, globals);
  add_config(app, globals);
  add_bench(app, globals);
}

/// `dovetail help status` is `dovetail status --help`.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  return words;
}

int run(CLI::App& app, const std::vector<std::string>& words) {
  if (const auto answer = unknown_command(app, words)) return complain(*answer, 2);
  try {
    // CLI11 takes the words from the back.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return 0;
  } catch (const ExitCode& exit) {
    return exit.code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    return complain(refusal(app, words, error), 2);
  } catch (const SchemaMismatch& error) {
    return complain(error.what(), 1);
  } catch (const std::logic_error& error) {
    return complain(error.what(), 2);
  } catch (const std::exception& error) {
    return complain(error.what(), 1);
  }
}

}  // namespace
}  // namespace dovetail::cli

int main(int argc, char** argv) {
  using namespace dovetail;
  CLI::App app{"Reliable background work with the database you already have", "dovetail"};
  app.set_version_flag("--version", std::string{version()});
  app.require_subcommand(1);
  transport::add_all_kinds();
  cli::Globals globals;
  cli::add_commands(app, globals);
  if (argc < 2) {
    std::cerr << app.help();
    return 2;
  }
  return cli::run(app, cli::words_of(argc, argv));
}
