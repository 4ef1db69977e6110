// PlatformGroup: Dovetail on many databases, with one set of handlers, one pool of threads and one
// budget of connections.
//
//   dovetail::PlatformGroup group({.max_connections = 32});
//   group.add("tenant-a", "postgresql://…");
//   group.discover(dovetail::file_discovery("tenants.toml"));       // or a query, or a function
//   group.refresh();                                                // the first list, now
//   group.on("order.created", [](const Message& message, HandlerContext& ctx) {
//     … ctx.database() …                                            // the key: "tenant-a"
//   });
//   group.start();
//   group["tenant-a"].outbox().enqueue(transaction, {.topic = "order.created"});
//
// Every database has all components: outbox, inbox, joins, leases, timers, jobs, fan-out, streams,
// events, the work coordinator. A group may mix PostgreSQL and SQLite.
//
// Guarantees
//   * A database that is down, hangs, or has the wrong schema does not delay the others, even if
//     many databases fail at once. Each has its own time limits and retries. Databases that fail
//     share a quarter of the connections. status() shows the last error of each.
//   * A discovery that fails or hangs changes nothing: the group keeps its list. A bad entry does
//     not affect the others. An entry that has not changed keeps its Platform. An entry with
//     another URL or schema is replaced.
//   * A database that leaves the list, or is replaced, is drained as by Platform::stop(): the group
//     claims no more of its messages, releases those that no handler has started, and fires the
//     stop tokens of the running handlers. It waits for these handlers without a limit, and stores
//     their results if that succeeds within the lease. Then it closes the connections.
//   * The group holds at most max_connections + max_listeners connections. A call that is cancelled
//     uses one more for a moment (PostgreSQL).
//   * Logs, metrics and errors name a database by its key, and never contain secrets of its URL.
//
// Databases without work: the group closes their connections and checks them with a query from time
// to time. The interval between two checks of a database doubles up to `max_poll_interval`. A
// message that this process enqueues is noticed at once. A message of another process is noticed at
// once if the database has one of the `max_listeners` listeners, and at the next check otherwise.
//
// Threads: a PlatformGroup may be shared between threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/discovery.hpp"
#include "dovetail/ids.hpp"
#include "dovetail/platform.hpp"
#include "dovetail/selection.hpp"

