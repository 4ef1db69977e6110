// Platform: Dovetail on one database. Every program starts here.
//
//   auto platform = dovetail::Platform::open("sqlite:orders.db", {.deploy_schema = true});
//
// A URL is `sqlite:<path>` or `postgresql://…` (every URL that libpq accepts).
//
// Guarantees
//   * Opening checks the schema. A schema that is missing, too old or too new for this library
//     throws SchemaMismatch, which names the command to run. A newer schema that is compatible with
//     this library is used. With `deploy_schema`, opening first applies the missing migrations;
//     many processes may do this at once.
//   * Log lines and errors never contain secrets of the URL.
//
// Threads: a Platform may be shared between threads. Transactions must end before it is destroyed.
//
// Processes: after fork(), the child must open its own Platform. The child may destroy the
// parent's, which closes nothing. Every other use throws InvalidOperation.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/audit.hpp"
#include "dovetail/clock.hpp"
#include "dovetail/event.hpp"
#include "dovetail/fanout.hpp"
#include "dovetail/handler.hpp"
#include "dovetail/health.hpp"
#include "dovetail/history.hpp"
#include "dovetail/inbox.hpp"
#include "dovetail/instance.hpp"
#include "dovetail/join.hpp"
#include "dovetail/lease.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "dovetail/metrics_registry.hpp"
#include "dovetail/outbox.hpp"
#include "dovetail/replay.hpp"
#include "dovetail/sample.hpp"
#include "dovetail/schedule.hpp"
#include "dovetail/subscription.hpp"
#include "dovetail/transaction.hpp"
#include "dovetail/transport.hpp"
#include "dovetail/work.hpp"

namespace dovetail {

namespace runtime {
struct PlatformAccess;
}  // namespace runtime

/// How a started Platform treats messages of topics without a handler.
enum class UnknownTopics {
  leave,    ///< Leaves them to other processes. It claims only topics that it handles.
  abandon,  ///< Claims them, warns, and retries them until they are dead letters.
};

/// Options of a started Platform.
struct WorkerOptions {
  /// The number of threads that call handlers, for all queues together. Zero: one per core and at
  /// least four, but fewer than PlatformOptions::max_connections, so that handlers with a
  /// transaction leave a connection free.
  int threads = 0;
  int batch_size = 50;  ///< The maximum size of a claim: 1 to 10,000.
  /// The approximate limit of the payloads that the process holds of one queue, in bytes: 1 KiB to
  /// 1 TiB. One message is always claimed, whatever its size.
  std::size_t max_bytes = std::size_t{64} << 20;
  UnknownTopics unknown_topics = UnknownTopics::leave;
  /// Connections that claim and settle at the same time, for handlers that are faster than the
  /// database: 1 to 32. SQLite has one writer and always uses one.
  int fetchers = 2;
  /// The lease of a claim: 100 ms to 24 h. It is renewed when a third of it has passed.
  std::chrono::milliseconds lease{30'000};
  std::chrono::milliseconds poll_interval{500};
  /// The poll interval of an idle queue, while wake-ups from other processes are received.
  std::chrono::milliseconds idle_poll_interval{5'000};
  /// How long the destructor's stop() waits for handlers.
  std::chrono::milliseconds drain{30'000};
};

struct PlatformOptions {
  /// The location of Dovetail's tables: a PostgreSQL schema, or a prefix of SQLite table names.
  std::string schema = "infra";
  /// Creates or upgrades the schema when opening.
  bool deploy_schema = false;
  /// The maximum number of connections (SQLite: for reading; one more writes). On PostgreSQL, a
  /// started Platform opens up to 2 * WorkerOptions::fetchers + 12 more for its own use
  /// (16 by default), so that handlers cannot prevent the renewal of leases.
  std::size_t max_connections = 8;
  /// Opens the database for reading only: every call that writes, and start(), throws
  /// InvalidOperation. On PostgreSQL the sessions are read-only, too (not with `pooled`).
  bool read_only = false;
  /// Set it for PostgreSQL behind PgBouncer in transaction mode: no named prepared statements.
  bool pooled = false;
  /// How long a write to SQLite waits for another writer.
  std::chrono::milliseconds busy_timeout{10'000};
  /// PostgreSQL: the time limit of one connection attempt, 100 ms to 10 min. `connect_timeout` in
  /// the URL overrides it. Opening and migrating retry for the same time, and then throw the last
  /// error. They do not retry attempts that cannot succeed: an unknown host or database, a wrong
  /// password.
  std::chrono::milliseconds connect_timeout{4'000};
  /// How long a call of an open Platform retries transient failures (a lost connection, a
  /// deadlock): 0 to 24 h. Then it throws the last Error. The call may take longer by one
  /// connection attempt. It fails earlier when its transaction has failed ten times. SQLite tries
  /// three times, each up to `busy_timeout`.
  ///
  /// A statement that was sent has no time limit: if the server accepts it and then freezes, or if
  /// another transaction holds a lock, the call waits. stop() and calls with a stop token end it.
  std::chrono::milliseconds retry_for{30'000};
  QueueOptions outbox{};
  InboxOptions inbox{};
  JoinOptions joins{};
  ScheduleOptions schedule{};
  EventOptions events{};
  WorkerOptions worker{};
  HealthOptions health{};
  HistoryOptions history{};
  std::shared_ptr<LogSink> log_sink{};  ///< Absent: spdlog, warnings and errors to standard error.
  std::shared_ptr<MetricsSink> metrics{};  ///< Absent: a MetricsRegistry of its own.
  std::shared_ptr<Clock> clock{};          ///< Absent: the system clock.
  /// Receives the spans of messages and handlers; see trace.hpp. Absent: there are none.
  std::shared_ptr<TraceSink> trace_sink{};
};

/// A migration of the schema.
struct SchemaChange {
  std::int64_t number = 0;
  std::string name;
  std::string sql;  ///< The statements, as a script.
};

enum class RolePurpose {
  worker,  ///< May do everything that a started Platform or a producer does.
  /// May enqueue into the outbox, schedule timers and append events; cannot read them.
  producer,
};

class Platform {
 public:
  [[nodiscard]] static Platform open(std::string_view url, PlatformOptions options = {});

  /// Applies the pending migrations and returns them. Many processes may call it at once.
  static std::vector<SchemaChange> migrate(std::string_view url,
                                           const PlatformOptions& options = {});

  /// The migrations that migrate() would apply. Writes nothing and creates no file.
  [[nodiscard]] static std::vector<SchemaChange> pending_changes(
      std::string_view url, const PlatformOptions& options = {});

  /// The GRANT statements that allow `role` to use the schema. The role that migrates must run
  /// them. Empty for SQLite, which has no roles. Reads only the URL's scheme; does not connect.
  [[nodiscard]] static std::string grants(std::string_view url, std::string_view role,
                                          RolePurpose purpose, const PlatformOptions& options = {});

  Platform(Platform&&) noexcept;
  Platform& operator=(Platform&&) noexcept;
  ~Platform();

  /// Begins a transaction. Messages enqueued through it take effect with its commit.
  [[nodiscard]] Transaction begin();

  [[nodiscard]] Outbox& outbox();
  [[nodiscard]] Inbox& inbox();
  [[nodiscard]] Joins& joins();
  [[nodiscard]] Leases& leases();
  [[nodiscard]] Timers& timers();
  [[nodiscard]] Jobs& jobs();
  [[nodiscard]] Fanout& fanout();
  [[nodiscard]] Events& events();
  [[nodiscard]] Instances& instances();
  [[nodiscard]] WorkBatches& work();
  [[nodiscard]] History& history();
  [[nodiscard]] Audit& audit();
  [[nodiscard]] Replays& replays();

  /// Registers a handler for a topic; see handler.hpp. Throws InvalidOperation when the topic
  /// already has a handler (JoinOptions::wait_topic always has one), or after start().
  void on(std::string_view topic, HandlerFunction function, HandlerOptions options = {});
  void on(std::shared_ptr<Handler> handler);
  /// Registers a handler for all topics without their own handler. Without it, this process leaves
  /// these topics to others (WorkerOptions::unknown_topics).
  void on_any(HandlerFunction function, HandlerOptions options = {});

  /// Like on() and on_any(), for messages of the inbox's queue. Its topics are separate from the
  /// outbox's. The handlers of both queues share the threads of WorkerOptions::threads.
  void on_inbox(std::string_view topic, InboxHandlerFunction function, HandlerOptions options = {});
  void on_any_inbox(InboxHandlerFunction function, HandlerOptions options = {});

  /// Registers a route: messages of the outbox go to a broker; see transport.hpp. `topic` is a
  /// topic, or a pattern in which `*` matches any text: `order.*`. A pattern stands for the topics
  /// that have no handler, and no route that fits better: the topic itself, or a pattern with more
  /// characters other than `*`. It never stands for topics of fan-outs.
  ///
  /// Throws InvalidOperation when the topic has a handler or a route already, when there is a
  /// pattern and a handler of on_any(), or after start().
  void publish(std::string_view topic, std::shared_ptr<Publisher> publisher,
               PublishOptions options = {});
  /// Registers a source: messages of a broker are stored in the inbox, for the handlers of
  /// on_inbox(); see transport.hpp. Throws InvalidOperation when the source was registered before,
  /// or after start().
  void consume(std::shared_ptr<Consumer> consumer, ConsumeOptions options);
  /// The routes and sources of this Platform while it is started, in the order of their
  /// registration.
  [[nodiscard]] std::vector<TransportInfo> transports() const;

  /// Starts the background threads that call the handlers. Throws InvalidOperation when the
  /// Platform was already started.
  void start();

  /// Stops claiming, fires the handlers' stop tokens, releases messages that no handler has
  /// started, and waits up to `deadline` for the running handlers (absent: WorkerOptions::drain).
  /// Returns whether all handlers have ended. Handlers that have not ended lose their messages when
  /// the leases expire.
  ///
  /// If the database does not answer (server down or frozen, a locked table), the call takes some
  /// seconds longer. It then gives up the open settlements, and their messages are delivered again
  /// when the leases expire.
  ///
  /// The destructor calls stop(). It then cancels the database calls of the remaining handlers
  /// (PostgreSQL) and waits for them.
  bool stop(std::optional<std::chrono::milliseconds> deadline = {});

  /// The name of this database in logs.
  [[nodiscard]] const std::string& name() const;

  /// The health of the database and of the services of this Platform; see health.hpp. The services
  /// of a group are not included; see PlatformGroup::health().
  [[nodiscard]] HealthService& health();

  /// The state of the database: counts of messages, joins and connections. See sample.hpp. The
  /// sample is younger than `max_age`, unless the database does not answer within two seconds.
  [[nodiscard]] std::shared_ptr<const Sample> sample(
      std::chrono::milliseconds max_age = std::chrono::seconds{3}) const;

  /// The counters, gauges and timings of this Platform so far. Empty when PlatformOptions::metrics
  /// is a sink other than a MetricsRegistry.
  [[nodiscard]] MetricsSnapshot metrics() const;

 private:
  friend struct runtime::PlatformAccess;
  struct State;
  explicit Platform(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dovetail
