// dovetail bench foreign: the cost of messages of other topics for a worker that ignores them.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "cli/bench/tools.hpp"
#include "dovetail/error.hpp"
#include "runtime/engines.hpp"

namespace dovetail::cli::bench {
namespace {

using Watch = std::chrono::steady_clock;

constexpr const char* own_topic = "own";
/// The lowest accepted ratio to the figures without foreign messages.
constexpr double foreign_bar = 0.9;
constexpr const char* foreign_topic = "foreign";
constexpr std::chrono::seconds longest_standstill{60};

void put(Platform& platform, const Settings& settings, const char* topic_name, int count) {
  for (int sent = 0; sent < count;) {
    const auto size = std::min(settings.bulk_size, count - sent);
    const std::vector<EnqueueRequest> requests(static_cast<std::size_t>(size),
                                               {.topic = topic_name, .payload = payload(sent)});
    platform.outbox().enqueue_many(requests);
    sent += size;
  }
}

/// Counts calls of a handler.
class HandledCount {
 public:
  void add() {
    std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_one();
  }
  /// Throws if no message is handled within `longest_standstill`.
  void wait_for(int wanted) {
    std::unique_lock lock(mutex_);
    while (count_ < wanted) {
      const auto before = count_;
      if (!changed_.wait_for(lock, longest_standstill, [&] { return count_ > before; })) {
        throw std::runtime_error("no message was handled for a minute");
      }
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

/// Does the maintenance that a server does by itself some time after many inserts. Otherwise it
/// could run during one of the two measures only.
void settle_down(const Settings& settings) {
  if (!is_postgres(settings.url)) return;
  const auto database = runtime::open_database(
      settings.url, {.clock = system_clock(), .log = Logger{settings.platform.log_sink}});
  const auto run = [&](const std::string& sql) {
    database->write({.single_statement = true},
                    [&](storage::WriteSession& session) { session.execute(sql, {}); });
  };
  run("vacuum analyze \"" + settings.platform.schema + "\".outbox");
  try {
    run("checkpoint");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::permission) throw;
  }
}

/// Messages per second of the worker's own topic, from its start to the last call of its handler.
double drain_own(const Settings& settings) {
  HandledCount handled;
  auto platform = open(settings);
  put(platform, settings, own_topic, settings.messages);
  settle_down(settings);
  platform.on(own_topic, [&](const Message&, HandlerContext&) { handled.add(); });
  const auto start = Watch::now();
  platform.start();
  handled.wait_for(settings.messages);
  const auto seconds = std::chrono::duration<double>(Watch::now() - start).count();
  platform.stop();
  return settings.messages / seconds;
}

struct OwnTopic {
  double per_second = 0;
  double p50_ms = 0;
  double p99_ms = 0;
};

OwnTopic measure_own(const Settings& settings, const Progress& progress) {
  OwnTopic own{.per_second = drain_own(settings)};
  const auto pickup = latency(settings, progress).at(0).figures;
  own.p50_ms = pickup.at("p50_ms").get<double>();
  own.p99_ms = pickup.at("p99_ms").get<double>();
  return own;
}

}  // namespace

Findings foreign(const Settings& settings, const Progress& progress) {
  static_cast<void>(
      drain_own(settings));  // both measures start with the same history and file size
  const auto without = measure_own(settings, [&](double share) { progress(share * 0.4); });
  {
    auto platform = open(settings);
    put(platform, settings, foreign_topic, settings.foreign);
  }
  progress(0.6);
  const auto with = measure_own(settings, [&](double share) { progress(0.6 + share * 0.4); });
  const auto setting = "behind " + with_thousands(settings.foreign) + " foreign messages";
  const auto ratio = with.per_second / without.per_second;
  const auto p50_ratio = with.p50_ms / without.p50_ms;
  const auto p99_ratio = with.p99_ms / without.p99_ms;
  return {{"drain of own topic",
           setting,
           with_thousands(with.per_second) + " messages/s, " + with_thousands(without.per_second) +
               " without: " + judged(ratio, foreign_bar),
           {{"foreign", settings.foreign},
            {"per_second", with.per_second},
            {"clean_per_second", without.per_second},
            {"ratio", ratio},
            {"bar", foreign_bar},
            {"reached", ratio >= foreign_bar}}},
          {"pickup of own topic",
           setting,
           "p50 " + fixed(with.p50_ms, 2) + "  p99 " + fixed(with.p99_ms, 2) + " ms, " +
               fixed(without.p50_ms, 2) + " and " + fixed(without.p99_ms, 2) + " without: " +
               judged(1 / p50_ratio, foreign_bar) + " and " + judged(1 / p99_ratio, foreign_bar),
           {{"foreign", settings.foreign},
            {"p50_ms", with.p50_ms},
            {"p99_ms", with.p99_ms},
            {"clean_p50_ms", without.p50_ms},
            {"clean_p99_ms", without.p99_ms},
            {"p50_ratio", p50_ratio},
            {"p99_ratio", p99_ratio},
            {"bar", foreign_bar},
            {"reached", 1 / p50_ratio >= foreign_bar && 1 / p99_ratio >= foreign_bar}}}};
}

}  // namespace dovetail::cli::bench
