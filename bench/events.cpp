// The event store against raw libpq, in the same run and on the same server: `events DATABASE
// [seconds=N] [connections=N] [events=N] [rounds=N]`. Prints rates, and the ratios of their
// medians.
//
// The raw append updates the row of a stream at its expected version and inserts the event, in one
// prepared statement, into tables with the same columns and indexes. The raw reader reads pages by
// the sequence, which misses events that commit late.
#include <libpq-fe.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/dovetail.hpp"
#include "raw_program.hpp"

namespace {

using namespace dovetail;
using Steady = std::chrono::steady_clock;

const char* const raw_schema = R"(
drop schema if exists raw_events cascade;
create schema raw_events;
create table raw_events.stream (no bigint generated always as identity primary key,
  key text collate "C" not null unique, version bigint not null default 0) with (fillfactor = 70);
create table raw_events.event (no bigint generated always as identity primary key,
  stream bigint not null, version bigint not null,
  at timestamptz not null default clock_timestamp(), id uuid not null unique,
  key text collate "C" not null, type text not null, data text not null,
  unique (stream, version)))";

const char* const raw_append = R"(
with s as (insert into raw_events.stream as s (key, version) values ($1, $3::bigint)
           on conflict (key) do update set version = s.version + $3::bigint
             where s.version = $2::bigint
           returning no, version)
insert into raw_events.event (stream, version, id, key, type, data)
select s.no, s.version - $3::bigint + i, gen_random_uuid(), $1, 'OrderPaid', $4
  from s, generate_series(1, $3::bigint) i)";

const std::string data =
    R"({"amount": 12345, "currency": "EUR", "order": "order-4711", "note": "paid"})";

class RawConnection {
 public:
  explicit RawConnection(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
    if (PQstatus(connection_) != CONNECTION_OK)
      throw std::runtime_error(PQerrorMessage(connection_));
  }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  ~RawConnection() { PQfinish(connection_); }

  void run(const std::string& sql) { check(PQexec(connection_, sql.c_str())); }
  void prepare(const char* name, const char* sql) {
    check(PQprepare(connection_, name, sql, 0, nullptr));
  }
  /// Returns the number of rows of the result.
  int execute(const char* name, const std::vector<std::string>& values) {
    std::vector<const char*> pointers;
    for (const auto& value : values) pointers.push_back(value.c_str());
    return check(PQexecPrepared(connection_, name, static_cast<int>(values.size()), pointers.data(),
                                nullptr, nullptr, 1));
  }

