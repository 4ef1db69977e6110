// Measures a queue in plain PostgreSQL. Its figures are the limit for those of the library.
//
//   raw_postgres setup   URL
//   raw_postgres single  URL [connections=8] [seconds=5] [notify=0]
//   raw_postgres bulk    URL [messages=200000] [how=copy|unnest] [batch=5000|2000] [connections=2]
//   raw_postgres drain   URL [messages=200000] [how=HOW] [batch=100] [connections=2]
//   raw_postgres latency URL [seconds=10] [rate=20]
//
// clang-format off
// HOW is one of
//   history        claim, then ack with an update: two round trips, two transactions
//   fused          ack the last batch with a delete and claim the next, in one round trip and one
//                  transaction
//   fused_history  like fused, but the ack is an update
//   move           like fused, but the ack moves the rows into a second table
//   delete         lock and delete in one statement: no lease and no ack
// clang-format on
//
// It contains no code of Dovetail: libpq, prepared statements, binary parameters, READ COMMITTED,
// durable commits. Prints one line of JSON. `drain` expects exactly the rows of `setup` and `bulk`.
#include <endian.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "raw_program.hpp"

namespace {

using Steady = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::string_view topic = "orders";
constexpr std::size_t payload_size = 100;

using raw::Arguments;

// -------------------------------------------------------------------------------------------------
// binary

/// One binary parameter. The binary format of a text is its bytes.
using Binary = std::string;

void append_int32(Binary& out, std::int32_t value) {
  const auto big = htobe32(static_cast<std::uint32_t>(value));
  out.append(reinterpret_cast<const char*>(&big), sizeof big);
}

void append_int64(Binary& out, std::int64_t value) {
  const auto big = htobe64(static_cast<std::uint64_t>(value));
  out.append(reinterpret_cast<const char*>(&big), sizeof big);
}

/// The head of a one-dimensional array without nulls, in the server's binary format.
Binary array_head(std::int32_t element_type, std::size_t count) {
  Binary out;
  append_int32(out, count == 0 ? 0 : 1);
  append_int32(out, 0);
  append_int32(out, element_type);
  if (count == 0) return out;
  append_int32(out, static_cast<std::int32_t>(count));
  append_int32(out, 1);
  return out;
}

Binary bigint_array(const std::vector<std::int64_t>& values) {
  constexpr std::int32_t int8_type = 20;
  auto out = array_head(int8_type, values.size());
  out.reserve(out.size() + values.size() * 12);
  for (const auto value : values) {
    append_int32(out, 8);
    append_int64(out, value);
  }
  return out;
}

Binary text_array(std::size_t count, const std::string& value) {
  constexpr std::int32_t text_type = 25;
  auto out = array_head(text_type, count);
  out.reserve(out.size() + count * (4 + value.size()));
  for (std::size_t i = 0; i < count; ++i) {
    append_int32(out, static_cast<std::int32_t>(value.size()));
    out += value;
  }
  return out;
}

std::int64_t int64_at(const PGresult* result, int row, int column) {
  std::uint64_t big;
  std::memcpy(&big, PQgetvalue(result, row, column), sizeof big);
  return static_cast<std::int64_t>(be64toh(big));
}

Binary random_uuid() {
  std::random_device random;
  Binary out;
  for (int i = 0; i < 4; ++i) append_int32(out, static_cast<std::int32_t>(random()));
  return out;
}

// -------------------------------------------------------------------------------------------------
// connection

struct FreeResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, FreeResult>;

struct CloseConnection {
  void operator()(PGconn* connection) const { PQfinish(connection); }
};

class Connection {
 public:
  explicit Connection(const std::string& url) : native_(PQconnectdb(url.c_str())) {
    if (PQstatus(native_.get()) != CONNECTION_OK) fail();
    run("set client_min_messages = warning");
    run("set synchronous_commit = on");
    run("set default_transaction_isolation = 'read committed'");
    // The best plan of each statement does not depend on its parameters.
    run("set plan_cache_mode = force_generic_plan");
    run("set jit = off");
  }

