#include "sqlite/database.hpp"

#include <sqlite3.h>

#include <condition_variable>
#include <filesystem>

#include "core/call_scope.hpp"
#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "dovetail/transaction.hpp"
#include "sqlite/file_watch.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"
#include "storage/queue_names.hpp"
#include "storage/retry.hpp"

namespace dovetail::sqlite {
namespace {

/// The path in `sqlite:orders.db` or `sqlite:/var/lib/app/orders.db`.
std::string path_of(std::string_view url) {
  const auto path = url.substr(url.find(':') + 1);
  if (path.empty() || path.starts_with(":memory:") || path.find('\0') != std::string_view::npos) {
    throw std::invalid_argument(
        "an SQLite URL is sqlite:<path of a file>; a database in memory cannot be shared");
  }
  if (path.starts_with("//") && !path.starts_with("///")) {
    throw std::invalid_argument(
        "an SQLite URL has no host: write sqlite:orders.db for a file in this directory, or "
        "sqlite:/var/lib/orders.db");
  }
  return std::string{path};
}

/// Reports a missing directory. SQLite would only report that it cannot open the file.
void require_directory(const std::string& path) {
  const auto directory = std::filesystem::path{path}.parent_path();
  std::error_code ignored;
  if (directory.empty() || std::filesystem::exists(directory, ignored)) return;
  throw Error({ErrorKind::other, std::to_string(SQLITE_CANTOPEN), "open " + path},
              "the directory " + directory.string() + " does not exist");
}

const std::string& checked(const std::string& schema) {
  core::require_identifier("schema", schema);
  return schema;
}

/// A transaction that holds the writer's turn.
class OwnedTransaction final : public storage::TransactionHandle {
 public:
  OwnedTransaction(Database& database, std::shared_ptr<Writer> writer)
      : database_(database),
        turn_(std::make_unique<Turn>(std::move(writer))),
        session_(turn_->hold.connection()) {}
  storage::WriteSession& session() override {
    require_open();
    if (failed()) throw InvalidOperation("a statement of this transaction failed: roll it back");
    turn_->hold.note_user();
    return session_;
  }
  void commit() override {
    require_open();
    const bool spoilt = failed();
    {
      const auto turn = std::move(turn_);
      if (spoilt) {
        turn->hold.rollback();
        throw InvalidOperation(
            "a statement of this transaction failed: it was rolled back instead of committed");
      }
      turn->hold.commit();
    }
    database_.wake(session_.wake_ups());
    for (const auto& call : std::exchange(after_commit_, {})) call();
  }
  void after_commit(std::function<void()> call) override {
    after_commit_.push_back(std::move(call));
  }
  void rollback() override {
    require_open();
    turn_.reset();
  }

 private:
  struct Turn {
    explicit Turn(std::shared_ptr<Writer> held) : writer(std::move(held)), hold(*writer) {}
    std::shared_ptr<Writer> writer;
    Writer::Hold hold;
  };
  void require_open() const {
    if (!turn_) throw InvalidOperation("the transaction has ended already");
  }
  [[nodiscard]] bool failed() const {
    const auto& connection = turn_->hold.connection();
    return connection.failed() || !connection.in_transaction();
  }
  Database& database_;
  std::unique_ptr<Turn> turn_;
  WriteSession session_;
  std::vector<std::function<void()>> after_commit_;
};

/// The open transaction of a connection of the user.
class BorrowedTransaction final : public storage::BorrowedTransactionHandle {
 public:
  explicit BorrowedTransaction(sqlite3* connection)
      : connection_(Connection::borrow(connection)), session_(*connection_) {
    require_open();
  }
  storage::WriteSession& session() override {
    require_open();
    return session_;
  }