 private:
  int check(PGresult* result) {
    const auto status = PQresultStatus(result);
    const int rows = PQntuples(result);
    PQclear(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
      throw std::runtime_error(PQerrorMessage(connection_));
    return rows;
  }
  PGconn* connection_;
};

struct BenchSettings {
  std::string url;
  double seconds;
  int connections;
  int events;
  int rounds;
};

/// Runs `work` on each of the threads until the time is over. Returns calls per second.
double rate(const BenchSettings& settings,
            const std::function<std::function<void(int call)>(int thread)>& make) {
  std::atomic<bool> over{false};
  std::atomic<long> calls{0};
  std::vector<std::jthread> threads;
  const auto begun = Steady::now();
  for (int thread = 0; thread < settings.connections; ++thread) {
    threads.emplace_back([&, thread] {
      const auto work = make(thread);
      for (int call = 0; !over; ++call) {
        work(call);
        ++calls;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(settings.seconds));
  over = true;
  threads.clear();
  return static_cast<double>(calls) / std::chrono::duration<double>(Steady::now() - begun).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void report(const char* what, const std::vector<double>& ours, const std::vector<double>& raw) {
  std::printf("%-44s dovetail %9.0f/s   raw %9.0f/s   ratio %.2f\n", what, median(ours),
              median(raw), median(ours) / median(raw));
  std::fflush(stdout);
}

/// A stream has this many appends, then the next one begins.
constexpr int appends_per_stream = 20;

std::string stream_of(int thread, int call, int round) {
  return "order-" + std::to_string(round) + "-" + std::to_string(thread) + "-" +
         std::to_string(call / appends_per_stream);
}

void bench_append(const BenchSettings& settings, Events& events, int count, const char* what) {
  std::vector<double> ours;
  std::vector<double> raw;
  static int round = 0;
  for (int i = 0; i < settings.rounds; ++i) {
    ++round;
    raw.push_back(rate(settings, [&](int thread) {
      auto connection = std::make_shared<RawConnection>(settings.url);
      connection->prepare("append", raw_append);
      return [=](int call) {
        connection->execute("append", {stream_of(thread, call, round),
                                       std::to_string(call % appends_per_stream * count),
                                       std::to_string(count), data});
      };
    }));
    ours.push_back(rate(settings, [&](int thread) {
      std::vector<NewEvent> batch(static_cast<std::size_t>(count),
                                  {.type = "OrderPaid", .data = data});
      return [&events, batch, thread, count](int call) {
        events.append(stream_of(thread, call, round),
                      ExpectedVersion::exactly(call % appends_per_stream * count), batch);
      };
    }));
  }
  report(what, ours, raw);
}

/// Reads all events through a subscription that does nothing, in pages of 1,000.
double catch_up(const BenchSettings& settings, const std::string& name, std::int64_t head) {
  auto platform = Platform::open(settings.url, {.log_sink = null_log_sink()});
  std::atomic<std::int64_t> handled{0};
  platform.events().subscribe(name, {.batch_size = 1'000},
                              [&](std::span<const Event> batch, SubscriptionContext&) {
                                handled += static_cast<std::int64_t>(batch.size());
                              });
  const auto begun = Steady::now();
  platform.start();
  while (!platform.events().wait_for(name, head, std::chrono::minutes{5})) {
  }
  return static_cast<double>(handled) /
         std::chrono::duration<double>(Steady::now() - begun).count();
}

double raw_reading(const BenchSettings& settings) {
  RawConnection connection(settings.url);
  connection.prepare("page",
                     "select no, key, version, at, id, type, data from raw_events.event "
                     "where no > $1::bigint order by no limit 1000");
  long after = 0;
  const auto begun = Steady::now();
  for (int rows = 1'000; rows == 1'000;) {
    rows = connection.execute("page", {std::to_string(after)});
    after += rows;
  }
  return static_cast<double>(after) / std::chrono::duration<double>(Steady::now() - begun).count();
}

void fill(const BenchSettings& settings, Events& events) {
  RawConnection connection(settings.url);
  connection.run("truncate raw_events.stream, raw_events.event restart identity");
  connection.run(
      "insert into raw_events.event (stream, version, id, key, type, data) select i / 100, i % "
      "100, "
      "gen_random_uuid(), 'order-' || i / 100, 'OrderPaid', '" +
      data + "' from generate_series(1, " + std::to_string(settings.events) + ") i");
  const std::vector<NewEvent> batch(100, {.type = "OrderPaid", .data = data});
  for (int i = 0; i < settings.events / 100; ++i)
    events.append("fill-" + std::to_string(i), ExpectedVersion::any(), batch);
}

void bench_catch_up(const BenchSettings& settings, Events& events) {
  fill(settings, events);
  const auto head = events.stamp();
  std::vector<double> ours;
  std::vector<double> raw;
  for (int i = 0; i < settings.rounds; ++i) {
    raw.push_back(raw_reading(settings));
    ours.push_back(catch_up(settings, "catch-up-" + std::to_string(i), head));
  }
  report("catch-up, no-op subscription, pages of 1,000", ours, raw);
}

/// The time from the return of append() to the call of the handler, with a foreign transaction
/// open.
void bench_latency(const BenchSettings& settings, bool foreign, const char* what) {
  auto platform = Platform::open(settings.url, {.log_sink = null_log_sink()});
  std::atomic<Steady::rep> arrived{0};
  platform.events().subscribe(std::string{"latency-"} + (foreign ? "1" : "0"),
                              {.start = SubscriptionStart::now()},
                              [&](std::span<const Event>, SubscriptionContext&) {
                                arrived = Steady::now().time_since_epoch().count();
                              });
  platform.start();
  std::unique_ptr<RawConnection> other;
  if (foreign) {
    other = std::make_unique<RawConnection>(settings.url);
    other->run(
        "begin; select pg_current_xact_id();"
        "select infra.event_append('idle-appender', -1, '{T}', '{d}')");
  }
  std::this_thread::sleep_for(std::chrono::seconds{2});
  std::vector<double> times;
  const auto until = Steady::now() + std::chrono::duration<double>(settings.seconds);
  while (Steady::now() < until) {
    arrived = 0;
    platform.events().append("latency", ExpectedVersion::any(), {{.type = "T"}});
    const auto committed = Steady::now();
    while (arrived == 0) std::this_thread::sleep_for(std::chrono::microseconds{50});
    const Steady::time_point at{Steady::duration{arrived.load()}};
    times.push_back(std::chrono::duration<double, std::milli>(at - committed).count());
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  std::ranges::sort(times);
  std::printf("%-44s p50 %.2f ms   p99 %.2f ms   (%zu events)\n", what, times[times.size() / 2],
              times[times.size() * 99 / 100], times.size());
  std::fflush(stdout);
}

void bench_all(const BenchSettings& settings) {
  RawConnection(settings.url).run(raw_schema);
  auto platform = Platform::open(
      settings.url, {.deploy_schema = true,
                     .max_connections = static_cast<std::size_t>(settings.connections) + 1,
                     .log_sink = null_log_sink()});
  bench_append(settings, platform.events(), 1, "append 1 event, expected version");
  bench_append(settings, platform.events(), 10, "append 10 events, expected version");
  bench_catch_up(settings, platform.events());
  bench_latency(settings, false, "latency from commit to handler");
  bench_latency(settings, true, "the same, foreign transaction, idle appender");
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s DATABASE [key=value...]\n", words[0]);
    return 2;
  }
  try {
    raw::Arguments arguments(words + 2, words + count);
    const BenchSettings settings{
        .url = words[1],
        .seconds = static_cast<double>(arguments.positive("seconds", 3)),
        .connections = static_cast<int>(arguments.positive("connections", 8)),
        .events = static_cast<int>(arguments.positive("events", 100'000)),
        .rounds = static_cast<int>(arguments.positive("rounds", 3))};
    arguments.no_more();
    bench_all(settings);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
