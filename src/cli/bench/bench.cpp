// dovetail bench: measures this library on a database of the user.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>
#include <mutex>

#include "cli/bench/schema.hpp"

namespace dovetail::cli {
namespace {

using bench::Findings;
using bench::Settings;

struct Measure {
  const char* name;
  Findings (*run)(const Settings&, const bench::Progress&);
  bool postgres_only = false;
  bool only_if_named = false;
};

constexpr std::array measures{
    Measure{"enqueue", bench::enqueue},     Measure{"bulk", bench::bulk},
    Measure{"drain", bench::drain},         Measure{"latency", bench::latency},
    Measure{"joins", bench::joins},         Measure{"fanout", bench::fanout},
    Measure{"claims", bench::claims, true}, Measure{"snapshot", bench::snapshot, true},
    Measure{"foreign", bench::foreign},     Measure{"transactions", bench::transactions},
    Measure{"streams", bench::streams},     Measure{"publish", bench::publish},
    Measure{"idle", bench::idle},           Measure{"group", bench::group, false, true}};

struct BenchArguments {
  std::vector<std::string> chosen;
  int messages = 200'000;
  double seconds = 5;
  int connections = 8;
  int callers = 0;
  int batch_size = WorkerOptions{}.batch_size;
  int bulk_size = 5'000;
  int threads = 0;
  std::string beside;
  bool no_history = false;
  bool keep = false;
  bool preloaded = false;
  int foreign = Settings{}.foreign;
  int databases = Settings{}.databases;
  int busy = Settings{}.busy;
};

/// A progress line that is redrawn on a terminal. Without a terminal it prints nothing.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label)
      : label_(std::move(label)), shown_(::isatty(STDERR_FILENO) == 1) {}
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() {
    if (shown_) std::cerr << "\r\033[K" << std::flush;
  }
  void show(double share) {
    const auto filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
    if (!shown_ || last_.exchange(filled) == filled) return;
    std::string bar;
    for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
    std::lock_guard lock(mutex_);
    std::cerr << "\r\033[K" << label_ << ' ' << bar << ' ' << filled * 100 / width << " %"
              << std::flush;
  }

