#include "cli/bench_measures.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <thread>

#include "runtime/engines.hpp"

namespace dovetail::cli::bench {
namespace {

using Steady = std::chrono::steady_clock;
using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr const char* topic = "bench";
constexpr int latency_rate = 20;
constexpr int most_steps = 50'000;  // of the one join
constexpr int join_workers = 4;
constexpr int joins_rate = 10;  // a second

double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

Steady::time_point in_seconds(double seconds) {
  return Steady::now() +
         std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

std::string with_thousands(double value) {
  auto digits = std::to_string(std::llround(value));
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<std::size_t>(place), ",");
  }
  return digits;
}

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(digits);
  out << value;
  return out.str();
}

std::string payload(std::int64_t number) {
  auto text = R"({"order":)" + std::to_string(number) + R"(,"note":")";
  text.append(98 - text.size(), 'x');
  return text + "\"}";
}

Platform open(const Settings& settings) {
  auto options = settings.platform;
  options.deploy_schema = true;
  return Platform::open(settings.url, options);
}

namespace {

/// What payload() was made with.
std::int64_t number_in(const std::string& payload) {
  return std::stoll(payload.substr(payload.find(':') + 1));
}

Finding rate(std::string measure, std::string setting, std::int64_t messages, double seconds) {
  const auto per_second = static_cast<double>(messages) / seconds;
  return {std::move(measure), std::move(setting), with_thousands(per_second) + " messages/s",
          ordered_json{{"messages", messages}, {"seconds", seconds}, {"per_second", per_second}}};
}

Rows ask(Platform& platform, const std::string& sql) {
  auto transaction = platform.begin();
  auto rows = transaction.query(sql);
  transaction.commit();
  return rows;
}

/// Runs `body(number)` on so many threads at once; the first exception is thrown again.
void on_threads(int count, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          body(i);
        } catch (...) {
          std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
      });
    }
  }
  if (first) std::rethrow_exception(first);
}

/// Messages a second, enqueued from two threads.
Finding load(Platform& platform, const Settings& settings, const Progress& progress) {
  std::vector<EnqueueRequest> requests;
  requests.reserve(static_cast<std::size_t>(settings.messages));
  for (int i = 0; i < settings.messages; ++i)
    requests.push_back({.topic = topic, .payload = payload(i)});
  const auto portion = static_cast<std::size_t>(settings.bulk_size);
  std::atomic<std::size_t> next{0};
  const auto start = Steady::now();
  on_threads(2, [&](int /*thread*/) {
    for (;;) {
      const auto begin = next.fetch_add(portion);
      if (begin >= requests.size()) return;
      const auto some =
          std::span{requests}.subspan(begin, std::min(portion, requests.size() - begin));
      platform.outbox().enqueue_many(some);
      progress(static_cast<double>(begin) / settings.messages);
    }
  });
  return rate("bulk enqueue", std::to_string(settings.bulk_size) + " per call", settings.messages,
              seconds_since(start));
}

double percentile(const std::vector<double>& sorted, double share) {
  const auto place = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(sorted.size() - 1, place)];
}

Finding times(std::string measure, std::string setting, const std::vector<double>& samples) {
  auto sorted = samples;
  std::ranges::sort(sorted);
  const auto p50 = percentile(sorted, 0.50);
  const auto p95 = percentile(sorted, 0.95);
  const auto p99 = percentile(sorted, 0.99);
  return {std::move(measure), std::move(setting),
          "p50 " + fixed(p50, 2) + "  p95 " + fixed(p95, 2) + "  p99 " + fixed(p99, 2) + " ms",
          ordered_json{{"p50_ms", p50}, {"p95_ms", p95}, {"p99_ms", p99}, {"samples", samples}}};
}

double process_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string described(const Settings& settings) {
  return "batches of " + std::to_string(settings.platform.worker.batch_size) +
         (settings.platform.outbox.retain_done.count() > 0 ? ", history kept" : ", no history");
}

}  // namespace

bool is_postgres(const std::string& url) {
  return url.starts_with("postgres");
}

namespace {

/// On the database itself, whatever its schema is.
std::unique_ptr<storage::Database> open_raw(const Settings& settings) {
  return runtime::open_database(settings.url, {.schema = settings.platform.schema,
                                               .clock = system_clock(),
                                               .log = Logger{settings.platform.log_sink}});
}

std::int64_t count_of(storage::Database& database, const std::string& sql,
                      const std::string& schema) {
  Transaction transaction{database.begin()};
  return transaction.query(sql, schema).at(0).get<std::int64_t>(0);
}

}  // namespace

void create_schema(const Settings& settings) {
  const auto& schema = settings.platform.schema;
  const auto database = open_raw(settings);
  const bool postgres = is_postgres(settings.url);
  const bool used = count_of(*database,
                             postgres ? "select count(*) from pg_namespace where nspname = $1"
                                      : "select count(*) from sqlite_master where substr(name, 1, "
                                        "length($1) + 1) = $1 || '_'",
                             schema) > 0;
  if (used) {
    throw std::invalid_argument(
        "the schema " + schema +
        " is in use: bench wants one of its own, which it drops at the end (--schema)");
  }
  auto platform = open(settings);
  Transaction transaction{database->begin()};
  transaction.execute(postgres ? "create table \"" + schema + "\".bench_mark (made_at timestamptz)"
                               : "create table \"" + schema + "_bench_mark\" (made_at integer)");
  transaction.commit();
}

void require_created(const Settings& settings) {
  const auto& schema = settings.platform.schema;
  const auto database = open_raw(settings);
  const auto marks = count_of(
      *database,
      is_postgres(settings.url)
          ? "select count(*) from pg_tables where schemaname = $1 and tablename = 'bench_mark'"
          : "select count(*) from sqlite_master where name = $1 || '_bench_mark'",
      schema);
  if (marks == 0) throw std::invalid_argument("the schema " + schema + " was not made by bench");
}

void drop_schema(const Settings& settings) {
  require_created(settings);
  const auto& schema = settings.platform.schema;
  const auto database = open_raw(settings);
  Transaction transaction{database->begin()};
  if (is_postgres(settings.url)) {
    transaction.execute("drop schema \"" + schema + "\" cascade");
  } else {
    const auto parts = transaction.query(
        "select type, name from sqlite_master where type in ('table', 'view') "
        "and substr(name, 1, length($1) + 1) = $1 || '_' order by type desc",  // views first
        schema);
    for (const auto& part : parts) {
      transaction.execute("drop " + part.get<std::string>(0) + " \"" + part.get<std::string>(1) +
                          "\"");
    }
  }
  transaction.commit();
}

Findings enqueue(const Settings& settings, const Progress& progress) {
  auto options = settings;
  options.platform.max_connections = static_cast<std::size_t>(settings.connections);
  auto platform = open(options);
  std::atomic<std::int64_t> sent{0};
  const auto warm_up = std::min(0.5, settings.seconds / 4);  // after it connections are open
  const auto start = in_seconds(warm_up);
  const auto end = in_seconds(warm_up + settings.seconds);
  on_threads(settings.connections, [&](int thread) {
    for (auto now = Steady::now(); now < end; now = Steady::now()) {
      platform.outbox().enqueue({.topic = topic, .payload = payload(thread)});
      if (now >= start) ++sent;
      progress(std::max(0.0, seconds_since(start)) / settings.seconds);
    }
  });
  return {rate("enqueue", std::to_string(settings.connections) + " at once, a transaction each",
               sent, seconds_since(start))};
}

Findings bulk(const Settings& settings, const Progress& progress) {
  auto platform = open(settings);
  return {load(platform, settings, progress)};
}

namespace {

/// Counts the messages whose ends are stored.
class SettledCount : public MetricsSink {
 public:
  void count(std::string_view name, std::uint64_t by,
             std::span<const MetricLabel> /*labels*/) override {
    if (name != "outbox.settled") return;
    std::lock_guard lock(mutex_);
    settled_ += static_cast<std::int64_t>(by);
    changed_.notify_one();
  }
  void time(std::string_view /*name*/, std::chrono::nanoseconds /*duration*/,
            std::span<const MetricLabel> /*labels*/) override {}

  /// Waits for so many, but not long; answers how many there are.
  std::int64_t wait_for(std::int64_t wanted) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, milliseconds{100}, [&] { return settled_ >= wanted; });
    return settled_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t settled_ = 0;
};

}  // namespace

Findings drain(const Settings& settings, const Progress& progress) {
  auto watched = settings;
  const auto settled = std::make_shared<SettledCount>();
  watched.platform.metrics = settled;
  auto platform = open(watched);
  if (!settings.preloaded) {
    load(platform, settings, [&](double share) { progress(share / 2); });
  }
  platform.on(topic, [](const Message&, HandlerContext&) {});
  const auto start = Steady::now();
  platform.start();
  std::int64_t before = 0;
  auto moved_at = start;
  for (;;) {
    const auto now = settled->wait_for(settings.messages);
    progress((1 + static_cast<double>(now) / settings.messages) / 2);
    if (now >= settings.messages) break;
    if (now > before) moved_at = Steady::now();
    before = now;
    if (seconds_since(moved_at) < 10) continue;
    throw std::invalid_argument("there were only " + std::to_string(now) +
                                " messages to drain (--messages)");
  }
  const auto seconds = seconds_since(start);
  const auto counts = platform.outbox().counts();
  platform.stop();
  if (counts.ready > 0 || counts.in_progress > 0) {
    throw std::invalid_argument("there were more messages to drain (--messages)");
  }
  return {rate("drain", described(settings), settings.messages, seconds)};
}

Findings latency(const Settings& settings, const Progress& progress) {
  auto platform = open(settings);
  std::mutex mutex;
  std::vector<double> samples;
  platform.on(topic, [&](const Message& message, HandlerContext&) {
    const Steady::time_point begun{Steady::duration{number_in(message.payload)}};
    const auto passed = seconds_since(begun) * 1e3;
    std::lock_guard lock(mutex);
    samples.push_back(passed);
  });
  platform.start();
  // On PostgreSQL as another process would, over NOTIFY. A file of SQLite has one owner.
  auto other = is_postgres(settings.url) ? std::optional{open(settings)} : std::nullopt;
  auto& outbox = (other ? *other : platform).outbox();
  const auto warm_up = std::size_t{latency_rate};
  const auto count = warm_up + static_cast<std::size_t>(std::ceil(settings.seconds * latency_rate));
  const auto start = Steady::now();
  for (std::size_t i = 0; i < count; ++i) {
    std::this_thread::sleep_until(start + milliseconds{1'000 / latency_rate} * i);
    outbox.enqueue({.topic = topic, .payload = payload(Steady::now().time_since_epoch().count())});
    progress(static_cast<double>(i + 1) / static_cast<double>(count));
  }
  const auto patience = in_seconds(10);
  const auto all_came = [&] {
    std::lock_guard lock(mutex);
    return samples.size() >= count;
  };
  while (!all_came() && Steady::now() < patience) std::this_thread::sleep_for(milliseconds{10});
  platform.stop();
  if (!all_came()) throw std::runtime_error("not all messages were handled within ten seconds");
  samples.erase(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(warm_up));
  return {times("latency", std::to_string(latency_rate) + " messages a second", samples)};
}

namespace {

/// All messages are steps of one join, and several workers ack them.
Finding hot_join(const Settings& settings, const Progress& progress) {
  auto smaller = settings;
  smaller.messages = std::min(settings.messages, most_steps);
  auto platform = open(smaller);
  std::vector<EnqueueRequest> steps;
  steps.reserve(static_cast<std::size_t>(smaller.messages));
  for (int i = 0; i < smaller.messages; ++i)
    steps.push_back({.topic = topic, .payload = payload(i)});
  const auto fan = platform.joins().fan_out({.steps = std::move(steps)});
  std::vector<Platform> workers;
  for (int i = 0; i < (is_postgres(settings.url) ? join_workers : 1); ++i) {
    workers.push_back(open(smaller));
    workers.back().on(topic, [](const Message&, HandlerContext&) {});
  }
  const auto start = Steady::now();
  for (auto& worker : workers) worker.start();
  for (;;) {
    const auto join = platform.joins().get(fan.join);
    progress(static_cast<double>(join->completed_steps) / smaller.messages / 2);
    if (join->status != JoinStatus::pending) break;
    std::this_thread::sleep_for(milliseconds{2});
  }
  return rate("one hot join", std::to_string(workers.size()) + " workers, " + described(settings),
              smaller.messages, seconds_since(start));
}

/// From the end of a join's last step to the start of its continuation.
Finding continuation(const Settings& settings, const Progress& progress) {
  auto platform = open(settings);
  std::mutex mutex;
  std::vector<double> samples;
  std::atomic<Steady::rep> ended{0};
  platform.on(topic, [&](const Message&, HandlerContext&) {
    ended = Steady::now().time_since_epoch().count();
  });
  platform.on("continued", [&](const Message&, HandlerContext&) {
    const auto passed = seconds_since(Steady::time_point{Steady::duration{ended.load()}}) * 1e3;
    std::lock_guard lock(mutex);
    samples.push_back(passed);
  });
  platform.start();
  const auto count = static_cast<std::size_t>(std::ceil(settings.seconds * joins_rate)) + 1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto join = platform.joins().start({.expected_steps = 1});
    platform.joins().enqueue_wait(join, {.on_complete_topic = "continued"});
    std::this_thread::sleep_for(milliseconds{1'000 / joins_rate / 2});  // it waits by now
    platform.outbox().enqueue({.topic = topic, .joins = {join}});
    const auto patience = in_seconds(10);
    const auto came = [&] {
      std::lock_guard lock(mutex);
      return samples.size() > i;
    };
    while (!came() && Steady::now() < patience) std::this_thread::sleep_for(milliseconds{1});
    if (!came()) throw std::runtime_error("a continuation did not come within ten seconds");
    progress((1 + static_cast<double>(i + 1) / static_cast<double>(count)) / 2);
    std::this_thread::sleep_for(milliseconds{1'000 / joins_rate / 2});
  }
  platform.stop();
  samples.erase(samples.begin());  // the first one warms up
  return times("continuation", "after the last step's handler", samples);
}

}  // namespace

Findings joins(const Settings& settings, const Progress& progress) {
  return {hot_join(settings, progress), continuation(settings, progress)};
}

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

namespace {

/// Messages that are enqueued as fast as they are handled.
class Flow {
 public:
  explicit Flow(const Settings& settings) : platform_(open(settings)) {
    platform_.on(topic, [this](const Message&, HandlerContext&) { ++handled_; });
    platform_.start();
  }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  ~Flow() { platform_.stop(); }

  /// Messages a second, for so long and until all are handled.
  double run(double seconds) {
    const auto start = Steady::now();
    const auto before = handled_.load();
    while (seconds_since(start) < seconds || handled_ < sent_) {
      if (seconds_since(start) > seconds + 60)
        throw std::runtime_error("not all messages were handled within a minute");
      if (sent_ - handled_ > 20'000 || seconds_since(start) >= seconds) {
        std::this_thread::sleep_for(milliseconds{1});
      } else {
        platform_.outbox().enqueue_many(requests_);
        sent_ += static_cast<std::int64_t>(requests_.size());
      }
    }
    return static_cast<double>(handled_ - before) / seconds_since(start);
  }

 private:
  const std::vector<EnqueueRequest> requests_{500, {.topic = topic, .payload = payload(0)}};
  std::int64_t sent_ = 0;
  std::atomic<std::int64_t> handled_{0};
  Platform platform_;
};

/// What a transaction sees that began before the messages came.
class OldSnapshot {
 public:
  explicit OldSnapshot(const Settings& settings)
      : platform_(open(settings)), transaction_(platform_.begin()) {
    transaction_.execute("set transaction isolation level repeatable read");
    static_cast<void>(
        transaction_.query("select count(*) from \"" + settings.platform.schema + "\".outbox"));
  }

 private:
  Platform platform_;
  Transaction transaction_;
};

/// A schema that is there as long as this is.
class OwnSchema {
 public:
  explicit OwnSchema(Settings settings) : settings_(std::move(settings)) {
    create_schema(settings_);
  }
  OwnSchema(const OwnSchema&) = delete;
  OwnSchema& operator=(const OwnSchema&) = delete;
  ~OwnSchema() {
    try {
      drop_schema(settings_);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the measure's own failure is
                                       // the one to tell
    }
  }

 private:
  Settings settings_;
};

double middle(std::vector<double> values) {
  std::ranges::sort(values);
  return percentile(values, 0.5);
}

}  // namespace

Findings snapshot(const Settings& settings, const Progress& progress) {
  constexpr double turn = 3;
  std::vector<double> clean;
  std::vector<double> held;
  // Where there is a second database, the two take turns: what the machine does in one minute is
  // not what it does in the next.
  auto beside = settings;
  beside.url = settings.beside;
  if (!settings.beside.empty() && !is_postgres(settings.beside)) {
    throw std::invalid_argument("--beside wants another database of the same PostgreSQL server");
  }
  const auto schema_beside =
      settings.beside.empty() ? nullptr : std::make_unique<OwnSchema>(beside);
  if (!schema_beside) {
    Flow flow(settings);
    for (const auto start = Steady::now();
         clean.empty() || seconds_since(start) < settings.seconds / 4;) {
      clean.push_back(flow.run(std::min(turn, settings.seconds / 8)));
      progress(seconds_since(start) / settings.seconds / 1.25);
    }
  }
  {
    const OldSnapshot old(settings);
    Flow flow(settings);
    const auto other = schema_beside ? std::make_unique<Flow>(beside) : nullptr;
    const auto start = Steady::now();
    const auto length = std::min(turn, settings.seconds / 8);
    while (seconds_since(start) < settings.seconds || held.empty()) {
      const bool counts = seconds_since(start) >= settings.seconds / 2;  // by then it is old
      const auto rate = flow.run(length);
      if (counts) held.push_back(rate);
      if (other) {
        const auto rate_beside = other->run(length);
        if (counts) clean.push_back(rate_beside);
      }
      progress(seconds_since(start) / settings.seconds);
    }
  }
  const auto with = middle(held);
  const auto without = middle(clean);
  return {{"old snapshot", "held for " + fixed(settings.seconds, 0) + " s",
           with_thousands(with) + " messages/s, " + with_thousands(without) + " without",
           ordered_json{{"per_second", with},
                        {"clean_per_second", without},
                        {"ratio", with / without},
                        {"turns", held},
                        {"clean_turns", clean}}}};
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
