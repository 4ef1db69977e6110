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
#include "storage/doorbell.hpp"
#include "storage/registry.hpp"
#include "storage/session.hpp"

namespace dovetail {
class Error;
}

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
  std::stop_token stop{};
  /// Called before the body runs again, with the error that ended the run before. That run may have
  /// taken effect only if the error is in doubt.
  std::function<void(const Error& error)> on_retry{};
};

struct ReadOptions {
  /// For the background service: must not wait for connections that handlers hold.
  bool service = false;
  std::stop_token stop{};
};

class Database {
 public:
  using ReadBody = std::function<void(ReadSession&)>;
  using WriteBody = std::function<void(WriteSession&)>;

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

  /// Runs `body` in a write transaction and returns when that is durable. After a deadlock, a
  /// serialization failure or a lost connection the body runs again from its top: it must not keep
  /// what an earlier run computed (see confirmed_write.hpp), and what it logs or counts belongs
  /// behind the call.
  virtual void write(const WriteOptions& options, const WriteBody& body) = 0;

  /// True when an open transaction keeps everybody else from writing.
  [[nodiscard]] virtual bool transactions_exclude_writers() const = 0;

  /// Ends calls that carry no stop token of their own, those under way and those to come: the
  /// database is about to be closed. An engine whose calls have time limits anyway does nothing.
  virtual void cancel_calls() {}

  /// A transaction that the caller drives.
  virtual std::unique_ptr<TransactionHandle> begin() = 0;

  /// How far the newest times that are stored lie ahead of the database's clock: it was set back by
  /// that much. Nothing when nothing is stored.
  virtual std::optional<std::chrono::microseconds> clock_lead(ReadSession& session) = 0;

  // Waking workers: hints, on top of polling.

  /// Rung when a message may have come, by this process or (while listen() runs) another.
  [[nodiscard]] Doorbell& doorbell() { return doorbell_; }
  /// Rung when a timer or a job may be due earlier than before. Messages do not ring it.
  [[nodiscard]] Doorbell& schedule_bell() { return schedule_bell_; }
  /// True when the caller's own transaction had better tell the other processes: that is sooner
  /// there, and nothing was announced for a while. Whoever enqueues all the time is told false, and
  /// calls announce() after.
  [[nodiscard]] virtual bool announces_inside() { return false; }
  /// Rings here, and tells the other processes without making the caller wait.
  virtual void announce() = 0;
  /// The same for schedulers.
  virtual void announce_schedule() = 0;
  /// Watches for other processes' announcements until `stop`; `connected` is called with true when
  /// it begins to hear them and with false when it no longer does. Returns at once when there is no
  /// way to hear them.
  virtual void listen(const std::stop_token& stop, const std::function<void(bool)>& connected) = 0;

  // Stores live as long as the database: look one up once and keep the reference.

  /// The store of this interface: `store<LeaseStore>()`.
  template <class Store>
  [[nodiscard]] Store& store() const {
    return registry_.store<Store>();
  }
  /// The roles of the queue of this name; see queues::outbox and its siblings.
  [[nodiscard]] const QueueStore& queue(std::string_view name) const {
    return registry_.queue(name);
  }

 protected:
  /// An engine adds its stores here.
  [[nodiscard]] Registry& registry() { return registry_; }

 private:
  Registry registry_;
  Doorbell doorbell_;
  Doorbell schedule_bell_;
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
