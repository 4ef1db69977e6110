// dovetail bench group: many databases in one process, few of them with work.
#include "dovetail/group.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>
#include <thread>

#include "cli/bench/connection_sampler.hpp"
#include "cli/bench/own_databases.hpp"
#include "cli/bench/silent_server.hpp"
#include "cli/bench/tools.hpp"

namespace dovetail::cli::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds longest_start{120};
constexpr int healthy_databases = 10;
constexpr int drain_turns = 3;
/// The time in which a group tries to open all of its databases.
constexpr seconds open_time{5};

void wait_until(const std::function<bool()>& condition, seconds patience) {
  const auto start = Steady::now();
  while (!condition()) {
    if (Steady::now() - start > patience)
      throw std::runtime_error("the group has not finished in time");
    std::this_thread::sleep_for(milliseconds{2});
  }
}

double percentile_of(std::vector<double> samples, double share) {
  std::ranges::sort(samples);
  return samples.at(static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1)));
}

GroupOptions group_options(const Settings& settings) {
  GroupOptions options{.database = settings.platform};
  options.database.deploy_schema = false;
  return options;
}

void add(PlatformGroup& group, std::span<const DatabaseEntry> entries) {
  for (const auto& entry : entries) group.add(entry.key, entry.url, entry.schema);
}

std::size_t count_in(const PlatformGroup& group, GroupDatabaseState state) {
  const auto status = group.status();
  return static_cast<std::size_t>(
      std::ranges::count(status.databases, state, &GroupDatabaseStatus::state));
}

void wait_until_open(const PlatformGroup& group) {
  wait_until([&] { return count_in(group, GroupDatabaseState::closed) == 0; }, longest_start);
}

/// Counts the calls of a handler that waits for a gate.
class Gate {
 public:
  HandlerFunction handler() {
    return [this](const Message&, HandlerContext& context) {
      while (!open_ && !context.stop_token().stop_requested()) {
        std::this_thread::sleep_for(milliseconds{1});
      }
      ++handled_;
    };
  }
  /// Messages per second from the opening of the gate to the last call.
  double open_and_drain(int messages) {
    const auto start = Steady::now();
    open_ = true;
    wait_until([&] { return handled_ >= messages; }, seconds{300});
    return messages / seconds_since(start);
  }

 private:
  std::atomic<bool> open_{false};
  std::atomic<int> handled_{0};
};

void put(const std::string& url, const Settings& settings, int count) {
  auto options = settings.platform;
  options.deploy_schema = false;
  auto platform = Platform::open(url, options);
  for (int sent = 0; sent < count;) {
    const auto size = std::min(settings.bulk_size, count - sent);
    const std::vector<EnqueueRequest> requests(static_cast<std::size_t>(size),
                                               {.topic = topic, .payload = payload(sent)});
    platform.outbox().enqueue_many(requests);
    sent += size;
  }
}

double drain_one(const Settings& settings, const DatabaseEntry& entry) {
  put(entry.url, settings, settings.messages);
  Gate gate;
  auto options = settings.platform;
  options.deploy_schema = false;
  auto platform = Platform::open(entry.url, options);
  platform.on(topic, gate.handler());
  platform.start();
  std::this_thread::sleep_for(seconds{5});
  return gate.open_and_drain(settings.messages);
}

struct GroupDrain {
  double per_second = 0;
  std::size_t most_connections = 0;
};

GroupDrain drain_group(const Settings& settings, std::span<const DatabaseEntry> entries) {
  const auto busy = std::min<std::size_t>(static_cast<std::size_t>(settings.busy), entries.size());
  const int share = settings.messages / static_cast<int>(busy);
  for (std::size_t i = 0; i < busy; ++i) {
    put(entries[i * entries.size() / busy].url, settings, share);
  }
  Gate gate;
  PlatformGroup group(group_options(settings));
  add(group, entries);
  group.on(topic, gate.handler());
  group.start();
  wait_until_open(group);
  std::this_thread::sleep_for(seconds{5});
  const ConnectionSampler sampler(settings);
  const auto per_second = gate.open_and_drain(share * static_cast<int>(busy));
  return {per_second, sampler.most()};
}

/// Measures both in turns, so that a machine that becomes slower affects both.
Finding drain(const Settings& settings, std::span<const DatabaseEntry> entries) {
  std::vector<double> single;
  std::vector<double> group;
  std::vector<double> ratios;
  std::size_t most = 0;
  for (int turn = 0; turn < drain_turns; ++turn) {
    single.push_back(drain_one(settings, entries.front()));
    const auto drained = drain_group(settings, entries);
    group.push_back(drained.per_second);
    most = std::max(most, drained.most_connections);
    ratios.push_back(group.back() / single.back());
  }
  const auto one = percentile_of(single, 0.5);
  const auto many = percentile_of(group, 0.5);
  const auto ratio = percentile_of(ratios, 0.5);
  return {"drain",
          with_thousands(settings.busy) + " busy of " + with_thousands(settings.databases) +
              " databases, median of " + std::to_string(drain_turns),
          with_thousands(many) + " messages/s, " + with_thousands(one) + " of a single database: " +
              fixed(ratio, 2) + " times; at most " + with_thousands(static_cast<double>(most)) +
              (is_postgres(settings.url) ? " connections" : " open files"),
          {{"per_second", many},
           {"single_per_second", one},
           {"ratio", ratio},
           {"ratios", ratios},
           {"most_connections", most}}};
}

