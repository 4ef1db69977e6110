// dovetail bench claims, idle: the pages that a claim reads, and the cost of an idle worker.
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "cli/bench/tools.hpp"

namespace dovetail::cli::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

double process_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

Findings claims(const Settings& settings, const Progress& progress) {
  auto platform = open(settings);
  const auto& schema = settings.platform.schema;
  Findings findings;
  int rows = 0;
  for (const int size : {1'000, 100'000, 1'000'000}) {
    ask(platform,
        "insert into \"" + schema +
            "\".outbox (id, topic, payload) select gen_random_uuid(), 'bench', repeat('x', 100) "
            "from generate_series(1, " +
            std::to_string(size - rows) + ")");
    rows = size;
    std::int64_t pages = 0;
    double time = 0;
    for (int round = 0; round < 3; ++round) {  // the last one counts: the others warm up
      auto transaction = platform.begin();
      const auto plan =
          transaction.query("explain (analyze, buffers, timing off, format json) select * from \"" +
                            schema + "\".outbox_claim(gen_random_uuid(), 50)");
      transaction.rollback();
      const auto answer = ordered_json::parse(plan[0].get<std::string>(0)).at(0);
      const auto& top = answer.at("Plan");
      pages = top.at("Shared Hit Blocks").get<std::int64_t>() +
              top.at("Shared Read Blocks").get<std::int64_t>();
      time = answer.at("Execution Time").get<double>();
    }
    findings.push_back(
        {"claim of 50", with_thousands(size) + " waiting",
         with_thousands(static_cast<double>(pages)) + " pages, " + fixed(time, 2) + " ms",
         ordered_json{{"waiting", size}, {"pages", pages}, {"milliseconds", time}}});
    progress(static_cast<double>(findings.size()) / 3);
  }
  return findings;
}

Findings idle(const Settings& settings, const Progress& progress) {
  auto platform = open(settings);
  platform.on(topic, [](const Message&, HandlerContext&) {});
  platform.start();
  const auto wait = [&](double seconds, double from, double to) {
    const auto start = Steady::now();
    while (seconds_since(start) < seconds) {
      std::this_thread::sleep_for(milliseconds{50});
      progress(from + (to - from) * std::min(1.0, seconds_since(start) / seconds));
    }
  };
  wait(std::min(10.0, settings.seconds), 0, 0.5);  // until the polls have become rare
  auto watcher = is_postgres(settings.url) ? std::optional{open(settings)} : std::nullopt;
  const auto transactions = [&]() -> std::int64_t {
    if (!watcher) return 0;
    return ask(*watcher,
               "select xact_commit + xact_rollback from pg_stat_database where datname = "
               "current_database()")
        .at(0)
        .get<std::int64_t>(0);
  };
  const auto before = transactions();
  const auto cpu_before = process_cpu_seconds();
  wait(settings.seconds, 0.5, 1);
  const auto cpu = (process_cpu_seconds() - cpu_before) / settings.seconds;
  const auto statements = static_cast<double>(transactions() - before) / settings.seconds;
  platform.stop();
  ordered_json figures{{"cpu_share", cpu}};
  std::string result = fixed(cpu * 100, 2) + " % of a core";
  if (watcher) {
    figures["transactions_per_second"] = statements;
    result = fixed(statements, 2) + " transactions/s, " + result;
  }
  return {{"idle", "a worker with nothing to do", result, figures}};
}

}  // namespace dovetail::cli::bench
