// The outbox's figures on one database, in one run:
//
//   outbox_figures latency URL [SECONDS]         enqueue to handler start at 20 messages a second, p50 p95
//   p99 outbox_figures claims URL [ROWS...]          what one claim of 50 reads, with so many messages
//   waiting (PostgreSQL) outbox_figures snapshot URL [SECONDS]        throughput with and without an old
//   snapshot held open (PostgreSQL) outbox_figures idle URL [SECONDS]            what a worker costs that has
//   nothing to do (PostgreSQL: statements)
//
// Each works in a schema of its own, which it drops.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <thread>

#include "dovetail/dovetail.hpp"

namespace {

using namespace dovetail;
using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* schema = "dovetail_figures";

PlatformOptions options(int batch = 50) {
  PlatformOptions options{
      .schema = schema, .deploy_schema = true, .log_sink = spdlog_log_sink(LogLevel::error)};
  options.worker.batch_size = batch;
  return options;
}

bool is_postgres(const std::string& url) {
  return url.starts_with("postgres");
}

Rows ask(Platform& platform, const std::string& sql) {
  auto transaction = platform.begin();
  auto rows = transaction.query(sql);
  transaction.commit();
  return rows;
}

void drop(Platform& platform, const std::string& url) {
  auto transaction = platform.begin();
  if (is_postgres(url)) transaction.execute(std::string{"drop schema "} + schema + " cascade");
  transaction.commit();
}

double milliseconds_at(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

void latency(const std::string& url, int duration) {
  auto platform = Platform::open(url, options());
  std::mutex mutex;
  std::vector<double> taken;
  platform.on("t", [&](const OutboxMessage& message, HandlerContext&) {
    const auto begun = Steady::time_point{Steady::duration{std::stoll(message.payload)}};
    const std::chrono::duration<double, std::milli> passed = Steady::now() - begun;
    std::lock_guard lock(mutex);
    taken.push_back(passed.count());
  });
  platform.start();
  auto enqueuer = Platform::open(url, options());  // in PostgreSQL: as another process would, over NOTIFY
  auto& outbox = is_postgres(url) ? enqueuer.outbox() : platform.outbox();
  const auto count = static_cast<std::size_t>(duration) * 20;
  for (std::size_t i = 0; i < count; ++i) {
    std::this_thread::sleep_for(milliseconds{50});
    outbox.enqueue({.topic = "t", .payload = std::to_string(Steady::now().time_since_epoch().count())});
  }
  std::this_thread::sleep_for(seconds{1});
  platform.stop();
  std::ranges::sort(taken);
  std::printf("latency at 20/s, %zu of %zu messages: p50 %.2f ms, p95 %.2f ms, p99 %.2f ms, worst %.2f ms\n",
              taken.size(), count, milliseconds_at(taken, 0.5), milliseconds_at(taken, 0.95),
              milliseconds_at(taken, 0.99), taken.back());
  drop(platform, url);
}

void claims(const std::string& url, const std::vector<int>& sizes) {
  auto platform = Platform::open(url, options());
  int rows = 0;
  for (const int size : sizes) {
    {
      auto transaction = platform.begin();
      transaction.execute(
          std::string{"insert into "} + schema +
              ".outbox (id, topic, payload) select gen_random_uuid(), 't', repeat('x', 100) from "
              "generate_series(1, $1::integer)",
          size - rows);
      transaction.commit();
    }
    rows = size;
    ask(platform, "select 1 from pg_stat_clear_snapshot()");
    for (int round = 0; round < 3; ++round) {
      auto transaction = platform.begin();
      const auto plan =
          transaction.query(std::string{"explain (analyze, buffers, timing off) select * from "} + schema +
                            ".outbox_claim(gen_random_uuid(), 50)");
      std::string buffers;
      for (const auto& row : plan) {
        const auto line = row.get<std::string>(0);
        if (buffers.empty() && line.find("Buffers:") != std::string::npos)
          buffers = line.substr(line.find("Buffers:"));
      }
      transaction.rollback();
      if (round == 2) std::printf("claim of 50 with %8d waiting: %s\n", size, buffers.c_str());
    }
  }
  drop(platform, url);
}

void snapshot(const std::string& url, int duration) {
  for (const bool held : {false, true}) {
    auto platform = Platform::open(url, options(200));
    std::atomic<std::int64_t> handled{0};
    platform.on("t", [&](const OutboxMessage&, HandlerContext&) { ++handled; });
    auto watcher = Platform::open(url, options());
    auto old = watcher.begin();
    if (held) {
      old.execute("set transaction isolation level repeatable read");
      (void)old.query(std::string{"select count(*) from "} + schema + ".outbox");
    }
    platform.start();
    std::atomic<bool> done{false};
    std::jthread feeder([&] {
      const std::vector<EnqueueRequest> batch(500, {.topic = "t", .payload = std::string(100, 'x')});
      std::int64_t fed = 0;
      while (!done) {
        if (fed - handled > 5'000) {
          std::this_thread::sleep_for(milliseconds{1});
          continue;
        }
        platform.outbox().enqueue_many(batch);
        fed += 500;
      }
    });
    const int window = std::max(1, duration / 6);
    std::printf("%s:", held ? "an old snapshot is held" : "no snapshot is held");
    for (int i = 0; i < 6; ++i) {
      const auto before = handled.load();
      std::this_thread::sleep_for(seconds{window});
      std::printf(" %lld/s", static_cast<long long>((handled.load() - before) / window));
      std::fflush(stdout);
    }
    done = true;
    feeder.join();
    platform.stop();
    auto other = Platform::open(url, options());
    const auto dead =
        ask(other, std::string{"select n_dead_tup, pg_relation_size(relid) from pg_stat_user_tables where "
                               "schemaname = '"} +
                       schema + "' and relname = 'outbox'");
    std::printf("; dead tuples at the end %lld, table %lld MB\n",
                static_cast<long long>(dead[0].get<std::int64_t>(0)),
                static_cast<long long>(dead[0].get<std::int64_t>(1) >> 20));
    old.rollback();
    drop(other, url);
  }
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void idle(const std::string& url, int duration) {
  auto platform = Platform::open(url, options());
  platform.on("t", [](const OutboxMessage&, HandlerContext&) {});
  platform.start();
  std::this_thread::sleep_for(seconds{10});  // until the polls have become rare
  auto watcher = Platform::open(url, options());
  const auto transactions = [&]() -> std::int64_t {
    if (!is_postgres(url)) return 0;
    return ask(watcher,
               "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()")
        .at(0)
        .get<std::int64_t>(0);
  };
  const auto before = transactions();
  const auto cpu = cpu_seconds();
  std::this_thread::sleep_for(seconds{duration});
  std::printf("idle: %.2f transactions/s, %.4f CPU seconds per second\n",
              static_cast<double>(transactions() - before) / duration, (cpu_seconds() - cpu) / duration);
  platform.stop();
  drop(watcher, url);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) {
    std::cerr << "usage: outbox_figures latency|claims|snapshot|idle URL [NUMBER...]\n";
    return 2;
  }
  std::vector<int> numbers;
  for (std::size_t i = 2; i < arguments.size(); ++i) numbers.push_back(std::stoi(arguments[i]));
  const auto number_or = [&](int fallback) { return numbers.empty() ? fallback : numbers[0]; };
  if (arguments[0] == "latency") latency(arguments[1], number_or(20));
  if (arguments[0] == "claims")
    claims(arguments[1], numbers.empty() ? std::vector{1'000, 100'000, 1'000'000} : numbers);
  if (arguments[0] == "snapshot") snapshot(arguments[1], number_or(120));
  if (arguments[0] == "idle") idle(arguments[1], number_or(30));
  return 0;
}
