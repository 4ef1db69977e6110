// One database of one engine, as the components see it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "dovetail/clock.hpp"
#include "dovetail/error.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "storage/connection_budget.hpp"
#include "storage/doorbell.hpp"
#include "storage/registry.hpp"
#include "storage/session.hpp"
#include "storage/write_body.hpp"

namespace dovetail::storage {

struct DatabaseOptions {
  std::string schema = "infra";
  std::size_t max_connections = 8;
  /// Connections of the background service, in addition to max_connections.
  std::size_t service_connections = 4;
  bool pooled = false;
  bool read_only = false;  ///< Database::write() and begin() throw InvalidOperation.
  std::chrono::milliseconds busy_timeout{10'000};
  /// The time limit of one attempt to connect. The first connection has this limit for all of its
  /// attempts together.
  std::chrono::milliseconds connect_timeout{4'000};
  /// How long a call retries transient failures.
  std::chrono::milliseconds retry_for{30'000};
  std::shared_ptr<Clock> clock{};
  Logger log{};
  Metrics metrics{};
  /// The result of name(), which logs and metrics use. Empty: the URL without secrets.
  std::string label{};
  /// Shared with other databases; see connection_budget.hpp. Absent: none. SQLite does not use it:
  /// its connections are open files.
  std::shared_ptr<ConnectionBudget> budget{};
  /// The account of this database in the budget. Absent: nobody asks for it.
  std::shared_ptr<ConnectionBudget::Account> account{};
};

/// Throws InvalidOperation if the database is open for reading only.
inline void require_writable(const DatabaseOptions& options) {
  if (options.read_only) throw InvalidOperation("the database is open for reading only");
}

struct WriteOptions {
  /// The body runs one statement: the engine may skip the explicit BEGIN and COMMIT around it.
  bool single_statement = false;
  /// A second run of the body after the first one took effect changes nothing: run it again if its
  /// commit is in doubt.
  bool repeatable = false;
  /// For the background service: must not wait for connections that handlers hold.
  bool service = false;
  /// The write fails if a lock is not granted in time; the caller has another way.
  bool gives_up_locks = false;
  /// A failure ends the write, also one that a second attempt might avoid: the caller has another
  /// way.
  bool once = false;
  /// When the call began that this write belongs to: the time limit for retries counts from then.
  /// Absent: the write is the whole call.
  std::optional<std::chrono::steady_clock::time_point> since{};
  std::stop_token stop{};
};

/// How single messages of several callers share a transaction; see queue/group_commit.hpp.
struct GroupCommitOptions {
  /// Transactions that begin as soon as there is a message. Zero: each message has its own, because
  /// the engine lets the writes of several callers share a commit by itself.
  std::size_t transactions = 0;
  /// Transactions under way at most: one more begins when a message has waited for `most_wait`, or
  /// at once while commits take longer than twice that.
  std::size_t most_transactions = 0;
  std::chrono::microseconds most_wait{0};
  /// Limits of one transaction. The engine stores as many messages with one statement.
  std::size_t most_messages = 1'000;
  std::size_t most_bytes = std::size_t{4} << 20;
  /// A call that has taken this long is not repeated.
  std::chrono::milliseconds patience{0};
};

struct ReadOptions {
  /// For the background service: must not wait for connections that handlers hold.
  bool service = false;
  /// A failure ends the read, also one that a second attempt might avoid.
  bool once = false;
  std::stop_token stop{};
};

/// The connections of a process to a database.
struct PoolUse {
  std::size_t in_use = 0;
  std::size_t idle = 0;
};

class Database {
 public:
  using ReadBody = std::function<void(ReadSession&)>;
  using WriteBody = storage::WriteBody;

  virtual ~Database() = default;

  /// The name of this database in logs and errors. It contains no secret.
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const std::string& schema() const = 0;
  /// The clock of local waits and deadlines. On SQLite it also decides everything durable.
  [[nodiscard]] virtual Clock& clock() const = 0;

  /// False if there is no database to read from yet: an SQLite file that was never written.
  [[nodiscard]] virtual bool exists() const { return true; }

  /// Runs `body` in a read-only snapshot.
  virtual void read(const ReadBody& body, const ReadOptions& options = {}) = 0;

  /// Runs `body` in a write transaction and returns when that transaction is durable.
  ///
  /// After a deadlock, a serialization failure or a lost connection the body runs again from its
  /// top. It must not use results of an earlier run, unless Attempt::after_doubt says that the run
  /// may have taken effect (see confirmed_write.hpp). Log lines and metrics belong behind the call.
  virtual void write(const WriteOptions& options, const WriteBody& body) = 0;

  /// True if an open transaction keeps all others from writing.
  [[nodiscard]] virtual bool transactions_exclude_writers() const = 0;

  [[nodiscard]] virtual GroupCommitOptions group_commit() const { return {}; }

  /// Ends calls without a stop token, those in progress and later ones, because the database is
  /// about to be closed. An engine whose calls have time limits does nothing.
  virtual void cancel_calls() {}

  /// Closes the idle connections. Calls in progress keep theirs, and the next call opens a new one.
  /// The connection of listen() stays.
  virtual void close_idle() = 0;

  [[nodiscard]] virtual PoolUse pool_use() const { return {}; }

  /// Raises DatabaseOptions::service_connections, for services that were not known before.
  virtual void add_service_connections(std::size_t /*more*/) {}

  /// A transaction that the caller drives.
  virtual std::unique_ptr<TransactionHandle> begin() = 0;

  /// How far the newest stored times are ahead of the clock of the database. A positive value means
  /// that the clock was set back. Returns nothing if nothing is stored.
  virtual std::optional<std::chrono::microseconds> clock_lead(ReadSession& session) = 0;

  // Wake-ups are hints on top of polling. WriteSession::wakes() asks for them.

  /// Rings when messages of `queue` (see queue_names.hpp) may be due: this process has committed
  /// them, or, while listen() runs, another process has.
  [[nodiscard]] Doorbell& bell(std::string_view queue) { return bells_.of(queue); }
  /// Listens to the wake-ups of other processes until `stop`. Calls `connected` with true when it
  /// begins to hear them, and with false when it no longer does. Returns at once when the engine
  /// cannot hear them.
  virtual void listen(const std::stop_token& stop, const std::function<void(bool)>& connected) = 0;

  // Stores live as long as the database: look one up once and keep the reference.

  /// The store of this interface: `store<LeaseStore>()`.
  template <class Store>
  [[nodiscard]] Store& store() const {
    return registry_.store<Store>();
  }
  /// The roles of the queue of this name; see queue_names.hpp.
  [[nodiscard]] const QueueStore& queue(std::string_view name) const {
    return registry_.queue(name);
  }

 protected:
  /// An engine adds its stores here.
  [[nodiscard]] Registry& registry() { return registry_; }
  [[nodiscard]] Doorbells& bells() { return bells_; }

 private:
  Registry registry_;
  Doorbells bells_;
};

enum class GrantPurpose { worker, producer };
struct GrantRequest {
  std::string schema;
  std::string role;
  GrantPurpose purpose = GrantPurpose::worker;
};

/// The description of an engine: the schemes of its URLs, and how to open a database.
struct Engine {
  std::string_view name;
  std::string_view schemes;  // comma-separated: "postgresql,postgres"
  std::unique_ptr<Database> (*open)(std::string_view url, DatabaseOptions options);
  /// The statements that let a role use the schema; null for an engine without roles.
  std::string (*grants)(const GrantRequest& request) = nullptr;
};

}  // namespace dovetail::storage
