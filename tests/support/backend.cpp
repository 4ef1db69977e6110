#include "support/backend.hpp"

#include <cstdlib>
#include <stdexcept>

#include "runtime/engines.hpp"

namespace dovetail::testing {
namespace {

std::string postgres_url() {
  const char* url = std::getenv("DOVETAIL_TEST_POSTGRES");
  if (url == nullptr) {
    throw std::runtime_error(
        "DOVETAIL_TEST_POSTGRES is not set: run the tests by ./test or tools/pg-cluster run");
  }
  return url;
}

std::string fresh_schema() {
  auto text = Uuid::random().to_string();
  std::erase(text, '-');
  return "t_" + text.substr(0, 20);
}

void check(bool good, const std::string& message) {
  if (!good) throw std::runtime_error(message);
}

PGconn* connect_postgres(const std::string& url) {
  auto* connection = PQconnectdb(url.c_str());
  check(PQstatus(connection) == CONNECTION_OK, PQerrorMessage(connection));
  PQsetNoticeProcessor(
      connection, [](void*, const char*) {}, nullptr);
  return connection;
}

sqlite3* connect_sqlite(const std::string& url) {
  sqlite3* connection = nullptr;
  const auto path = url.substr(url.find(':') + 1);
  check(sqlite3_open_v2(path.c_str(), &connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                        nullptr) == SQLITE_OK,
        "cannot open " + path);
  sqlite3_busy_timeout(connection, 10'000);
  sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_wal_autocheckpoint(connection, 0);
  return connection;
}

Value sqlite_value(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
      return nullptr;
    case SQLITE_INTEGER:
      return std::int64_t{sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);
    default:
      break;
  }
  const auto* text = static_cast<const char*>(sqlite3_column_blob(statement, column));
  return std::string(text, text + sqlite3_column_bytes(statement, column));
}

/// Converts a text result. Integers become integers, so that both engines return the same values.
Value postgres_value(const PGresult* result, int row, int column) {
  if (PQgetisnull(result, row, column) != 0) return nullptr;
  const std::string text = PQgetvalue(result, row, column);
  switch (PQftype(result, column)) {
    case 20:
    case 21:
    case 23:
      return std::int64_t{std::stoll(text)};
    default:
      return text;
  }
}

Rows run_postgres(PGconn* connection, const std::string& text) {
  const std::unique_ptr<PGresult, decltype(&PQclear)> result{PQexec(connection, text.c_str()),
                                                             &PQclear};
  const auto status = PQresultStatus(result.get());
  check(status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK, PQerrorMessage(connection));
  Rows rows;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    std::vector<Value> values;
    for (int column = 0; column < PQnfields(result.get()); ++column) {
      values.push_back(postgres_value(result.get(), row, column));
    }
    rows.emplace_back(std::move(values));
  }
  return rows;
}

Rows run_sqlite(sqlite3* connection, const std::string& text) {
  Rows rows;
  const char* rest = text.c_str();
  while (*rest != '\0') {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(connection, rest, -1, &statement, &rest) == SQLITE_OK,
          sqlite3_errmsg(connection));
    if (statement == nullptr) break;
    int code = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
      std::vector<Value> values;
      for (int column = 0; column < sqlite3_column_count(statement); ++column) {
        values.push_back(sqlite_value(statement, column));
      }
      rows.emplace_back(std::move(values));
    }
    const std::string message = sqlite3_errmsg(connection);
    sqlite3_finalize(statement);
    check(code == SQLITE_DONE, message);
  }
  return rows;
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  auto pattern = (std::filesystem::temp_directory_path() / "dovetail-test.XXXXXX").string();
  check(::mkdtemp(pattern.data()) != nullptr, "mkdtemp failed");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Backend::Backend(BackendKind kind, Tables tables) : kind_(kind), schema_(fresh_schema()) {
  if (is_postgres()) {
    url_ = postgres_url();
    if (tables == Tables::may_exist && std::getenv("DOVETAIL_TEST_POOL") != nullptr) use_pool();
  } else {
    directory_ = std::make_unique<TemporaryDirectory>();
    url_ = "sqlite:" + (directory_->path() / "test.db").string();
  }
}

Backend::~Backend() {
  if (!is_postgres()) return;
  if (of_pool_ && number("select test_pool.give_back('" + schema_ + "')::int") == 1) return;
  sql("drop schema if exists " + schema_ + " cascade");
}

/// Takes a schema from the pool, or adds a new one.
void Backend::use_pool() {
  if (number("select (to_regnamespace('test_pool') is not null)::int") == 0) return;
  of_pool_ = true;
  const auto taken = sql("select test_pool.take()");
  if (!taken.at(0).is_null(0)) {
    schema_ = taken.at(0).get<std::string>(0);
    return;
  }
  Platform::migrate(url_, options());
  sql("select test_pool.add('" + schema_ + "')");
}

std::string Backend::table(const std::string& name) const {
  return is_postgres() ? schema_ + "." + name : schema_ + "_" + name;
}

PlatformOptions Backend::options() const {
  return {.schema = schema_,
          .deploy_schema = true,
          .log_sink = null_log_sink(),
          .clock = is_postgres() ? system_clock() : std::shared_ptr<Clock>{clock_}};
}

std::unique_ptr<storage::Database> Backend::open_database(storage::DatabaseOptions options) const {
  options.schema = schema_;
  options.clock = this->options().clock;
  return runtime::open_database(url_, std::move(options));
}

void Backend::advance(std::chrono::milliseconds by) {
  manual_->advance(by);
  if (!is_postgres()) return;
  shift_ += by;
  sql("create or replace function " + schema_ +
      ".clock() returns timestamptz language sql volatile parallel safe " +
      "return clock_timestamp() + interval '" + std::to_string(shift_.count()) + " milliseconds'");
}

WallTime Backend::now() const {
  if (!is_postgres()) return clock_->wall();
  const auto micros =
      number("select (extract(epoch from " + schema_ + ".clock()) * 1000000)::bigint");
  return WallTime{std::chrono::microseconds{micros}};
}

Rows Backend::sql(const std::string& text) const {
  if (is_postgres()) {
    const std::unique_ptr<PGconn, decltype(&PQfinish)> connection{connect_postgres(url_),
                                                                  &PQfinish};
    return run_postgres(connection.get(), text);
  }
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close_v2)> connection{connect_sqlite(url_),
                                                                         &sqlite3_close_v2};
  return run_sqlite(connection.get(), text);
}

void PrintTo(BackendKind kind, std::ostream* out) {
  *out << (kind == BackendKind::postgres ? "postgres" : "sqlite");
}

std::string backend_name(const ::testing::TestParamInfo<BackendKind>& info) {
  return info.param == BackendKind::postgres ? "postgres" : "sqlite";
}

UserConnection::UserConnection(const Backend& backend) {
  if (backend.is_postgres()) {
    postgres_ = connect_postgres(backend.url());
  } else {
    sqlite_ = connect_sqlite(backend.url());
  }
}

UserConnection::~UserConnection() {
  if (postgres_ != nullptr) PQfinish(postgres_);
  if (sqlite_ != nullptr) sqlite3_close_v2(sqlite_);
}

void UserConnection::execute(const std::string& sql) {
  if (postgres_ != nullptr) {
    run_postgres(postgres_, sql);
  } else {
    run_sqlite(sqlite_, sql);
  }
}

Transaction UserConnection::borrow() {
  return postgres_ != nullptr ? Transaction::borrow(postgres_) : Transaction::borrow(sqlite_);
}

}  // namespace dovetail::testing
