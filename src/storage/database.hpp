// One database of one engine, as the components see it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "dovetail/clock.hpp"
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
  /// Of the background service; beside max_connections.
  std::size_t service_connections = 4;
  bool pooled = false;
  std::chrono::milliseconds busy_timeout{10'000};
  /// The limit of one attempt to connect, and of the first connection in all.
  std::chrono::milliseconds connect_timeout{4'000};
  /// How long a call repeats what failed as transient.
  std::chrono::milliseconds retry_for{30'000};
  std::shared_ptr<Clock> clock{};
  Logger log{};
  Metrics metrics{};
  /// What name() returns, and so what logs and metrics call the database. Empty: its URL without
  /// secrets.
  std::string label{};
  /// Shared with other databases; see connection_budget.hpp. Absent: none. SQLite does not use it:
  /// its connections are open files.
  std::shared_ptr<ConnectionBudget> budget{};
  /// The account of this database in the budget. Absent: nobody asks for it.
  std::shared_ptr<ConnectionBudget::Account> account{};
};

struct WriteOptions {
  /// The body runs one statement: the engine may skip the explicit BEGIN and COMMIT around it.
  bool single_statement = false;
  /// Running the body once more after it took effect changes nothing: run it again when its commit
  /// is in doubt.
  bool repeatable = false;
  /// For the background service: must not wait for connections that handlers hold.
  bool service = false;
  /// A lock that was not granted in time ends the write: the caller has another way.
  bool gives_up_locks = false;
  /// A failure ends the write, also one that a second attempt might avoid: the caller has another
  /// way.
  bool once = false;
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
  std::stop_token stop{};
};

class Database {
 public:
  using ReadBody = std::function<void(ReadSession&)>;
  using WriteBody = storage::WriteBody;

  virtual ~Database() = default;

  /// What logs and errors call this database; holds no secret.
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const std::string& schema() const = 0;
  /// Local waiting and deadlines use it. On SQLite it is also the time that decides.
  [[nodiscard]] virtual Clock& clock() const = 0;

  /// False when there is nothing to read from yet: an SQLite file that nobody has written.
  [[nodiscard]] virtual bool exists() const { return true; }

  /// Runs `body` in a read-only snapshot.
  virtual void read(const ReadBody& body, const ReadOptions& options = {}) = 0;

  /// Runs `body` in a write transaction and returns when that transaction is durable.
  ///
  /// After a deadlock, a serialization failure or a lost connection the body runs again from its
  /// top. It must not use results of an earlier run, unless Attempt::after_doubt says that the run
  /// may have taken effect (see confirmed_write.hpp). Log lines and metrics belong behind the call.
  virtual void write(const WriteOptions& options, const WriteBody& body) = 0;

  /// True when an open transaction keeps everybody else from writing.
  [[nodiscard]] virtual bool transactions_exclude_writers() const = 0;

  [[nodiscard]] virtual GroupCommitOptions group_commit() const { return {}; }

  /// Ends calls that carry no stop token of their own, those under way and those to come: the
  /// database is about to be closed. An engine whose calls have time limits anyway does nothing.
  virtual void cancel_calls() {}

  /// Closes the connections that nobody uses at the moment. Calls under way keep theirs, and the
  /// next call opens one. The connection of listen() stays.
  virtual void close_idle() = 0;

  /// A transaction that the caller drives.
  virtual std::unique_ptr<TransactionHandle> begin() = 0;

  /// How far the newest times that are stored lie ahead of the database's clock: it was set back by
  /// that much. Nothing when nothing is stored.
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

/// What an engine brings along: the schemes of its URLs and how to open one.
struct Engine {
  std::string_view name;
  std::string_view schemes;  // comma-separated: "postgresql,postgres"
  std::unique_ptr<Database> (*open)(std::string_view url, DatabaseOptions options);
  /// The statements that let a role use the schema; null for an engine without roles.
  std::string (*grants)(const GrantRequest& request) = nullptr;
};

}  // namespace dovetail::storage
