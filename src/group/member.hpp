// One database of a group, from its first poll to its end.
//
// A task of the group's agenda makes its steps. While the database is idle, a step is a glance: one
// query that returns when there will be work. With work, the database gets dispatchers and a
// scheduler (Work), until it has been idle for some seconds. A failed database is retried after a
// growing pause.
//
// Threads: from any, unless a method says otherwise.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dovetail/group.hpp"
#include "event/registrations.hpp"
#include "group/agenda.hpp"
#include "group/listeners.hpp"
#include "group/step_list.hpp"
#include "group/work.hpp"
#include "runtime/housekeeper.hpp"
#include "runtime/open.hpp"
#include "storage/connection_budget.hpp"
#include "storage/glance_store.hpp"

namespace dovetail::group {

/// Limits the number of concurrent migrations. Migrations have no time limit: they must not take
/// all connections.
class MigrationSlots {
 public:
  explicit MigrationSlots(int most) : free_(most) {}
  /// Waits for other threads, so it measures real time.
  [[nodiscard]] bool try_take_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    if (!given_back_.wait_for(lock, time, [this] { return free_ > 0; })) return false;
    --free_;
    return true;
  }
  void give_back() {
    const std::lock_guard lock(mutex_);
    ++free_;
    given_back_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_back_;
  int free_;
};

/// Thrown by a step that has to wait for other callers. The step is retried after this time.
struct TryLater {
  MonoDuration wait{};
};

/// The objects that all databases of a group share.
struct GroupContext {
  const GroupOptions& options;
  const std::shared_ptr<storage::ConnectionBudget> budget;
  const runtime::HandlerRegistry& outbox_handlers;
  const runtime::HandlerRegistry& inbox_handlers;
  event::Registrations& subscriptions;
  const GroupFanout& fanout;
  Logger log;
  Metrics metrics;
  Clock& clock;
  Agenda& maintenance;
  Listeners& listeners;
  MigrationSlots& migrations;
};

class Member {
 public:
  Member(const GroupContext& group, DatabaseEntry entry, std::size_t place);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  /// Requires that no task runs any more; see end().
  ~Member();

  [[nodiscard]] const DatabaseEntry& entry() const { return entry_; }
  /// The key as a UUID, if it is one.
  [[nodiscard]] const std::optional<Uuid>& uuid() const { return uuid_; }
  /// Null while the database is not open.
  [[nodiscard]] std::shared_ptr<runtime::Node> node() const;
  /// Opens the database if necessary. Throws the errors of Platform::open().
  [[nodiscard]] std::shared_ptr<Platform> platform();
  /// The same, as an object that the group retires when the database leaves. Throws
  /// InvalidOperation if it has left.
  [[nodiscard]] Platform& view();
  /// The object that view() has returned, if any. Call it after leave().
  [[nodiscard]] std::shared_ptr<Platform> take_view();
  [[nodiscard]] GroupDatabaseStatus status() const;

  /// Starts the work on the database with these threads.
  void start(const GroupThreads& threads);
  /// Makes no new claims, and ends in the background. After `is_last`, the agenda makes no steps
  /// any more: the database counts as left at once.
  void leave(bool is_last);
  [[nodiscard]] bool has_left() const { return left_; }

  // --- the end of the group; all but request_stop() require that the agenda makes no more steps

  void request_stop();
  bool stop(MonoTime deadline);
  /// Stores the last results and leaves the table of instances.
  void finish(MonoTime give_up_at);
  /// Cancels the database calls of the remaining handlers.
  void cancel_calls();
  /// Removes the tasks. Requires that no handler runs any more.
  void end();

 private:
  struct Bells;

  MonoTime step(const std::stop_token& stop);
  MonoTime maintain(const std::stop_token& stop);
  MonoTime check_idle_database(const std::stop_token& stop);
  MonoTime check_working_database(const std::stop_token& stop);
  MonoTime leave_step();
  [[nodiscard]] runtime::Node& opened(const std::stop_token& stop);
  [[nodiscard]] std::unique_ptr<storage::Database> open_database(const PlatformOptions& options,
                                                                 const std::stop_token& stop);
  void prepare_schema(storage::Database& database, const PlatformOptions& options,
                      const std::stop_token& stop);
  void migrate(storage::Database& database);
  /// Returns whether a call has taken too long.
  [[nodiscard]] bool is_over(const Agenda::LongStep& step) const;
  [[nodiscard]] PlatformOptions platform_options() const;
  void begin_services(runtime::Node& node, const std::stop_token& stop);
  void register_handlers(runtime::Node& node, const std::stop_token& stop);
  [[nodiscard]] std::optional<MonoDuration> glance(const std::stop_token& stop);
  void wake_up();
  void sleep();
  void end_work();
  MonoTime note_failure(const std::string& error);
  MonoTime note_no_probe(const storage::ProbeUnavailable& error);
  [[nodiscard]] MonoTime after_failures(int failures) const;
  void note_success();
  [[nodiscard]] MonoTime now() const { return group_.clock.mono(); }
  [[nodiscard]] std::shared_ptr<Work> work() const;

  const GroupContext& group_;
  const DatabaseEntry entry_;
  const std::optional<Uuid> uuid_;
  const std::size_t place_;
  const std::shared_ptr<storage::ConnectionBudget::Account> account_;
  std::optional<GroupThreads> threads_;
  Agenda::TaskPtr task_;

  std::mutex opening_;        // held while the database is opened
  mutable std::mutex mutex_;  // guards the next members
  std::shared_ptr<runtime::Node> node_;
  std::shared_ptr<Platform> platform_;
  std::shared_ptr<Platform> view_;
  std::shared_ptr<Work> work_;
  storage::Database* being_opened_ = nullptr;
  int failures_ = 0;
  std::string last_error_;

  bool needs_migration_ = false;  // as far as known; guarded by `opening_`
  std::atomic<bool> migrates_{false};
  std::atomic<bool> rung_{false};
  std::atomic<bool> leaving_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> left_{false};
  std::atomic<MonoTime> leave_since_{};

  // Used by the steps only.
  std::unique_ptr<runtime::NodeHandlers> handlers_;
  storage::GlanceTopics topics_;  // the topics with a handler
  std::size_t fanouts_ = 0;       // registrations that succeeded
  std::unique_ptr<Bells> bells_;
  runtime::Instance* instance_ = nullptr;
  runtime::Housekeeper* housekeeper_ = nullptr;
  std::unique_ptr<StepList> services_;       // run at all times
  std::unique_ptr<StepList> work_services_;  // run while there is work
  Agenda::TaskPtr work_task_;
  MonoDuration interval_;
  MonoTime next_glance_{};
  bool events_wait_ = false;  // for a subscription, at the last glance
  bool woken_by_glance_ = false;
};

}  // namespace dovetail::group
