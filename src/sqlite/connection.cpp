#include "sqlite/connection.hpp"

#include <charconv>
#include <cstring>

#include "core/assert.hpp"
#include "dovetail/error.hpp"
#include "dovetail/sqlite.hpp"
#include "sqlite/error.hpp"

namespace dovetail::sqlite {

Cursor::Cursor(Connection& connection, sqlite3_stmt* statement, std::string_view name,
               bool finalize)
    : connection_(connection), statement_(statement), name_(name), finalize_(finalize) {}

Cursor::Cursor(Cursor&& other) noexcept
    : connection_(other.connection_),
      statement_(std::exchange(other.statement_, nullptr)),
      name_(other.name_),
      finalize_(other.finalize_) {
  DOVETAIL_ASSERT(other.bound_ == 0);
}

Cursor::~Cursor() {
  if (statement_ == nullptr) return;
  if (finalize_) {
    sqlite3_finalize(statement_);
  } else {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
}

void Cursor::check(int code) {
  if (code != SQLITE_OK) fail(code);
}

void Cursor::fail(int code) {
  connection_.note_failure();
  // After a change of the schema, SQLite prepares the statement again. If that fails, it returns
  // the same general code. So prepare it here to tell the two failures apart.
  if (code == SQLITE_ERROR && !finalize_) {
    sqlite3_stmt* again = nullptr;
    const int prepared =
        sqlite3_prepare_v2(connection_.native(), sqlite3_sql(statement_), -1, &again, nullptr);
    sqlite3_finalize(again);
    if (prepared != SQLITE_OK) raise_unprepared(connection_.native(), prepared, name_);
  }
  raise(connection_.native(), code, name_);
}

Cursor& Cursor::bind(std::nullptr_t) {
  check(sqlite3_bind_null(statement_, next_index()));
  return *this;
}

Cursor& Cursor::bind(std::int64_t value) {
  check(sqlite3_bind_int64(statement_, next_index(), value));
  return *this;
}

Cursor& Cursor::bind(double value) {
  check(sqlite3_bind_double(statement_, next_index(), value));
  return *this;
}

Cursor& Cursor::bind(std::string_view text) {
  // An empty view may have a null pointer, which SQLite would bind as NULL.
  const char* data = text.data() != nullptr ? text.data() : "";
  check(
      sqlite3_bind_text64(statement_, next_index(), data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

Cursor& Cursor::bind(std::span<const std::byte> bytes) {
  const int index = next_index();
  check(bytes.empty()
            ? sqlite3_bind_zeroblob(statement_, index, 0)
            : sqlite3_bind_blob64(statement_, index, bytes.data(), bytes.size(), SQLITE_STATIC));
  return *this;
}

Cursor& Cursor::bind(const Uuid& value) {
  if (uuid_count_ == uuids_.size()) {
    check(sqlite3_bind_blob(statement_, next_index(), value.bytes().data(), 16, SQLITE_TRANSIENT));
    return *this;
  }
  auto& kept = uuids_[uuid_count_++];
  kept = value;
  check(sqlite3_bind_blob(statement_, next_index(), kept.bytes().data(), 16, SQLITE_STATIC));
  return *this;
}

Cursor& Cursor::bind(WallTime value) {
  return bind(std::int64_t{value.time_since_epoch().count()});
}

void Cursor::bind_at(int index, const Parameter& parameter) {
  bound_ = index - 1;
  std::visit(
      [this](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int32_t>) {
          bind(std::int64_t{value});
        } else {
          bind(value);
        }
      },
      parameter.get());
}

void Cursor::bind_all(std::span<const Parameter> parameters) {
  const int wanted = sqlite3_bind_parameter_count(statement_);
  for (int index = 1; index <= wanted; ++index) {
    // $3 and ?3 both mean the third parameter, in any order. A plain ? means the parameter at its
    // place.
    std::size_t number = static_cast<std::size_t>(index);
    if (const char* label = sqlite3_bind_parameter_name(statement_, index)) {
      const std::string_view digits{label + 1};
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (error != std::errc{} || end != digits.data() + digits.size()) {
        throw std::invalid_argument("parameters are written $1, $2, …; got " + std::string{label});
      }
    }
    if (number < 1 || number > parameters.size()) {
      throw std::invalid_argument("the statement wants parameter $" + std::to_string(number) +
                                  ", " + std::to_string(parameters.size()) + " were given");
    }
    bind_at(index, parameters[number - 1]);
  }
}

bool Cursor::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) fail(code);
  return false;
}

std::size_t Cursor::run() {
  const auto before = sqlite3_total_changes64(connection_.native());
  while (step()) {
  }
  // After a statement that changes no rows, sqlite3_changes64() returns the count of an earlier
  // one.
  if (sqlite3_total_changes64(connection_.native()) == before) return 0;
  return static_cast<std::size_t>(sqlite3_changes64(connection_.native()));
}

int Cursor::columns() const {
  return sqlite3_column_count(statement_);
}

bool Cursor::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::int64_t Cursor::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string_view Cursor::view(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
  return data == nullptr ? std::string_view{} : std::string_view{data, size};
}

std::string Cursor::text(int column) const {
  return std::string{view(column)};
}

Uuid Cursor::uuid(int column) const {
  Uuid::Bytes bytes{};
  const void* data = sqlite3_column_blob(statement_, column);
  DOVETAIL_ASSERT(sqlite3_column_bytes(statement_, column) == static_cast<int>(bytes.size()));
  std::memcpy(bytes.data(), data, bytes.size());
  return Uuid{bytes};
}

WallTime Cursor::time(int column) const {
  return WallTime{std::chrono::microseconds{integer(column)}};
}

Value Cursor::value(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return integer(column);
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement_, column);
    case SQLITE_TEXT:
      return text(column);
    case SQLITE_BLOB: {
      const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
      return Bytes(data, data + sqlite3_column_bytes(statement_, column));
    }
    default:
      return nullptr;
  }
}