// --- without work

std::int64_t transactions(Platform& watcher) {
  return ask(watcher,
             "select sum(xact_commit + xact_rollback)::int8 from pg_stat_database where datname "
             "like "
             "'dovetail\\_bench\\_%'")
      .at(0)
      .get<std::int64_t>(0);
}

/// The time that all threads of this process have used.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

Finding idle_cost(const Settings& settings, std::span<const DatabaseEntry> entries,
                  const Progress& progress) {
  PlatformGroup group(group_options(settings));
  add(group, entries);
  group.on(topic, [](const Message&, HandlerContext&) {});
  group.start();
  auto watcher = is_postgres(settings.url) ? std::optional{open(settings)} : std::nullopt;
  const double settle = 45;  // until polls have become rare
  const double counted = std::max(60.0, settings.seconds);
  const auto wait = [&](double length, double from, double to) {
    const auto start = Steady::now();
    while (seconds_since(start) < length) {
      std::this_thread::sleep_for(milliseconds{100});
      progress(from + (to - from) * seconds_since(start) / length);
    }
  };
  wait(settle, 0, 0.4);
  const auto before = watcher ? transactions(*watcher) : 0;
  const auto cpu_before = cpu_seconds();
  wait(counted, 0.4, 1);
  const auto cpu = (cpu_seconds() - cpu_before) / counted * 1'000;
  const auto held = connections(settings, watcher ? &*watcher : nullptr);
  const auto count = static_cast<double>(entries.size());
  nlohmann::ordered_json figures{
      {"databases", entries.size()}, {"connections", held}, {"cpu_ms_per_second", cpu}};
  std::string result = with_thousands(static_cast<double>(held)) +
                       (watcher ? " connections" : " open files") + ", " + fixed(cpu, 1) +
                       " ms of CPU time per second";
  if (watcher) {
    const auto rate = static_cast<double>(transactions(*watcher) - before) / counted / count;
    figures["statements_per_second_and_database"] = rate;
    result = fixed(rate, 3) + " statements/s and database, " + result;
  }
  return {"idle group", with_thousands(count) + " databases", result, figures};
}

// --- pickup

/// Measures the milliseconds from enqueue() to the start of the handler.
class Pickups {
 public:
  HandlerFunction handler() {
    return [this](const Message&, HandlerContext&) { picked_at_ = now_ms(); };
  }
  template <class Enqueue>
  double once(const Enqueue& enqueue) {
    picked_at_ = 0;
    const auto sent = now_ms();
    enqueue();
    wait_until([&] { return picked_at_ != 0; }, seconds{90});
    return picked_at_ - sent;
  }

 private:
  static double now_ms() {
    return std::chrono::duration<double, std::milli>(Steady::now().time_since_epoch()).count();
  }
  std::atomic<double> picked_at_{0};
};

/// Databases that are down, have no tables, or hang.
struct Trouble {
  explicit Trouble(const Settings& settings, const DatabaseEntry& without_tables,
                   const DatabaseEntry& hanging)
      : empty(without_tables), locked(hanging) {
    auto options = settings.platform;
    options.deploy_schema = false;
    blocker.emplace(Platform::open(hanging.url, options));
    transaction.emplace(blocker->begin());
    if (is_postgres(settings.url)) {
      for (const auto* table : {"outbox", "inbox", "timers", "instance"}) {
        transaction->execute("lock table \"" + settings.platform.schema + "\"." + table +
                             " in access exclusive mode");
      }
    }
  }
  [[nodiscard]] std::vector<DatabaseEntry> databases() const {
    return {{"down", "postgresql://127.0.0.1:1/nobody", {}},
            {"empty", empty.url, {}},
            {"hangs", locked.url, {}}};
  }
  DatabaseEntry empty;
  DatabaseEntry locked;
  std::optional<Platform> blocker;
  std::optional<Transaction> transaction;
};