 private:
  static constexpr int width = 40;
  std::string label_;
  bool shown_;
  std::atomic<int> last_{-1};
  std::mutex mutex_;
};

Settings settings_of(const Globals& globals, const BenchArguments& arguments) {
  Settings settings{.url = globals.database,
                    .platform = globals.options(),
                    .messages = arguments.messages,
                    .seconds = arguments.seconds,
                    .connections = arguments.connections,
                    .callers = arguments.callers,
                    .bulk_size = arguments.bulk_size,
                    .beside = arguments.beside,
                    .preloaded = arguments.preloaded,
                    .foreign = arguments.foreign,
                    .databases = arguments.databases,
                    .busy = arguments.busy};
  settings.platform.worker.batch_size = arguments.batch_size;
  settings.platform.worker.threads = arguments.threads;
  if (arguments.no_history) settings.platform.outbox.retain_done = std::chrono::seconds{0};
  return settings;
}

/// The measures that the user named, or the usual ones for this database.
std::vector<Measure> chosen(const BenchArguments& arguments, bool postgres) {
  std::vector<Measure> list;
  for (const auto& measure : measures) {
    const bool named = std::ranges::find(arguments.chosen, measure.name) != arguments.chosen.end();
    if (named && measure.postgres_only && !postgres) {
      throw std::invalid_argument(std::string{measure.name} + " is measured on PostgreSQL only");
    }
    const bool usual = !measure.only_if_named && (postgres || !measure.postgres_only);
    if (named || (arguments.chosen.empty() && usual)) list.push_back(measure);
  }
  return list;
}

void print(const Globals& globals, const Findings& findings) {
  if (globals.json) {
    auto answer = nlohmann::ordered_json::array();
    for (const auto& each : findings) {
      nlohmann::ordered_json object{{"measure", each.measure}, {"setting", each.setting}};
      object.update(each.figures);
      answer.push_back(std::move(object));
    }
    std::cout << answer.dump() << '\n';
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(findings.size());
  for (const auto& each : findings) rows.push_back({each.measure, each.setting, each.result});
  print_table({"MEASURE", "SETTING", "RESULT"}, rows);
}

void run(const Globals& globals, const BenchArguments& arguments) {
  const auto settings = settings_of(globals, arguments);
  Findings findings;
  for (const auto& each : chosen(arguments, bench::is_postgres(settings.url))) {
    if (arguments.preloaded) {
      bench::require_created(settings);
    } else {
      bench::create_schema(settings);
    }
    try {
      ProgressBar bar(each.name);
      auto more = each.run(settings, [&](double share) { bar.show(share); });
      findings.insert(findings.end(), more.begin(), more.end());
    } catch (...) {
      try {
        if (!arguments.keep) bench::drop_schema(settings);
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): rethrow the first failure
      }
      throw;
    }
    if (!arguments.keep) bench::drop_schema(settings);
  }
  print(globals, findings);
}

// --- the options

void add_sizes(CLI::App& command, BenchArguments& arguments) {
  command
      .add_option("--messages", arguments.messages,
                  "Messages of bulk, drain, foreign, streams and publish, shards of fanout; joins "
                  "use up to "
                  "50,000, transactions up to 4,000")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  command
      .add_option("--seconds", arguments.seconds,
                  "Duration of enqueue, latency, joins, snapshot, foreign and idle")
      ->check(CLI::Range(0.1, 3'600.0))
      ->capture_default_str();
  command.add_option("--bulk", arguments.bulk_size, "Messages per call of a bulk enqueue")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command.add_option("--batch", arguments.batch_size, "Messages that a worker claims at once")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command
      .add_option("--foreign", arguments.foreign,
                  "foreign: messages of another topic at the front of the queue")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
}

void add_group(CLI::App& command, BenchArguments& arguments) {
  command.add_option("--databases", arguments.databases, "group: databases of the group")
      ->check(CLI::Range(12, 10'000))
      ->capture_default_str();
  command.add_option("--busy", arguments.busy, "group: databases with messages")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
}

void add_threads(CLI::App& command, BenchArguments& arguments) {
  command.add_option("--connections", arguments.connections, "Connections of enqueue")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  command
      .add_option("--callers", arguments.callers,
                  "Threads of enqueue, which share the connections; 0: one per connection")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  command
      .add_option("--threads", arguments.threads,
                  "Threads that call handlers; 0: one per core, at least four")
      ->check(CLI::Range(0, 1'000))
      ->capture_default_str();
}

void add_variants(CLI::App& command, BenchArguments& arguments) {
  command.add_option("--beside", arguments.beside,
                     "snapshot: URL of another database of the same server, without an old "
                     "snapshot; the two are measured in turns");
  command.add_flag("--no-history", arguments.no_history,
                   "Delete messages that are done instead of keeping them");
  command.add_flag("--keep", arguments.keep, "Do not drop the tables at the end");
  command.add_flag("--preloaded", arguments.preloaded,
                   "drain: use the messages of `bench bulk --keep` with the same --messages");
}

}  // namespace

void add_bench(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<BenchArguments>();
  auto& command = add_command(
      app, globals, "bench", "Measure Dovetail on this database",
      [&globals, arguments] { run(globals, *arguments); }, "dovetail_bench");
  command.footer(
      "It works in a schema of its own (dovetail_bench by default), which must not exist yet. It\n"
      "drops the schema at the end. The figures hold for this machine, this database and this "
      "moment.");
  std::vector<std::string> names;
  names.reserve(measures.size());
  for (const auto& each : measures) names.emplace_back(each.name);
  command
      .add_option(
          "measure", arguments->chosen,
          "enqueue, bulk, drain, latency, joins, fanout, claims, snapshot, foreign, transactions, "
          "streams, publish, idle; all of these if absent; and group, which creates databases and "
          "takes "
          "minutes")
      ->check(CLI::IsMember(names));
  add_sizes(command, *arguments);
  add_group(command, *arguments);
  add_threads(command, *arguments);
  add_variants(command, *arguments);
  command.add_flag("--json", globals.json, "Answer in JSON");
}

}  // namespace dovetail::cli