 private:
  void require_open() const {
    if (!connection_->in_transaction()) {
      throw InvalidOperation(
          "no transaction is open on the borrowed connection: BEGIN IMMEDIATE first");
    }
  }
  std::unique_ptr<Connection> connection_;
  WriteSession session_;
};

/// The interval of checks for writes of other processes. A check reads a few bytes of shared
/// memory.
constexpr std::chrono::milliseconds watch_interval{20};

/// SQLite waits for its busy timeout before it returns BUSY, so a few attempts are enough.
constexpr int most_attempts = 3;

}  // namespace

Database::Database(std::string_view url, storage::DatabaseOptions options)
    : options_(std::move(options)),
      path_(path_of(url)),
      name_(options_.label.empty() ? "sqlite:" + path_ : options_.label),
      texts_(sql::statements(), checked(options_.schema)),
      readers_({.max_size = options_.max_connections, .metrics = options_.metrics, .store = name_},
               options_.clock, options_.log, [this](const std::stop_token&, auto) {
                 return Connection::open(path_, Connection::Mode::read_only, options_.busy_timeout);
               }) {
  register_stores();
}

bool Database::exists() const {
  return std::filesystem::exists(path_);
}

std::shared_ptr<Writer> Database::writer() {
  std::lock_guard lock(writer_mutex_);
  if (!writer_) {
    require_directory(path_);
    writer_ =
        std::make_shared<Writer>(path_, options_.busy_timeout, options_.log, name_, &closing_);
  }
  return writer_;
}

void Database::close_idle() {
  process_.require();
  readers_.close_idle();
  const std::lock_guard lock(writer_mutex_);  // copies of the writer are made only under this lock
  if (!writer_ || writer_.use_count() > 1) return;
  closed_writers_steps_ += writer_->commit_steps();
  writer_.reset();
}

storage::RetryPolicy Database::retry_policy() const {
  process_.require();
  return {.max_attempts = most_attempts,
          .patience = core::CallScope::retry_for(options_.retry_for),
          .metrics = &options_.metrics,
          .store = name_};
}

void Database::read(const ReadBody& body, const storage::ReadOptions& options) {
  const auto stop = core::CallScope::stop_of(options.stop);
  storage::run_with_retry(
      *options_.clock, options_.log, retry_policy(),
      {.repeatable = true, .once = options.once, .stop = stop}, [&](const storage::Attempt&) {
        auto connection = readers_.acquire(stop);
        connection->script(
            "begin",
            "begin deferred");  // one snapshot for all statements; none of them writes
        ReadSession session(*connection);
        body(session);
        connection->script("rollback", "rollback");
      });
}

void Database::write(const storage::WriteOptions& given, const WriteBody& body) {
  storage::require_writable(options_);
  auto options = given;
  options.stop = core::CallScope::stop_of(given.stop);
  const auto run = [&](const storage::Attempt& attempt) {
    if (options.stop.stop_requested())
      throw Error({ErrorKind::cancelled, "", "begin"}, "stopped before it began");
    std::vector<storage::WakeUp> wake_ups;
    const auto run_body = [&](Connection& connection) {
      WriteSession session(connection);
      body(session, attempt);
      wake_ups = session.wake_ups();
    };
    writer()->submit(run_body, options.stop);
    wake(wake_ups);
  };
  storage::run_with_retry(*options_.clock, options_.log, retry_policy(), options, run);
}

/// Other processes need no signal: they watch the file.
void Database::wake(std::span<const storage::WakeUp> wake_ups) {
  for (const auto& each : wake_ups) bells().ring(each.queue);
}

void Database::cancel_calls() {
  closing_ = true;
  const std::lock_guard lock(writer_mutex_);
  if (writer_) writer_->wake_all();
}

std::unique_ptr<storage::TransactionHandle> Database::begin() {
  process_.require();
  storage::require_writable(options_);
  return std::make_unique<OwnedTransaction>(*this, writer());
}

std::optional<std::chrono::microseconds> Database::clock_lead(storage::ReadSession& session) {
  auto cursor = ReadSession::of(session).run(texts_, sql::clock_lead);
  cursor.bind(options_.clock->wall()).step();
  if (cursor.is_null(0)) return std::nullopt;
  return std::chrono::microseconds{cursor.integer(0)};
}

void Database::listen(const std::stop_token& stop, const std::function<void(bool)>& connected) {
  while (!stop.stop_requested()) {
    try {
      watch(stop, connected);
    } catch (const std::exception& error) {
      connected(false);
      options_.log.write(LogLevel::warn, "storage.listener_lost",
                         {{"store", name_}, {"error", error.what()}});
      // Uses the system's clock: the listener must return even in a test that stops the time.
      system_clock()->sleep_for(std::chrono::seconds{1}, stop);
    }
  }
}

std::uint64_t Database::own_commit_steps() {
  const std::lock_guard lock(writer_mutex_);
  return closed_writers_steps_ + (writer_ ? writer_->commit_steps() : 0);
}

void Database::watch(const std::stop_token& stop, const std::function<void(bool)>& connected) {
  FileWatch file(path_, texts_, *options_.clock, options_.busy_timeout);
  connected(true);
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  auto steps = own_commit_steps();
  file.look();
  bells().ring_all();  // messages may have arrived before the watch began
  while (!stop.stop_requested()) {
    // Uses the system's clock: other processes write in real time.
    never.wait_for(lock, stop, watch_interval, [] { return false; });
    const auto before = own_commit_steps();
    const bool changed = file.has_changed();
    const auto last_steps = std::exchange(steps, before);
    if (!changed) continue;
    // A commit of this process rings the bells itself. Without such a commit, another process has
    // written, perhaps to any queue. With such a commit, look() finds the queues with new messages.
    const bool own = last_steps % 2 == 1 || last_steps != own_commit_steps();
    for (const auto queue : file.look()) bells().ring(queue);
    if (own) continue;
    bells().ring(storage::queue_names::outbox);
    bells().ring(storage::queue_names::inbox);
  }
}

const storage::Engine engine{
    .name = "sqlite",
    .schemes = "sqlite",
    .open = [](std::string_view url,
               storage::DatabaseOptions options) -> std::unique_ptr<storage::Database> {
      return std::make_unique<Database>(url, std::move(options));
    }};

}  // namespace dovetail::sqlite

dovetail::Transaction dovetail::Transaction::borrow(sqlite3* connection) {
  return Transaction{std::make_unique<sqlite::BorrowedTransaction>(connection)};
}