namespace dovetail {

namespace group {
struct FanoutAccess;
}  // namespace group

struct GroupOptions {
  std::shared_ptr<SelectionStrategy> selection{};  ///< Absent: round_robin().
  /// The limit of all connections of the group, 4 to 10,000. A quarter, and at least two, are
  /// reserved for the background services, so that handlers cannot prevent the renewal of leases.
  std::size_t max_connections = 32;
  /// The number of listeners, which notice messages of other processes at once. The databases with
  /// the latest work have them. A listener uses a connection in addition to max_connections.
  std::size_t max_listeners = 8;
  /// The longest interval between two checks of a database without work: 0.5 s to 1 h.
  std::chrono::milliseconds max_poll_interval{30'000};
  /// The time limit of one claim or renewal in a database, 100 ms to 10 min. Opening a database,
  /// checks, heartbeats and chores may take three times as long. Migrations have no limit. A
  /// database that exceeds a limit counts as failing.
  std::chrono::milliseconds call_timeout{10'000};
  /// The options of each database. `worker.threads` is the number of threads of the group;
  /// `max_connections` limits one database's share.
  PlatformOptions database{};
};

struct DiscoverOptions {
  std::chrono::milliseconds refresh = std::chrono::minutes{5};  ///< 100 ms to 24 h.
  /// The time limit of one call of the discovery, 100 ms to 1 h. A call that takes longer counts as
  /// failed, and its list is not used. The next call is made after it has returned.
  std::chrono::milliseconds timeout = std::chrono::seconds{30};
};

enum class GroupDatabaseState {
  closed,   ///< Not opened yet.
  idle,     ///< Open, without work.
  working,  ///< Has messages, timers or jobs to do, or had some seconds ago.
  failing,  ///< The last call failed; the group retries.
  leaving,  ///< Removed; its handlers have not ended yet.
};

[[nodiscard]] std::string_view to_string(GroupDatabaseState state);

struct GroupDatabaseStatus {
  std::string key{};
  GroupDatabaseState state = GroupDatabaseState::closed;
  int failures = 0;          ///< Failed calls in a row.
  std::string last_error{};  ///< The last failure; empty when the latest call succeeded.
};

struct GroupStatus {
  std::vector<GroupDatabaseStatus> databases{};  ///< In the order of the group.
  int discovery_failures = 0;                    ///< Failed discoveries in a row.
  std::string discovery_error{};                 ///< The error of the last discovery, if it failed.
  /// When the first of these failures was noticed.
  std::optional<WallTime> discovery_failing_since{};
  /// The time since the last successful discovery. Absent: there was none.
  std::optional<std::chrono::milliseconds> discovery_age{};
  std::vector<std::string> bad_entries{};  ///< One error for each entry that is not used.

  /// One line for each failing discovery, bad entry and failing database.
  [[nodiscard]] std::vector<std::string> problems() const;
  /// The discovery succeeds, all of its entries are used, and no database fails. A group that is
  /// not healthy continues its work on the other databases.
  [[nodiscard]] bool healthy() const { return problems().empty(); }
};

/// The result of a migration of one database.
struct GroupMigration {
  std::string key{};
  std::vector<SchemaChange> applied{};
  std::string error{};  ///< Empty when it succeeded.
};

/// Which messages forward() moves, and where to.
struct ForwardRule {
  std::string topic{};  ///< The topic in the outbox.
  std::string to{};     ///< The key of the database whose inbox gets them.
  /// The topic in the inbox. Empty: the same.
  std::string to_topic{};
};

/// Returns the candidates of a round in one database; see FanoutPlannerFunction.
using GroupFanoutPlanner =
    std::function<FanoutCandidates(const std::string& database, const FanoutPlan& plan)>;

/// Fan-outs of a group, once for all databases; see fanout.hpp. Each database plans and handles its
/// own slices, and has its own cursors and cadences: `group[key].fanout()`.
class GroupFanout {
 public:
  GroupFanout();
  GroupFanout(const GroupFanout&) = delete;
  GroupFanout& operator=(const GroupFanout&) = delete;
  ~GroupFanout();

  /// Adds a fan-out to every database, also to databases that are added later. Without a planner,
  /// each database has one slice, whose shard key is the database's key, and the request needs a
  /// work key. The cadence and the cron job of a database are stored when the started group opens
  /// it. Throws InvalidOperation after start(), or for a topic and work key that were added before.
  void add(const FanoutRequest& request, GroupFanoutPlanner planner = {});
  /// Registers the handler of the slices. Throws InvalidOperation as above.
  void on(std::string_view topic, std::string_view work_key, FanoutHandlerFunction function,
          HandlerOptions options = {});

 private:
  friend struct group::FanoutAccess;
  struct Registrations;
  std::unique_ptr<Registrations> registrations_;
};

class PlatformGroup {
 public:
  explicit PlatformGroup(GroupOptions options = {});
  /// A group whose databases all come from a discovery. The first discovery is made at once. Throws
  /// its error. Bad entries are not thrown: status() shows them, and the others are used.
  explicit PlatformGroup(std::shared_ptr<DatabaseDiscovery> discovery, GroupOptions options = {},
                         DiscoverOptions discover = {});
  PlatformGroup(PlatformGroup&&) noexcept;
  PlatformGroup& operator=(PlatformGroup&&) noexcept;
  /// Stops the group; see Platform::stop().
  ~PlatformGroup();

  // --- the databases

  /// Adds a database. Does not connect. Throws std::invalid_argument for a bad key, URL or schema,
  /// and InvalidOperation for a key that exists.
  void add(std::string_view key, std::string_view url, std::string_view schema = {});
  /// Removes a database that add() added; see "drained" above. Does not wait for its handlers.
  /// Returns false for an unknown key. Throws InvalidOperation for a database of the discovery.
  bool remove(std::string_view key);
  /// Sets the discovery, which finds databases of the group. The started group calls it at
  /// intervals; discover() itself does not call it. So operator[] does not find its databases until
  /// the first call has returned, some time after start(): call refresh() first, or use the
  /// constructor. Throws InvalidOperation when the group already has a discovery.
  void discover(std::shared_ptr<DatabaseDiscovery> discovery, DiscoverOptions options = {});
  void discover(std::function<std::vector<DatabaseEntry>()> find, DiscoverOptions options = {});
  /// Calls the discovery now and applies its list. Throws its error, and std::invalid_argument for
  /// bad entries after the good ones were applied. Throws Error with ErrorKind::cancelled after
  /// DiscoverOptions::timeout, while an earlier call hangs, and when the group stops.
  void refresh();

  /// The Platform of a database, which is opened if necessary. Its errors are those of
  /// Platform::open(). Throws InvalidOperation for an unknown key.
  ///
  /// The reference is valid as long as the group. After the database was removed or replaced, every
  /// call of this Platform throws InvalidOperation: use operator[] again. Calls under way end
  /// normally. References to its components, such as outbox(), and its transactions stay valid for
  /// ten minutes after the removal. If you need them longer, use find().
  ///
  /// Handlers are registered with the group: on(), start() and stop() of this Platform throw
  /// InvalidOperation.
  [[nodiscard]] Platform& operator[](std::string_view key);
  /// The same, for a key that is this UUID in text form, in upper or lower case.
  [[nodiscard]] Platform& operator[](const Uuid& key);
  /// The same, but shared: it may be used after the database was removed. Null for an unknown key.
  [[nodiscard]] std::shared_ptr<Platform> find(std::string_view key);
  /// The keys in the order of the group, without databases that are leaving.
  [[nodiscard]] std::vector<std::string> keys() const;
  [[nodiscard]] GroupStatus status() const;
  /// The health of this process and of its databases; see health.hpp. It reads no database: it
  /// reports the databases whose calls fail. A group is ready while one of them does not fail.
  /// `group[key].health()` checks one database. PlatformOptions::health has the options.
  [[nodiscard]] HealthService& health();

  /// Applies the pending migrations of each database, several at the same time, and returns one
  /// result for each database, in the order of the group. A database that fails does not stop the
  /// others. Databases that are up to date are not changed, so a repeated call resumes.
  /// `report`, if given, is called after each database, from one thread at a time. If it throws,
  /// migrate() throws its first exception after all databases were migrated.
  std::vector<GroupMigration> migrate(
      const std::function<void(const GroupMigration&)>& report = {});

  // --- handlers, once for all databases; see Platform

  void on(std::string_view topic, HandlerFunction function, HandlerOptions options = {});
  void on(std::shared_ptr<Handler> handler);
  void on_any(HandlerFunction function, HandlerOptions options = {});
  void on_inbox(std::string_view topic, InboxHandlerFunction function, HandlerOptions options = {});
  void on_any_inbox(InboxHandlerFunction function, HandlerOptions options = {});

  /// Subscribes to the events of every database; see subscription.hpp. Each database has its own
  /// positions. The group's threads call the handler: the parts of a database take turns, and a
  /// call that takes longer than three times GroupOptions::call_timeout is asked to stop.
  void subscribe(std::string_view name, SubscriptionOptions options, SubscriptionHandler handler);

  [[nodiscard]] GroupFanout& fanout();

  /// Moves messages of a topic from the outbox of every database into the inbox of the database
  /// `to`, exactly once. The message in the outbox is acknowledged after the commit of the inbox.
  /// The inbox deduplicates by the key of the source database and the id of the message. A message
  /// in the inbox has the source "dovetail". While the target is unknown or down, the message is
  /// retried like any other.
  void forward(ForwardRule rule, HandlerOptions options = {});

  // --- background services

  /// Starts the threads of the group. Databases that cannot be opened are retried in the
  /// background. Throws InvalidOperation when the group was started before.
  void start();
  /// As Platform::stop(), for all databases at the same time. A call of the discovery that has not
  /// returned at the deadline is left behind: its thread ends when it returns, and its list is not
  /// used.
  bool stop(std::optional<std::chrono::milliseconds> deadline = {});

  /// As Platform::sample(), for all open databases of the group.
  [[nodiscard]] std::shared_ptr<const Sample> sample(
      std::chrono::milliseconds max_age = std::chrono::seconds{3}) const;

  /// The counters, gauges and timings of all databases; the label `store` is the key.
  [[nodiscard]] MetricsSnapshot metrics() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail
