#include "sqlite/database.hpp"

#include <sqlite3.h>

#include <condition_variable>
#include <filesystem>

#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "dovetail/transaction.hpp"
#include "sqlite/session.hpp"
#include "sqlite/sql.hpp"
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

/// SQLite itself only says that it cannot open the file.
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
  OwnedTransaction(Database& database, Writer& writer)
      : database_(database),
        hold_(std::make_unique<Writer::Hold>(writer)),
        session_(hold_->connection()) {}
  storage::WriteSession& session() override {
    require_open();
    if (failed()) throw InvalidOperation("a statement of this transaction failed: roll it back");
    hold_->note_user();
    return session_;
  }
  void commit() override {
    require_open();
    const bool spoilt = failed();
    {
      const auto hold = std::move(hold_);
      if (spoilt) {
        hold->rollback();
        throw InvalidOperation(
            "a statement of this transaction failed: it was rolled back instead of committed");
      }
      hold->commit();
    }
    if (announces_) database_.announce();
    if (announces_schedule_) database_.announce_schedule();
    for (const auto& call : std::exchange(after_commit_, {})) call();
  }
  void announce_at_commit() override { announces_ = true; }
  void announce_schedule_at_commit() override { announces_schedule_ = true; }
  void after_commit(std::function<void()> call) override {
    after_commit_.push_back(std::move(call));
  }
  void rollback() override {
    require_open();
    hold_.reset();
  }

 private:
  void require_open() const {
    if (!hold_) throw InvalidOperation("the transaction has ended already");
  }
  [[nodiscard]] bool failed() const {
    return hold_->connection().failed() || !hold_->connection().in_transaction();
  }
  Database& database_;
  std::unique_ptr<Writer::Hold> hold_;
  WriteSession session_;
  bool announces_ = false;
  bool announces_schedule_ = false;
  std::vector<std::function<void()>> after_commit_;
};

/// The transaction that is open on a connection of the user's.
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

/// How often we look whether another process has written. Looking reads a few bytes of shared
/// memory.
constexpr std::chrono::milliseconds watch_interval{20};

/// SQLite has waited its busy timeout before it says busy: a few more rounds are enough.
constexpr int most_attempts = 3;

}  // namespace

Database::Database(std::string_view url, storage::DatabaseOptions options)
    : options_(std::move(options)),
      path_(path_of(url)),
      name_("sqlite:" + path_),
      texts_(sql::statements(), checked(options_.schema)),
      readers_({.max_size = options_.max_connections}, options_.clock, options_.log,
               [this](const std::stop_token&, auto) {
                 return Connection::open(path_, Connection::Mode::read_only, options_.busy_timeout);
               }),
      outbox_(texts_, sql::outbox, options_.clock),
      inbox_queue_(texts_, sql::inbox, options_.clock),
      timer_queue_(texts_, sql::timers, options_.clock),
      inbox_(texts_, options_.clock, inbox_queue_.roles()),
      timers_(texts_, options_.clock),
      jobs_(texts_, options_.clock, schedule_bell()),
      joins_(texts_, options_.clock, doorbell()),
      leases_(texts_, options_.clock),
      instances_(texts_, options_.clock),
      migrations_(texts_, options_.schema) {
  outbox_.watch(joins_);
  outbox_.watch(jobs_);
  inbox_queue_.watch(inbox_);
  register_stores();
}

void Database::register_stores() {
  registry().add<storage::InboxStore>(inbox_);
  registry().add<storage::TimerStore>(timers_);
  registry().add<storage::JobStore>(jobs_);
  registry().add<storage::JoinStore>(joins_);
  registry().add<storage::LeaseStore>(leases_);
  registry().add<storage::InstanceStore>(instances_);
  registry().add<storage::MigrationStore>(migrations_);
  registry().add_queue(storage::queues::outbox, outbox_.roles());
  registry().add_queue(storage::queues::inbox, inbox_queue_.roles());
  registry().add_queue(storage::queues::timers, timer_queue_.roles());
}

bool Database::exists() const {
  return std::filesystem::exists(path_);
}

Writer& Database::writer() {
  std::lock_guard lock(writer_mutex_);
  if (!writer_) {
    require_directory(path_);
    writer_ = std::make_unique<Writer>(path_, options_.busy_timeout, options_.log);
  }
  return *writer_;
}

storage::RetryPolicy Database::retry_policy() const {
  process_.require();
  return {.max_attempts = most_attempts, .patience = options_.retry_for};
}

void Database::read(const ReadBody& body, const storage::ReadOptions& options) {
  const auto& stop = options.stop;
  storage::run_with_retry(
      *options_.clock, options_.log, retry_policy(), {.repeatable = true, .stop = stop}, [&] {
        auto connection = readers_.acquire(stop);
        connection->script(
            "begin",
            "begin deferred");  // one snapshot for all its statements; it never writes
        ReadSession session(*connection);
        body(session);
        connection->script("rollback", "rollback");
      });
}

void Database::write(const storage::WriteOptions& options, const WriteBody& body) {
  storage::run_with_retry(*options_.clock, options_.log, retry_policy(), options, [&] {
    if (options.stop.stop_requested())
      throw Error({ErrorKind::cancelled, "", "begin"}, "stopped before it began");
    writer().submit([&](Connection& connection) {
      WriteSession session(connection);
      body(session);
    });
  });
}

std::unique_ptr<storage::TransactionHandle> Database::begin() {
  process_.require();
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
      system_clock()->sleep_for(std::chrono::seconds{1}, stop);
    }
  }
}

void Database::watch(const std::stop_token& stop, const std::function<void(bool)>& connected) {
  const auto connection =
      Connection::open(path_, Connection::Mode::read_only, options_.busy_timeout);
  const auto version = [&] {
    auto cursor = connection->prepare("pragma data_version");
    cursor.step();
    return cursor.integer(0);
  };
  // When the next timer or job is due: of all that others write, only a change of that is the
  // scheduler's business.
  using Due = std::pair<std::optional<WallTime>, std::optional<WallTime>>;
  const auto next_due = [&] {
    try {
      auto cursor = connection->run(texts_, sql::schedule_next_due_step_watch);
      cursor.bind(options_.clock->wall()).step();
      using Column = sql::columns::schedule_next_due_step_watch;
      return Due{cursor.time_or_null(Column::timers_at), cursor.time_or_null(Column::jobs_at)};
    } catch (const Error&) {
      return Due{};  // somebody has removed the tables of timers and jobs: workers are still told
                     // of messages
    }
  };
  connected(true);
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  auto seen = version();
  auto due = next_due();
  doorbell().ring();  // for what came before we watched
  schedule_bell().ring();
  while (!stop.stop_requested()) {
    never.wait_for(lock, stop, watch_interval, [] { return false; });
    const auto now = version();
    if (std::exchange(seen, now) == now) continue;
    doorbell().ring();
    const auto then = next_due();
    if (std::exchange(due, then) != then) schedule_bell().ring();
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