Rows Cursor::rows() {
  Rows rows;
  while (step()) {
    std::vector<Value> values;
    values.reserve(static_cast<std::size_t>(columns()));
    for (int column = 0; column < columns(); ++column) values.push_back(value(column));
    rows.emplace_back(std::move(values));
  }
  return rows;
}

namespace {

void execute(sqlite3* connection, const char* name, const char* sql) {
  const int code = sqlite3_exec(connection, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) raise(connection, code, name);
}

}  // namespace

void apply_settings(sqlite3* connection, std::chrono::milliseconds busy_timeout) {
  sqlite3_busy_timeout(connection, static_cast<int>(busy_timeout.count()));
  sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  execute(connection, "configure", "pragma wal_autocheckpoint = 0");
  execute(connection, "configure", "pragma synchronous = full");
}

std::unique_ptr<Connection> Connection::open(const std::string& path, Mode mode,
                                             std::chrono::milliseconds busy_timeout,
                                             const char* vfs) {
  sqlite3* native = nullptr;
  const int flags = (mode == Mode::read_write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                              : SQLITE_OPEN_READWRITE) |
                    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &native, flags, vfs);
  std::unique_ptr<Connection> connection{new Connection(native, true)};
  if (code != SQLITE_OK) raise(native, code, "open " + path);
  apply_settings(native, busy_timeout);
  if (mode == Mode::read_only) execute(native, "configure", "pragma query_only = on");
  return connection;
}

std::unique_ptr<Connection> Connection::borrow(sqlite3* connection) {
  if (connection == nullptr) throw std::invalid_argument("connection must not be null");
  return std::unique_ptr<Connection>{new Connection(connection, false)};
}

Connection::~Connection() {
  for (auto& [text, statement] : prepared_) sqlite3_finalize(statement);
  if (owned_) sqlite3_close_v2(connection_);
}

Connection::Gathering::~Gathering() {
  connection_.gathering_ = false;
  if (auto* left = std::exchange(connection_.gathered_, nullptr)) left->drop();
}

void Connection::gather(Gathered& what) {
  if (gathered_ != &what) write_gathered();
  gathered_ = &what;
}

void Connection::write_gathered() {
  if (auto* what = std::exchange(gathered_, nullptr)) what->write(*this);
}

Cursor Connection::run(const storage::StatementTexts& texts, const storage::Statement& statement) {
  write_gathered();
  statement.runs.fetch_add(1, std::memory_order_relaxed);
  const auto& text = texts.of(statement);
  auto& prepared = prepared_[&text];
  if (prepared == nullptr) {
    const int code = sqlite3_prepare_v3(connection_, text.c_str(), static_cast<int>(text.size()),
                                        owned_ ? SQLITE_PREPARE_PERSISTENT : 0, &prepared, nullptr);
    if (code != SQLITE_OK) {
      note_failure();
      raise_unprepared(connection_, code, statement.name);
    }
  }
  return {*this, prepared, statement.name, false};
}

Cursor Connection::prepare(std::string_view sql) {
  write_gathered();
  sqlite3_stmt* statement = nullptr;
  const char* rest = nullptr;
  const int code =
      sqlite3_prepare_v2(connection_, sql.data(), static_cast<int>(sql.size()), &statement, &rest);
  if (code != SQLITE_OK) {
    note_failure();
    raise(connection_, code, "sql");
  }
  if (statement == nullptr) throw std::invalid_argument("the statement is empty");
  Cursor cursor{*this, statement, "sql", true};
  const std::string_view left{rest, static_cast<std::size_t>(sql.data() + sql.size() - rest)};
  if (left.find_first_not_of(" \t\r\n;") != std::string_view::npos) {
    throw std::invalid_argument("one statement at a time");
  }
  return cursor;
}

void Connection::control(std::string_view name, const std::string& text, bool decides) {
  auto& prepared = prepared_[&text];
  int code = SQLITE_OK;
  if (prepared == nullptr) {
    code = sqlite3_prepare_v3(connection_, text.c_str(), static_cast<int>(text.size()),
                              SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
  }
  if (code == SQLITE_OK) {
    code = sqlite3_step(prepared);
    code = code == SQLITE_DONE ? SQLITE_OK : code;
    if (code == SQLITE_OK) sqlite3_reset(prepared);
  }
  if (code == SQLITE_OK) return;
  try {
    raise(connection_, code, name, decides);
  } catch (...) {
    sqlite3_reset(prepared);
    throw;
  }
}

void Connection::script(std::string_view name, const std::string& text, bool decides) {
  write_gathered();
  const int code = sqlite3_exec(connection_, text.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) raise(connection_, code, name, decides);
}

void configure(sqlite3* connection) {
  if (connection == nullptr) throw std::invalid_argument("connection must not be null");
  apply_settings(connection, std::chrono::milliseconds{10'000});
  execute(connection, "configure", "pragma journal_mode = wal");
}

}  // namespace dovetail::sqlite
