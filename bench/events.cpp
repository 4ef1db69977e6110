// The event store, or raw libpq, for ./bench/compare: `bench_events dovetail|raw COMMAND DATABASE
// [key=value...]`. The commands are those of bench/peers/common.mjs for event stores, and
//
//   latency URL seconds=S foreign=0|1   the time from the return of append() to the handler, in ms;
//                                       with foreign=1, beside an open transaction of another
//                                       session that has appended
//
// The raw append updates the row of a stream at its expected version and inserts the events, in one
// prepared statement, into tables with the same columns and indexes. The raw reader reads pages by
// the sequence, which misses events that commit late.
#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dovetail/dovetail.hpp"
#include "raw_program.hpp"

namespace {

using namespace dovetail;
using Steady = std::chrono::steady_clock;

const char* const raw_schema = R"(
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

struct Rate {
  long calls;
  double seconds;
};

using Work = std::function<void(int call)>;

/// Runs the work of `make(thread)` on each of the threads until the time is over. Calls of the
/// first quarter of a second do not count.
Rate rate(long threads, double seconds, const std::function<Work(int thread)>& make) {
  std::atomic<bool> over{false};
  std::atomic<long> calls{0};
  std::vector<std::jthread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      const auto work = make(thread);
      for (int call = 0; !over; ++call) {
        work(call);
        ++calls;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{250});
  const long before = calls;
  const auto begun = Steady::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const Rate found{calls - before, std::chrono::duration<double>(Steady::now() - begun).count()};
  over = true;
  return found;
}

void print(const Rate& rate) {
  std::printf("{\"messages\": %ld, \"seconds\": %f}\n", rate.calls, rate.seconds);
}

/// A stream has this many appends, then the next one begins.
constexpr int appends_per_stream = 20;

std::string stream_of(int thread, int call) {
  return "order-" + std::to_string(thread) + "x" + std::to_string(call / appends_per_stream);
}

class Contestant {
 public:
  explicit Contestant(std::string url) : url_(std::move(url)) {}
  virtual ~Contestant() = default;
  Contestant(const Contestant&) = delete;
  Contestant& operator=(const Contestant&) = delete;

  virtual void set_up() = 0;
  /// Appends `size` events per call.
  virtual Work appender(int thread, long connections, long size) = 0;
  virtual void fill(long events) = 0;
  /// Reads all events. Returns their number and the time.
  virtual Rate catch_up() = 0;

 protected:
  const std::string url_;
};

class Raw final : public Contestant {
 public:
  using Contestant::Contestant;

  void set_up() override { RawConnection(url_).run(raw_schema); }
  Work appender(int thread, long /*connections*/, long size) override {
    auto connection = std::make_shared<RawConnection>(url_);
    connection->prepare("append", raw_append);
    return [=](int call) {
      connection->execute(
          "append", {stream_of(thread, call), std::to_string(call % appends_per_stream * size),
                     std::to_string(size), data});
    };
  }
  void fill(long events) override {
    RawConnection connection(url_);
    connection.run(
        "insert into raw_events.event (stream, version, id, key, type, data) select i / 100, "
        "i % 100, gen_random_uuid(), 'order-' || i / 100, 'OrderPaid', '" +
        data + "' from generate_series(1, " + std::to_string(events) + ") i");
    connection.run("vacuum analyze raw_events.event");
  }
  Rate catch_up() override {
    RawConnection connection(url_);
    connection.prepare("page",
                       "select no, key, version, at, id, type, data from raw_events.event "
                       "where no > $1::bigint order by no limit 1000");
    long after = 0;
    const auto begun = Steady::now();
    for (int rows = 1'000; rows == 1'000;) {
      rows = connection.execute("page", {std::to_string(after)});
      after += rows;
    }
    return {after, std::chrono::duration<double>(Steady::now() - begun).count()};
  }
};

class Ours final : public Contestant {
 public:
  using Contestant::Contestant;

  void set_up() override { open({.deploy_schema = true}); }
  Work appender(int thread, long connections, long size) override {
    {
      const std::lock_guard lock(mutex_);
      if (!platform_) open({.max_connections = static_cast<std::size_t>(connections) + 1});
    }
    const std::vector<NewEvent> batch(static_cast<std::size_t>(size),
                                      {.type = "OrderPaid", .data = data});
    return [&events = platform_->events(), batch, thread, size](int call) {
      events.append(stream_of(thread, call),
                    ExpectedVersion::exactly(call % appends_per_stream * size), batch);
    };
  }
  void fill(long events) override {
    open({});
    const std::vector<NewEvent> batch(100, {.type = "OrderPaid", .data = data});
    for (long i = 0; i < events / 100; ++i)
      platform_->events().append("fill-" + std::to_string(i), ExpectedVersion::any(), batch);
    platform_->events().stamp();
    RawConnection(url_).run("vacuum analyze infra.event");
  }
  /// Through a subscription that does nothing, in pages of 1,000.
  Rate catch_up() override {
    open({});
    auto& events = platform_->events();
    const auto head = events.stamp();
    std::atomic<long> handled{0};
    events.subscribe("catch-up", {.batch_size = 1'000},
                     [&](std::span<const Event> batch, SubscriptionContext&) {
                       handled += static_cast<long>(batch.size());
                     });
    const auto begun = Steady::now();
    platform_->start();
    while (!events.wait_for("catch-up", head, std::chrono::minutes{5})) {
    }
    const Rate found{handled, std::chrono::duration<double>(Steady::now() - begun).count()};
    platform_.reset();
    return found;
  }
  void latency(double seconds, bool foreign);

 private:
  void open(PlatformOptions options) {
    options.log_sink = null_log_sink();
    platform_.emplace(Platform::open(url_, options));
  }

  std::mutex mutex_;
  std::optional<Platform> platform_;
};

void Ours::latency(double seconds, bool foreign) {
  open({});
  std::atomic<Steady::rep> arrived{0};
  platform_->events().subscribe("latency", {.start = SubscriptionStart::now()},
                                [&](std::span<const Event>, SubscriptionContext&) {
                                  arrived = Steady::now().time_since_epoch().count();
                                });
  platform_->start();
  RawConnection other(url_);
  if (foreign) {
    other.run(
        "begin; select pg_current_xact_id();"
        "select infra.event_append('idle-appender', -1, '{T}', '{d}')");
  }
  std::this_thread::sleep_for(std::chrono::seconds{1});
  std::string times;
  const auto until = Steady::now() + std::chrono::duration<double>(seconds);
  while (Steady::now() < until) {
    arrived = 0;
    platform_->events().append("latency", ExpectedVersion::any(), {{.type = "T"}});
    const auto committed = Steady::now();
    while (arrived == 0) std::this_thread::sleep_for(std::chrono::microseconds{50});
    const Steady::time_point at{Steady::duration{arrived.load()}};
    times += (times.empty() ? "" : ", ") +
             std::to_string(std::chrono::duration<double, std::milli>(at - committed).count());
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  platform_.reset();
  std::printf("{\"samples\": [%s]}\n", times.c_str());
}

void run_command(Contestant& contestant, const std::string& command, raw::Arguments& arguments) {
  if (command == "setup") {
    contestant.set_up();
    std::puts("{}");
  } else if (command == "append") {
    const auto connections = arguments.positive("connections", 8);
    const auto seconds = static_cast<double>(arguments.positive("seconds", 3));
    const auto size = arguments.positive("size", 1);
    print(rate(connections, seconds,
               [&](int thread) { return contestant.appender(thread, connections, size); }));
  } else if (command == "fill") {
    const auto events = arguments.positive("events", 100'000);
    contestant.fill(events);
    std::printf("{\"events\": %ld}\n", events);
  } else if (command == "catchup") {
    const auto events = arguments.positive("events", 100'000);
    const auto found = contestant.catch_up();
    if (found.calls != events)
      throw std::runtime_error(std::to_string(found.calls) + " events were read");
    print(found);
  } else {
    throw std::invalid_argument("unknown command: " + command);
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string who = count > 1 ? words[1] : "";
  if (who != "dovetail" && who != "raw") {
    std::fprintf(stderr, "usage: %s dovetail|raw COMMAND DATABASE [key=value...]\n", words[0]);
    return 2;
  }
  return raw::run(
      words[0], "dovetail|raw COMMAND DATABASE", count - 1, words + 1,
      [&](const std::string& command, const std::string& url, raw::Arguments& arguments) {
        if (who == "dovetail" && command == "latency") {
          const auto seconds = static_cast<double>(arguments.positive("seconds", 3));
          Ours(url).latency(seconds, arguments.number("foreign", 0) != 0);
          return;
        }
        std::unique_ptr<Contestant> contestant = std::make_unique<Raw>(url);
        if (who == "dovetail") contestant = std::make_unique<Ours>(url);
        run_command(*contestant, command, arguments);
        arguments.no_more();
      });
}
