// Dovetail on one database: where everything starts.
//
//   auto platform = dovetail::Platform::open("sqlite:orders.db", {.deploy_schema = true});
//
// A URL is `sqlite:<path>` or `postgresql://…` (anything libpq takes as a URL).
//
// Guarantees
//   * Opening checks the schema: one that is missing, old or too new for this library is a
//   SchemaMismatch
//     that names the command to run. A newer schema that is compatible with this library is used.
//     With `deploy_schema`, what is missing is created first, safely also by many processes at
//     once.
//   * No secret of the URL appears in a log line or an error.
//
// Threads: a Platform may be shared between threads. Transactions must end before it is destroyed.
//
// Processes: after fork(), the child must open a Platform of its own. It may destroy the parent's,
// which closes nothing; each other use of it is InvalidOperation.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/handler.hpp"
#include "dovetail/inbox.hpp"
#include "dovetail/instance.hpp"
#include "dovetail/join.hpp"
#include "dovetail/lease.hpp"
#include "dovetail/log.hpp"
#include "dovetail/metrics.hpp"
#include "dovetail/metrics_registry.hpp"
#include "dovetail/outbox.hpp"
#include "dovetail/schedule.hpp"
#include "dovetail/transaction.hpp"

namespace dovetail {

/// What a started Platform does with messages whose topics have no handler.
enum class UnknownTopics {
  leave,    ///< Leaves them to other processes, untouched. A process claims only topics that it
            ///< handles.
  abandon,  ///< Claims them, warns, and tries them again like failed ones, until they are dead
            ///< letters.
};

/// How a started Platform works.
struct WorkerOptions {
  /// Threads that call handlers of the outbox, and as many for those of the inbox if there are any.
  /// Zero: one per core, four at least, and fewer than PlatformOptions::max_connections, so that
  /// handlers which hold a transaction leave a connection for what else they do; half of that for
  /// each when there are handlers of both.
  int threads = 0;
  int batch_size = 50;  ///< Claimed at once, at most: 1 to 10,000.
  /// How many bytes of payloads are held at once, about: 1 KiB and more. One message is always
  /// claimed, however large it is.
  std::size_t max_bytes = std::size_t{64} << 20;
  UnknownTopics unknown_topics = UnknownTopics::leave;
  /// Connections that claim and settle at the same time, for handlers that are faster than the
  /// database: 1 to
  /// 32. SQLite has one writer, and one of them.
  int fetchers = 2;
  /// How long a claim holds without a sign of life: 100 ms to 24 h. Renewed when a third of it has
  /// passed.
  std::chrono::milliseconds lease{30'000};
  std::chrono::milliseconds poll_interval{500};
  /// With nothing to do, and as long as other processes' announcements are heard, polls become this
  /// rare.
  std::chrono::milliseconds idle_poll_interval{5'000};
  /// How long the destructor's stop() waits for handlers before it lets their leases go.
  std::chrono::milliseconds drain{30'000};
};

struct PlatformOptions {
  /// Where Dovetail's tables live: a PostgreSQL schema, or the prefix of SQLite's table names.
  std::string schema = "infra";
  /// Creates or upgrades the schema while opening.
  bool deploy_schema = false;
  /// Connections to hold at most (SQLite: for reading; it has one for writing). On PostgreSQL a
  /// started Platform holds up to 2 * WorkerOptions::fetchers + 11 more of its own (15 by default):
  /// handlers cannot keep it from renewing leases.
  std::size_t max_connections = 8;
  /// PostgreSQL behind PgBouncer in transaction mode: no named prepared statements.
  bool pooled = false;
  /// How long a write to SQLite waits for another writer.
  std::chrono::milliseconds busy_timeout{10'000};
  /// PostgreSQL: the limit of one attempt to connect, 100 ms to 10 min. `connect_timeout` in the
  /// URL overrides it. Opening a Platform and migrating repeat failed attempts for as long, and
  /// then throw the last one's reason. They do not repeat attempts that cannot succeed: an unknown
  /// host or database, a wrong password.
  std::chrono::milliseconds connect_timeout{4'000};
  /// How long a call of an open Platform repeats work that failed as transient (a lost connection,
  /// a deadlock): 0 to 24 h. Then it throws the last Error. The call may take longer by one attempt
  /// to connect. A transaction that fails ten times fails the call earlier. SQLite tries three
  /// times, each up to `busy_timeout`.
  std::chrono::milliseconds retry_for{30'000};
  QueueOptions outbox{};
  InboxOptions inbox{};
  JoinOptions joins{};
  ScheduleOptions schedule{};
  WorkerOptions worker{};
  std::shared_ptr<LogSink> log_sink{};  ///< Absent: spdlog, warnings and errors to standard error.
  std::shared_ptr<MetricsSink> metrics{};  ///< Absent: a MetricsRegistry of its own.
  std::shared_ptr<Clock> clock{};          ///< Absent: the system's.
};

/// One step of the schema's history.
struct SchemaChange {
  std::int64_t number = 0;
  std::string name;
  std::string sql;  ///< What applying it does, as a script.
};

enum class RolePurpose {
  worker,    ///< Everything that a started Platform does, and everything that a producer does.
  producer,  ///< Enqueues into the outbox and schedules timers; cannot read payloads.
};

class Platform {
 public:
  [[nodiscard]] static Platform open(std::string_view url, PlatformOptions options = {});

  /// Applies what the schema lacks, and answers what that was. Many processes may do it at once.
  static std::vector<SchemaChange> migrate(std::string_view url,
                                           const PlatformOptions& options = {});

  /// What migrate() would apply. Writes nothing, and creates no file.
  [[nodiscard]] static std::vector<SchemaChange> pending_changes(
      std::string_view url, const PlatformOptions& options = {});

  /// The GRANT statements, to be run by the role that migrates, that let `role` use the schema.
  /// Empty for SQLite, which has no roles. Reads only the URL's scheme; does not connect.
  [[nodiscard]] static std::string grants(std::string_view url, std::string_view role,
                                          RolePurpose purpose, const PlatformOptions& options = {});

  Platform(Platform&&) noexcept;
  Platform& operator=(Platform&&) noexcept;
  ~Platform();

  /// A transaction of your own making; what is enqueued through it takes effect with its commit.
  [[nodiscard]] Transaction begin();

  [[nodiscard]] Outbox& outbox();
  [[nodiscard]] Inbox& inbox();
  [[nodiscard]] Joins& joins();
  [[nodiscard]] Leases& leases();
  [[nodiscard]] Timers& timers();
  [[nodiscard]] Jobs& jobs();
  [[nodiscard]] Instances& instances();

  /// Handles the messages of a topic; see handler.hpp. Throws InvalidOperation when the topic has a
  /// handler (JoinOptions::wait_topic has one from the beginning), or after start().
  void on(std::string_view topic, HandlerFunction function, HandlerOptions options = {});
  void on(std::shared_ptr<Handler> handler);
  /// Handles the messages of all topics that have no handler of their own. Without it, this process
  /// leaves them to others (WorkerOptions::unknown_topics).
  void on_any(HandlerFunction function, HandlerOptions options = {});

  /// The same for messages of the inbox's queue. They have topics of their own, and as many threads
  /// beside those of the outbox, from the first such handler on.
  void on_inbox(std::string_view topic, InboxHandlerFunction function, HandlerOptions options = {});
  void on_any_inbox(InboxHandlerFunction function, HandlerOptions options = {});

  /// Begins to hand messages to the handlers, on threads of its own. Throws InvalidOperation when
  /// it was started before.
  void start();

  /// Claims nothing more, fires the handlers' stop tokens, gives back what none of them has begun,
  /// and waits for the others up to `deadline` (absent: WorkerOptions::drain). Answers whether all
  /// have ended; those that have not lose their messages when the leases end. A database that does
  /// not answer (server down or frozen, a locked table) delays it by some seconds at most:
  /// settlements are then given up, and their messages are delivered again when the leases end. The
  /// destructor does the same, cancels the database calls of the handlers that are left
  /// (PostgreSQL), and waits for them.
  bool stop(std::optional<std::chrono::milliseconds> deadline = {});

  /// What logs call this database.
  [[nodiscard]] const std::string& name() const;

  /// The counters, gauges and timings of this Platform so far. Empty when PlatformOptions::metrics
  /// is a sink other than a MetricsRegistry.
  [[nodiscard]] MetricsSnapshot metrics() const;

 private:
  struct State;
  explicit Platform(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dovetail