  PGconn* native() const { return native_.get(); }

  Result run(const std::string& sql) { return checked(PQexec(native(), sql.c_str())); }

  long number(const std::string& sql) { return std::stol(PQgetvalue(run(sql).get(), 0, 0)); }

  void prepare(const char* name, const std::string& sql) {
    checked(PQprepare(native(), name, sql.c_str(), 0, nullptr));
  }

  /// Runs a prepared statement. Parameters and results are binary.
  template <class... Parameter>
  Result call(const char* name, const Parameter&... parameter) {
    constexpr int count = sizeof...(Parameter);
    const char* values[count + 1] = {parameter.data()..., nullptr};
    const int lengths[count + 1] = {static_cast<int>(parameter.size())..., 0};
    const int formats[count + 1] = {(static_cast<void>(parameter), 1)..., 0};
    return checked(PQexecPrepared(native(), name, count, values, lengths, formats, 1));
  }

  void copy(const char* sql, const std::string& lines) {
    run(sql);
    if (PQputCopyData(native(), lines.data(), static_cast<int>(lines.size())) != 1) fail();
    if (PQputCopyEnd(native(), nullptr) != 1) fail();
    while (PGresult* result = PQgetResult(native())) checked(result);
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(PQerrorMessage(native())); }

  Result checked(PGresult* raw) const {
    Result result(raw);
    const auto status = PQresultStatus(raw);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_COPY_IN) fail();
    return result;
  }

  std::unique_ptr<PGconn, CloseConnection> native_;
};

using Connections = std::vector<std::unique_ptr<Connection>>;

Connections connect(const std::string& url, long count) {
  Connections out;
  for (long i = 0; i < count; ++i) out.push_back(std::make_unique<Connection>(url));
  return out;
}

// -------------------------------------------------------------------------------------------------
// measuring

struct Figure {
  long messages;
  double seconds;
};

/// Runs `work` on all connections at once, with one thread each. `work` returns the number of
/// messages that it handled.
Figure measure(const Connections& connections, const std::function<long(Connection&)>& work) {
  const auto start = Steady::now();
  std::vector<std::future<long>> running;
  for (const auto& connection : connections)
    running.push_back(std::async(std::launch::async, [&] { return work(*connection); }));
  long messages = 0;
  for (auto& one : running) messages += one.get();
  return {messages, Seconds(Steady::now() - start).count()};
}

void print(const Figure& figure) {
  std::printf("{\"messages\":%ld,\"seconds\":%.6f}\n", figure.messages, figure.seconds);
}

void expect(const char* what, long wanted, long found) {
  if (wanted == found) return;
  throw std::runtime_error(std::string(what) + ": expected " + std::to_string(wanted) + ", found " +
                           std::to_string(found));
}

/// A JSON text of the payload's size that starts with the given members.
std::string payload(const std::string& members) {
  std::string out = "{" + members + ",\"fill\":\"";
  out.append(payload_size - 2 - out.size(), 'x');
  return out + "\"}";
}

std::string plain_payload() {
  return payload("\"order\":4711");
}

// -------------------------------------------------------------------------------------------------
// setup

void setup(const std::string& url) {
  Connection connection(url);
  connection.run("drop table if exists raw_queue, raw_done");
  connection.run(
      "create table raw_queue (id bigint generated always as identity primary key,"
      " status smallint not null default 0, due_at timestamptz not null default now(),"
      " lease_until timestamptz, owner uuid, attempts int not null default 0,"
      " topic text not null, payload text not null)");
  connection.run("create index raw_queue_ready on raw_queue (due_at, id) where status = 0");
  connection.run(
      "create table raw_done (id bigint primary key, due_at timestamptz not null,"
      " done_at timestamptz not null, attempts int not null, topic text not null, payload text not "
      "null)");
  std::puts("{\"ok\":true}");
}

// -------------------------------------------------------------------------------------------------
// enqueue

constexpr const char* insert_one = "insert into raw_queue (topic, payload) values ($1, $2)";
constexpr const char* insert_and_notify =
    "with i as (insert into raw_queue (topic, payload) values ($1, $2)) select pg_notify('raw', "
    "'')";

