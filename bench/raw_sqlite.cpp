// Measures a queue in plain SQLite. Its figures are the limit for those of the library.
//
//   raw_sqlite single FILE [seconds=5]
//   raw_sqlite bulk   FILE [messages=200000] [batch=1000]
//   raw_sqlite drain  FILE [messages=200000] [batch=1000] [history=1]
//
// It contains no code of Dovetail: one connection, prepared statements, WAL, synchronous=FULL.
// Prints one line of JSON. `single` and `bulk` create FILE. `drain` expects the file of `bulk`.
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
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
constexpr std::int64_t lease_microseconds = 30'000'000;

using raw::Arguments;

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

/// A prepared statement. After the parameters are bound and the last row is read, it can be used
/// again.
class Statement {
 public:
  Statement(sqlite3* database, const std::string& sql) : database_(database) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v3(database, sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement,
                             nullptr));
    native_.reset(statement);
  }

  Statement& bind(int index, std::int64_t value) {
    check(sqlite3_bind_int64(native_.get(), index, value));
    return *this;
  }

  /// The text must outlive the statement's use.
  Statement& bind(int index, std::string_view text) {
    check(sqlite3_bind_text(native_.get(), index, text.data(), static_cast<int>(text.size()),
                            SQLITE_STATIC));
    return *this;
  }

  /// The bytes must outlive the statement's use.
  Statement& bind(int index, const std::array<unsigned char, 16>& bytes) {
    check(sqlite3_bind_blob(native_.get(), index, bytes.data(), static_cast<int>(bytes.size()),
                            SQLITE_STATIC));
    return *this;
  }

  /// Returns true while there is a row. Resets the statement at the end.
  bool step() {
    const int code = sqlite3_step(native_.get());
    if (code == SQLITE_ROW) return true;
    check(code == SQLITE_DONE ? SQLITE_OK : code);
    check(sqlite3_reset(native_.get()));
    return false;
  }

  void run() {
    while (step()) continue;
  }

  std::int64_t number(int column) { return sqlite3_column_int64(native_.get(), column); }

  std::string_view text(int column) {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(native_.get(), column));
    return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(native_.get(), column))};
  }

 private:
  void check(int code) const {
    if (code != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(database_));
  }

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> native_;
};

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};

class Database {
 public:
  explicit Database(const std::string& file) {
    sqlite3* database = nullptr;
    const int code =
        sqlite3_open_v2(file.c_str(), &database,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    native_.reset(database);
    if (code != SQLITE_OK) throw std::runtime_error("cannot open " + file);
    run("pragma journal_mode = wal");
    run("pragma synchronous = full");
    run("pragma wal_autocheckpoint = 2000");  // slightly faster than the default of 1,000
  }

  Statement prepare(const std::string& sql) const { return {native_.get(), sql}; }

  void run(const std::string& sql) const { prepare(sql).run(); }

  long number(const std::string& sql) const {
    auto statement = prepare(sql);
    statement.step();
    return static_cast<long>(statement.number(0));
  }

 private:
  std::unique_ptr<sqlite3, Close> native_;
};

Database create(const std::string& file) {
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file + suffix);
  Database database(file);
  database.run(
      "create table queue (id integer primary key, status integer not null default 0,"
      " due_at integer not null, lease_until integer, owner blob, attempts integer not null "
      "default 0,"
      " topic text not null, payload text not null)");
  database.run("create index queue_ready on queue (due_at, id) where status = 0");
  return database;
}

/// Microseconds of the wall clock.
std::int64_t now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

/// A JSON text of the payload's size.
std::string payload() {
  std::string out = "{\"order\":4711,\"fill\":\"";
  out.append(payload_size - 2 - out.size(), 'x');
  return out + "\"}";
}

double since(Steady::time_point start) {
  return Seconds(Steady::now() - start).count();
}

void print(long messages, double seconds) {
  std::printf("{\"messages\":%ld,\"seconds\":%.6f}\n", messages, seconds);
}

void expect(const char* what, long wanted, long found) {
  if (wanted == found) return;
  throw std::runtime_error(std::string(what) + ": expected " + std::to_string(wanted) + ", found " +
                           std::to_string(found));
}

constexpr const char* insert_sql = "insert into queue (due_at, topic, payload) values (?1, ?2, ?3)";