std::vector<double> measure_pickup(const Settings& settings, std::span<const DatabaseEntry> healthy,
                                   std::span<const DatabaseEntry> troubled) {
  Pickups pickups;
  PlatformGroup group(group_options(settings));
  add(group, troubled);
  add(group, healthy);
  group.on(topic, pickups.handler());
  group.start();
  std::this_thread::sleep_for(open_time);
  std::vector<double> samples;
  const auto start = Steady::now();
  for (std::size_t i = 0; seconds_since(start) < settings.seconds; ++i) {
    auto& platform = group[healthy[i % healthy.size()].key];
    samples.push_back(
        pickups.once([&] { platform.outbox().enqueue({.topic = topic, .payload = payload(0)}); }));
    std::this_thread::sleep_for(milliseconds{20});
  }
  return samples;
}

/// Another process enqueues into a database that the group polls at long intervals.
Finding idle_pickup(const Settings& settings, std::span<const DatabaseEntry> entries) {
  constexpr milliseconds poll{2'000};
  Pickups pickups;
  auto options = group_options(settings);
  options.max_listeners = 0;
  options.max_poll_interval = poll;
  PlatformGroup group(options);
  add(group, entries);
  group.on(topic, pickups.handler());
  group.start();
  wait_until_open(group);
  std::this_thread::sleep_for(2 * poll);
  auto other = settings.platform;
  other.deploy_schema = false;
  std::vector<double> samples;
  for (std::size_t i = 0; i < std::min<std::size_t>(10, entries.size()); ++i) {
    auto producer = Platform::open(entries[i].url, other);
    samples.push_back(
        pickups.once([&] { producer.outbox().enqueue({.topic = topic, .payload = payload(0)}); }));
  }
  const auto slowest = *std::ranges::max_element(samples);
  const auto ratio = slowest / static_cast<double>(poll.count());
  return {"pickup in an idle database",
          "looked at every 2 s, no listener",
          "slowest " + fixed(slowest, 0) + " ms: " + fixed(ratio, 2) + " of the interval",
          {{"slowest_ms", slowest}, {"poll_ms", poll.count()}, {"ratio", ratio}}};
}

Finding pickup_beside(const std::string& trouble, const std::vector<double>& with,
                      const std::vector<double>& without) {
  const auto p99 = percentile_of(with, 0.99);
  const auto clean = percentile_of(without, 0.99);
  return {"pickup beside trouble",
          trouble,
          "p50 " + fixed(percentile_of(with, 0.5), 2) + "  p99 " + fixed(p99, 2) + " ms, " +
              fixed(percentile_of(without, 0.5), 2) + " and " + fixed(clean, 2) + " without: p99 " +
              fixed(p99 / clean, 2) + " times",
          {{"p50_ms", percentile_of(with, 0.5)},
           {"p99_ms", p99},
           {"clean_p50_ms", percentile_of(without, 0.5)},
           {"clean_p99_ms", clean},
           {"p99_ratio", p99 / clean}}};
}

void isolation(const Settings& settings, const OwnDatabases& databases, const DatabaseEntry& empty,
               Findings& findings) {
  const std::span all{databases.entries()};
  const auto healthy = all.subspan(0, std::min<std::size_t>(healthy_databases, all.size() - 1));
  const auto without = measure_pickup(settings, healthy, {});
  {
    const Trouble trouble(settings, empty, all[all.size() - 2]);
    findings.push_back(pickup_beside("one database is down, one has no tables, one hangs",
                                     measure_pickup(settings, healthy, trouble.databases()),
                                     without));
  }
  const SilentServer server;
  const auto silent = server.databases(2 * GroupOptions{}.max_connections);
  findings.push_back(pickup_beside(
      with_thousands(static_cast<double>(silent.size())) + " databases of a server that is silent",
      measure_pickup(settings, healthy, silent), without));
}

Finding migration(const Settings& settings, std::span<const DatabaseEntry> entries) {
  PlatformGroup group(group_options(settings));
  add(group, entries);
  const auto start = Steady::now();
  for (const auto& result : group.migrate()) {
    if (!result.error.empty()) throw std::runtime_error(result.key + ": " + result.error);
  }
  const auto took = seconds_since(start);
  return {"migration",
          with_thousands(static_cast<double>(entries.size())) + " databases",
          fixed(took, 1) + " s",
          {{"databases", entries.size()}, {"seconds", took}}};
}

}  // namespace

Findings group(const Settings& settings, const Progress& progress) {
  const OwnDatabases databases(settings, settings.databases + 1);
  const std::span all{databases.entries()};
  const auto entries = all.subspan(0, all.size() - 1);
  Findings findings;
  findings.push_back(migration(settings, entries));
  progress(0.1);
  findings.push_back(drain(settings, entries));
  progress(0.3);
  isolation(settings, databases, all.back(), findings);
  progress(0.4);
  findings.push_back(idle_pickup(settings, entries));
  progress(0.5);
  findings.push_back(
      idle_cost(settings, entries, [&](double share) { progress(0.5 + 0.5 * share); }));
  return findings;
}

}  // namespace dovetail::cli::bench
