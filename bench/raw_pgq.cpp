// Measures PgQ, a PostgreSQL extension that stores events in rotated tables and delivers them in
// batches.
//
//   raw_pgq setup  URL
//   raw_pgq single URL [connections=8] [seconds=5]
//   raw_pgq bulk   URL [messages=200000] [batch=5000] [connections=2]
//   raw_pgq drain  URL [messages=200000]
//
// A consumer of PgQ reads the whole batch between two ticks and finishes the batch. A single event
// has no lease, no ack, and no retry unless the consumer asks for one. The figures are an upper
// bound for whole-batch acks, not for an ack per message.
//
// It contains no code of Dovetail. It needs the package postgresql-15-pgq3 and a superuser. Prints
// one line of JSON. `drain` expects exactly the events of `setup` and `bulk`.
#include <libpq-fe.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "raw_program.hpp"

namespace {

using Steady = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::string_view topic = "orders";
constexpr std::size_t payload_size = 100;

using raw::Arguments;

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
    run("set jit = off");
  }

  Result run(const std::string& sql) { return checked(PQexec(native_.get(), sql.c_str())); }

  /// The first value of the result; empty for null.
  std::string value(const std::string& sql) { return PQgetvalue(run(sql).get(), 0, 0); }

  void prepare(const char* name, const char* sql) {
    checked(PQprepare(native_.get(), name, sql, 0, nullptr));
  }

  /// Runs a prepared statement. Parameters are the bytes of texts, results are binary.
  template <class... Parameter>
  Result call(const char* name, const Parameter&... parameter) {
    constexpr int count = sizeof...(Parameter);
    const char* values[count + 1] = {parameter.data()..., nullptr};
    const int lengths[count + 1] = {static_cast<int>(parameter.size())..., 0};
    const int formats[count + 1] = {(static_cast<void>(parameter), 1)..., 0};
    return checked(PQexecPrepared(native_.get(), name, count, values, lengths, formats, 1));
  }

  void copy(const std::string& sql, const std::string& lines) {
    run(sql);
    if (PQputCopyData(native_.get(), lines.data(), static_cast<int>(lines.size())) != 1) fail();
    if (PQputCopyEnd(native_.get(), nullptr) != 1) fail();
    while (PGresult* result = PQgetResult(native_.get())) checked(result);
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(PQerrorMessage(native_.get())); }

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

/// A JSON text of the payload's size.
std::string payload() {
  std::string out = "{\"order\":4711,\"fill\":\"";
  out.append(payload_size - 2 - out.size(), 'x');
  return out + "\"}";
}

void setup(const std::string& url) {
  Connection connection(url);
  connection.run("create extension if not exists pgq");
  connection.run("select pgq.drop_queue(queue_name, true) from pgq.queue where queue_name = 'q'");
  connection.run("select pgq.create_queue('q')");
  connection.run("select pgq.register_consumer('q', 'c')");
  std::puts("{\"ok\":true}");
}

void single(const std::string& url, Arguments& arguments) {
  const auto connections = connect(url, arguments.positive("connections", 8));
  const auto length = std::chrono::seconds(arguments.positive("seconds", 5));
  arguments.no_more();
  for (const auto& one : connections)
    one->prepare("enqueue", "select pgq.insert_event('q', $1, $2)");
  const auto text = payload();
  const auto end = Steady::now() + length;
  print(measure(connections, [&](Connection& connection) {
    long messages = 0;
    for (; Steady::now() < end; ++messages) connection.call("enqueue", topic, text);
    return messages;
  }));
}

/// One transaction, because the name of the current table is valid until the transaction ends.
void copy_events(Connection& connection, const std::string& lines) {
  const auto table = connection.value("begin; select pgq.current_event_table('q')");
  connection.copy("copy " + table + " (ev_time, ev_type, ev_data) from stdin", lines);
  connection.run("commit");
}

long copy_in_batches(Connection& connection, long messages, long batch) {
  // ev_id and ev_txid have defaults. ev_time has none; `now` is the time of the transaction.
  const auto line = "now\t" + std::string(topic) + "\t" + payload() + "\n";
  std::string lines;
  for (long left = messages; left > 0; left -= batch) {
    lines.clear();
    for (long i = 0; i < std::min(left, batch); ++i) lines += line;
    copy_events(connection, lines);
  }
  return messages;
}

void bulk(const std::string& url, Arguments& arguments) {
  const auto messages = arguments.positive("messages", 200'000);
  const auto batch = arguments.positive("batch", 5'000);
  const auto connections = connect(url, arguments.positive("connections", 2));
  arguments.no_more();
  const auto count = static_cast<long>(connections.size());
  print(measure(connections, [&](Connection& connection) {
    // The first connection gets the remainder of the division.
    const auto share =
        messages / count + (&connection == connections[0].get() ? messages % count : 0);
    return copy_in_batches(connection, share, batch);
  }));
}

/// Makes all committed events visible to consumers.
void tick(Connection& connection) {
  connection.run("select pgq.force_tick('q')");
  if (connection.value("select pgq.ticker('q')").empty())
    throw std::runtime_error("the ticker did not tick");
}

/// Reads every event like a worker. Returns their number.
long read_events(const PGresult* result) {
  for (int row = 0; row < PQntuples(result); ++row) {
    const std::string_view text(PQgetvalue(result, row, 2),
                                static_cast<std::size_t>(PQgetlength(result, row, 2)));
    if (text.size() != payload_size || text.front() != '{' || text.back() != '}')
      throw std::runtime_error("an event is not what was enqueued");
  }
  return PQntuples(result);
}

/// Reads and finishes the next batch. Returns the number of its events, or -1 if there is no
/// further tick.
long consume_batch(Connection& connection) {
  const auto batch = connection.value("select pgq.next_batch('q', 'c')");
  if (batch.empty()) return -1;
  const auto events = read_events(connection.call("events", std::string_view(batch)).get());
  connection.run("select pgq.finish_batch(" + batch + ")");
  return events;
}

long consume_all(Connection& connection) {
  tick(connection);
  long messages = 0;
  for (;;) {
    const auto events = consume_batch(connection);
    if (events < 0) return messages;
    messages += events;
  }
}

void drain(const std::string& url, Arguments& arguments) {
  const auto messages = arguments.positive("messages", 200'000);
  arguments.no_more();
  const auto connections = connect(url, 1);
  connections[0]->prepare(
      "events", "select ev_id, ev_type, ev_data from pgq.get_batch_events($1::text::bigint)");
  const auto figure = measure(connections, consume_all);
  if (figure.messages != messages)
    throw std::runtime_error("read " + std::to_string(figure.messages) + " events of " +
                             std::to_string(messages));
  print(figure);
}

void dispatch(const std::string& command, const std::string& url, Arguments& arguments) {
  if (command == "setup") {
    arguments.no_more();
    return setup(url);
  }
  if (command == "single") return single(url, arguments);
  if (command == "bulk") return bulk(url, arguments);
  if (command == "drain") return drain(url, arguments);
  throw std::invalid_argument("unknown command: " + command);
}

}  // namespace

int main(int count, char** words) {
  return raw::run("raw_pgq", "setup|single|bulk|drain URL", count, words, dispatch);
}