void single(const std::string& file, Arguments& arguments) {
  const auto length = std::chrono::seconds(arguments.positive("seconds", 5));
  arguments.no_more();
  const auto database = create(file);
  auto insert = database.prepare(insert_sql);
  const auto text = payload();
  insert.bind(2, topic).bind(3, text);
  long messages = 0;
  const auto start = Steady::now();
  for (; Steady::now() - start < length; ++messages) insert.bind(1, now()).run();
  print(messages, since(start));
}

void bulk(const std::string& file, Arguments& arguments) {
  const auto messages = arguments.positive("messages", 200'000);
  const auto batch = arguments.positive("batch", 1'000);
  arguments.no_more();
  const auto database = create(file);
  auto begin = database.prepare("begin immediate");
  auto commit = database.prepare("commit");
  auto insert = database.prepare(insert_sql);
  const auto text = payload();
  insert.bind(2, topic).bind(3, text);
  const auto start = Steady::now();
  for (long left = messages; left > 0; left -= batch) {
    begin.run();
    insert.bind(1, now());
    for (long i = std::min(left, batch); i > 0; --i) insert.run();
    commit.run();
  }
  print(messages, since(start));
}

/// Drains the queue: each transaction acks the last batch and claims the next.
class Drain {
 public:
  Drain(const Database& database, long batch, bool history)
      : begin_(database.prepare("begin immediate")),
        commit_(database.prepare("commit")),
        select_(database.prepare(
            "select id, topic, payload from queue where status = 0 and due_at <= ?1"
            " order by due_at, id limit " +
            std::to_string(batch))),
        claim_(database.prepare("update queue set status = 1, owner = ?2, lease_until = ?3,"
                                " attempts = attempts + 1 where id = ?1")),
        ack_(database.prepare((history
                                   ? "update queue set status = 2, lease_until = null, owner = null"
                                   : "delete from queue") +
                              std::string(" where id = ?1 and owner = ?2 and status = 1"))) {
    std::random_device random;
    for (auto& byte : owner_) byte = static_cast<unsigned char>(random());
    claim_.bind(2, owner_);
    ack_.bind(2, owner_);
  }

  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  /// Returns the number of handled messages.
  long run() {
    long messages = 0;
    do {
      begin_.run();
      for (const auto id : claimed_) ack_.bind(1, id).run();
      claim();
      commit_.run();
      messages += static_cast<long>(claimed_.size());
    } while (!claimed_.empty());
    return messages;
  }

 private:
  void claim() {
    const auto time = now();
    claimed_.clear();
    select_.bind(1, time);
    while (select_.step()) claimed_.push_back(read_row());
    claim_.bind(3, time + lease_microseconds);
    for (const auto id : claimed_) claim_.bind(1, id).run();
  }

  /// Reads a row like a worker. Returns its id.
  std::int64_t read_row() {
    const auto text = select_.text(2);
    if (text.size() != payload_size || text.front() != '{' || text.back() != '}')
      throw std::runtime_error("a payload is not what was enqueued");
    return select_.number(0);
  }

  Statement begin_, commit_, select_, claim_, ack_;
  std::array<unsigned char, 16> owner_;
  std::vector<std::int64_t> claimed_;
};

void drain(const std::string& file, Arguments& arguments) {
  const auto messages = arguments.positive("messages", 200'000);
  const auto batch = arguments.positive("batch", 1'000);
  const bool history = arguments.number("history", 1) != 0;
  arguments.no_more();
  const Database database(file);
  expect("ready rows", messages, database.number("select count(*) from queue where status = 0"));
  const auto kept_before = database.number("select count(*) from queue where status = 2");
  Drain work(database, batch, history);
  const auto start = Steady::now();
  const auto drained = work.run();
  const auto seconds = since(start);
  expect("drained rows", messages, drained);
  expect("unfinished rows", 0, database.number("select count(*) from queue where status <> 2"));
  const auto kept = database.number("select count(*) from queue where status = 2") - kept_before;
  expect("kept rows", history ? messages : 0, kept);
  print(drained, seconds);
}

void dispatch(const std::string& command, const std::string& file, Arguments& arguments) {
  if (command == "single") return single(file, arguments);
  if (command == "bulk") return bulk(file, arguments);
  if (command == "drain") return drain(file, arguments);
  throw std::invalid_argument("unknown command: " + command);
}

}  // namespace

int main(int count, char** words) {
  return raw::run("raw_sqlite", "single|bulk|drain FILE", count, words, dispatch);
}