void single(const std::string& url, Arguments& arguments) {
  const auto connections = connect(url, arguments.positive("connections", 8));
  const auto length = std::chrono::seconds(arguments.positive("seconds", 5));
  const bool notify = arguments.number("notify", 0) != 0;
  arguments.no_more();
  for (const auto& one : connections)
    one->prepare("enqueue", notify ? insert_and_notify : insert_one);
  const auto text = plain_payload();
  const auto end = Steady::now() + length;
  print(measure(connections, [&](Connection& connection) {
    long messages = 0;
    for (; Steady::now() < end; ++messages) connection.call("enqueue", topic, text);
    return messages;
  }));
}

/// Splits `messages` into transactions of at most `batch` and calls `enqueue` with the size of
/// each.
long in_batches(long messages, long batch, const std::function<void(long)>& enqueue) {
  for (long left = messages; left > 0; left -= batch) enqueue(std::min(left, batch));
  return messages;
}

long bulk_copy(Connection& connection, long messages, long batch) {
  const auto line = std::string(topic) + "\t" + plain_payload() + "\n";
  std::string lines;
  return in_batches(messages, batch, [&](long count) {
    lines.clear();
    for (long i = 0; i < count; ++i) lines += line;
    connection.copy("copy raw_queue (topic, payload) from stdin", lines);
  });
}

long bulk_unnest(Connection& connection, long messages, long batch) {
  const auto text = plain_payload();
  return in_batches(messages, batch, [&](long count) {
    connection.call("enqueue", topic, text_array(static_cast<std::size_t>(count), text));
  });
}

void bulk(const std::string& url, Arguments& arguments) {
  const auto messages = arguments.number("messages", 200'000);
  const auto how = arguments.text("how", "copy");
  if (how != "copy" && how != "unnest") throw std::invalid_argument("how is copy or unnest");
  const bool by_copy = how == "copy";
  const auto batch = arguments.positive("batch", by_copy ? 5'000 : 2'000);
  const auto connections = connect(url, arguments.positive("connections", 2));
  arguments.no_more();
  const auto count = static_cast<long>(connections.size());
  if (!by_copy)
    for (const auto& one : connections)
      one->prepare("enqueue",
                   "insert into raw_queue (topic, payload) select $1, p from unnest($2::text[]) p");
  print(measure(connections, [&](Connection& connection) {
    // The first connection gets the remainder of the division.
    const auto share =
        messages / count + (&connection == connections[0].get() ? messages % count : 0);
    return by_copy ? bulk_copy(connection, share, batch) : bulk_unnest(connection, share, batch);
  }));
}

// -------------------------------------------------------------------------------------------------
// drain

std::string ready_rows(long batch) {
  return "ctid = any(array(select ctid from raw_queue where status = 0 and due_at <= now()"
         " order by due_at, id limit " +
         std::to_string(batch) + " for update skip locked))";
}

/// `owner` is parameter 2 if the statement also acks, otherwise parameter 1.
std::string claim_sql(long batch, const std::string& owner) {
  return "update raw_queue set status = 1, lease_until = clock_timestamp() + interval '30 s', "
         "owner = " +
         owner + ", attempts = attempts + 1 where " + ready_rows(batch) +
         " returning id, topic, payload";
}

const std::string owned = " where id = any($1::bigint[]) and owner = $2 and status = 1";
const std::string finish_sql =
    "update raw_queue set status = 2, lease_until = null, owner = null" + owned;
const std::string remove_sql = "delete from raw_queue" + owned;

std::string fused_sql(const std::string& how, long batch) {
  if (how == "fused") return "with acked as (" + remove_sql + ") " + claim_sql(batch, "$2");
  if (how == "fused_history") return "with acked as (" + finish_sql + ") " + claim_sql(batch, "$2");
  return "with gone as (" + remove_sql +
         " returning id, due_at, attempts, topic, payload),"
         " kept as (insert into raw_done (id, due_at, done_at, attempts, topic, payload)"
         " select id, due_at, now(), attempts, topic, payload from gone) " +
         claim_sql(batch, "$2");
}

/// Reads every claimed row like a worker. Returns the ids.
std::vector<std::int64_t> read_rows(const PGresult* result) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(PQntuples(result)));
  for (int row = 0; row < PQntuples(result); ++row) {
    ids[static_cast<std::size_t>(row)] = int64_at(result, row, 0);
    const std::string_view text(PQgetvalue(result, row, 2),
                                static_cast<std::size_t>(PQgetlength(result, row, 2)));
    if (text.size() != payload_size || text.front() != '{' || text.back() != '}')
      throw std::runtime_error("a payload is not what was enqueued");
  }
  return ids;
}

void check_acked(const PGresult* result, std::size_t wanted) {
  expect("acked rows", static_cast<long>(wanted),
         std::atol(PQcmdTuples(const_cast<PGresult*>(result))));
}

long drain_history(Connection& connection) {
  const auto owner = random_uuid();
  long messages = 0;
  for (;;) {
    const auto ids = read_rows(connection.call("claim", owner).get());
    if (ids.empty()) return messages;
    check_acked(connection.call("ack", bigint_array(ids), owner).get(), ids.size());
    messages += static_cast<long>(ids.size());
  }
}

long drain_fused(Connection& connection) {
  const auto owner = random_uuid();
  std::vector<std::int64_t> ids;
  long messages = 0;
  do {
    ids = read_rows(connection.call("next", bigint_array(ids), owner).get());
    messages += static_cast<long>(ids.size());
  } while (!ids.empty());
  return messages;
}

long drain_delete(Connection& connection) {
  long messages = 0;
  for (;;) {
    const auto ids = read_rows(connection.call("take").get());
    if (ids.empty()) return messages;
    messages += static_cast<long>(ids.size());
  }
}

using Drain = long (*)(Connection&);

/// Prepares the statements of a drain method and returns its loop.
Drain prepare_drain(const Connections& connections, const std::string& how, long batch) {
  const auto prepare = [&](const char* name, const std::string& sql) {
    for (const auto& one : connections) one->prepare(name, sql);
  };
  if (how == "history") {
    prepare("claim", claim_sql(batch, "$1"));
    prepare("ack", finish_sql);
    return drain_history;
  }
  if (how == "delete") {
    prepare("take",
            "delete from raw_queue where " + ready_rows(batch) + " returning id, topic, payload");
    return drain_delete;
  }
  if (how != "fused" && how != "fused_history" && how != "move")
    throw std::invalid_argument("how is history, fused, fused_history, move or delete");
  prepare("next", fused_sql(how, batch));
  return drain_fused;
}

long kept_rows(Connection& connection) {
  return connection.number(
      "select (select count(*) from raw_queue where status = 2) + count(*) from raw_done");
}

void drain(const std::string& url, Arguments& arguments) {
  const auto messages = arguments.number("messages", 200'000);
  const auto how = arguments.text("how", "history");
  const auto batch = arguments.positive("batch", 100);
  const auto connections = connect(url, arguments.positive("connections", 2));
  arguments.no_more();
  Connection observer(url);
  expect("ready rows", messages,
         observer.number("select count(*) from raw_queue where status = 0"));
  const auto kept_before = kept_rows(observer);
  const auto work = prepare_drain(connections, how, batch);
  const auto figure = measure(connections, work);
  expect("drained rows", messages, figure.messages);
  expect("unfinished rows", 0, observer.number("select count(*) from raw_queue where status <> 2"));
  const bool keeps = how == "history" || how == "fused_history" || how == "move";
  expect("kept rows", keeps ? messages : 0, kept_rows(observer) - kept_before);
  print(figure);
}

// -------------------------------------------------------------------------------------------------
// latency

constexpr long warm_up = 20;

std::int64_t nanoseconds(Steady::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// Enqueues at equal intervals. Each payload contains its number and the time of its enqueue.
void enqueue_evenly(Connection& connection, long messages, long rate) {
  const auto start = Steady::now();
  for (long n = 0; n < messages; ++n) {
    std::this_thread::sleep_until(start + std::chrono::nanoseconds(1'000'000'000) * n / rate);
    const auto now = nanoseconds(Steady::now());
    const auto text = payload("\"n\":" + std::to_string(n) + ",\"at\":" + std::to_string(now));
    connection.call("enqueue", topic, text);
  }
}

/// Waits for a notification and consumes all that have arrived.
void await_notification(const Connection& listener) {
  for (bool notified = false; !notified;) {
    while (PGnotify* notification = PQnotifies(listener.native())) {
      PQfreemem(notification);
      notified = true;
    }
    if (notified) return;
    pollfd ready{PQsocket(listener.native()), POLLIN, 0};
    if (poll(&ready, 1, 10'000) <= 0) throw std::runtime_error("no notification for 10 seconds");
    if (PQconsumeInput(listener.native()) != 1)
      throw std::runtime_error(PQerrorMessage(listener.native()));
  }
}

/// Adds one sample per claimed row, in milliseconds. Rows of the warm-up do not count.
void add_samples(const PGresult* result, Steady::time_point in_hand, std::vector<double>& samples) {
  for (int row = 0; row < PQntuples(result); ++row) {
    const std::string text(PQgetvalue(result, row, 2), payload_size);
    long n = 0;
    std::int64_t at = 0;
    if (std::sscanf(text.c_str(), "{\"n\":%ld,\"at\":%" SCNd64, &n, &at) != 2)
      throw std::runtime_error("a payload is not of this run");
    if (n >= warm_up) samples.push_back(static_cast<double>(nanoseconds(in_hand) - at) / 1e6);
  }
}

/// Claims after each notification until `messages` rows have been handled.
std::vector<double> claim_on_notification(const Connection& listener, Connection& claimer,
                                          long messages) {
  constexpr std::size_t limit = 10;
  claimer.prepare("claim", claim_sql(limit, "$1"));
  claimer.prepare("ack", finish_sql);
  const auto owner = random_uuid();
  std::vector<double> samples;
  for (long handled = 0; handled < messages;) {
    await_notification(listener);
    std::size_t claimed;
    do {
      const auto rows = claimer.call("claim", owner);
      const auto in_hand = Steady::now();
      const auto ids = read_rows(rows.get());
      add_samples(rows.get(), in_hand, samples);
      if (!ids.empty())
        check_acked(claimer.call("ack", bigint_array(ids), owner).get(), ids.size());
      claimed = ids.size();
      handled += static_cast<long>(claimed);
    } while (claimed == limit);
  }
  return samples;
}

void latency(const std::string& url, Arguments& arguments) {
  const auto rate = arguments.positive("rate", 20);
  const auto messages = warm_up + arguments.positive("seconds", 10) * rate;
  arguments.no_more();
  Connection listener(url), claimer(url), enqueuer(url);
  expect("waiting rows", 0, listener.number("select count(*) from raw_queue where status = 0"));
  listener.run("listen raw");
  enqueuer.prepare("enqueue", insert_and_notify);
  auto enqueuing =
      std::async(std::launch::async, [&] { enqueue_evenly(enqueuer, messages, rate); });
  const auto samples = claim_on_notification(listener, claimer, messages);
  enqueuing.get();
  std::printf("{\"samples\":[");
  for (std::size_t i = 0; i < samples.size(); ++i)
    std::printf(i == 0 ? "%.4f" : ",%.4f", samples[i]);
  std::puts("]}");
}

void dispatch(const std::string& command, const std::string& url, Arguments& arguments) {
  if (command == "setup") {
    arguments.no_more();
    return setup(url);
  }
  if (command == "single") return single(url, arguments);
  if (command == "bulk") return bulk(url, arguments);
  if (command == "drain") return drain(url, arguments);
  if (command == "latency") return latency(url, arguments);
  throw std::invalid_argument("unknown command: " + command);
}

}  // namespace

int main(int count, char** words) {
  return raw::run("raw_postgres", "setup|single|bulk|drain|latency URL", count, words, dispatch);
}
