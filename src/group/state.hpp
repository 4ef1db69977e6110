// The parts of a PlatformGroup.
//
// Threads: see group.hpp.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "core/owner_process.hpp"
#include "dovetail/group.hpp"
#include "event/registrations.hpp"
#include "group/discovery_calls.hpp"
#include "group/health.hpp"
#include "group/roster.hpp"
#include "observe/sampler.hpp"

namespace dovetail {

class PlatformGroup::State {
 public:
  explicit State(GroupOptions options);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// Stops, cancels the database calls of the remaining handlers, and waits for them.
  ~State();

  [[nodiscard]] group::Roster& roster() { return roster_; }
  [[nodiscard]] const core::OwnerProcess& process() const { return process_; }
  [[nodiscard]] const GroupOptions& options() const { return options_; }
  [[nodiscard]] GroupFanout& fanout() { return fanout_; }
  [[nodiscard]] GroupStatus status() const;
  [[nodiscard]] HealthService& health() { return health_; }
  [[nodiscard]] observe::Sampler& sampler() { return sampler_; }

  // --- discovery
  void discover(std::shared_ptr<DatabaseDiscovery> discovery, DiscoverOptions options);
  /// Throws the errors of the discovery. Returns complaints about bad entries.
  std::vector<std::string> refresh();
  [[nodiscard]] std::vector<DatabaseEntry> entries();

  // --- handlers; throw InvalidOperation after start()
  void add_handler(bool inbox, std::string_view topic, HandlerFunction function,
                   HandlerOptions options);
  void add_fallback(bool inbox, HandlerFunction function, HandlerOptions options);
  void subscribe(event::Registration registration);

  void start();
  bool stop(std::optional<std::chrono::milliseconds> deadline);

 private:
  struct Discovering {
    mutable std::mutex mutex;             // guards the following
    bool running = false;                 // a thread applies the list of a discovery
    std::condition_variable_any ended{};  // `running` became false
    std::shared_ptr<group::DiscoveryCalls> calls;
    DiscoverOptions options;
    std::optional<MonoTime> succeeded;  // the last time
    std::optional<WallTime> failing_since;
    int failures = 0;
    std::string error;
    std::vector<std::string> bad_entries;
    MonoTime due{};

    /// Lets another thread call the discovery.
    void end_run() {
      const std::lock_guard lock(mutex);
      running = false;
      ended.notify_one();
    }
  };

  [[nodiscard]] runtime::HandlerRegistry& registry(bool inbox);
  [[nodiscard]] std::shared_ptr<group::DiscoveryCalls> discovery() const;
  /// Calls the discovery if it is due. A step of the agenda.
  MonoTime look_for_changes();
  /// Applies a list of the discovery. Returns complaints about bad entries.
  std::vector<std::string> apply_list(std::vector<DatabaseEntry> found);
  void note_failure(const std::string& error);
  void finish_members();
  /// Lets the supervisor watch the agendas.
  void supervise();
  [[nodiscard]] std::vector<observe::Sampler::Source> sample_sources() const;

  const GroupOptions options_;
  const Logger log_;
  const Metrics metrics_;
  const core::OwnerProcess process_;
  runtime::HandlerRegistry outbox_handlers_;
  runtime::HandlerRegistry inbox_handlers_;
  event::Registrations subscriptions_;
  GroupFanout fanout_;
  group::Agenda maintenance_;
  group::Agenda fetchers_;
  group::Agenda renewers_;
  group::Agenda timekeepers_;
  group::Turns turns_;
  group::Listeners listeners_;
  group::MigrationSlots migrations_;
  const group::GroupContext context_;
  Discovering discovering_;
  std::stop_source stopping_;
  std::mutex stop_mutex_;           // locked before the other one
  mutable std::mutex start_mutex_;  // guards the handlers until the start, and the next two members
  std::unique_ptr<runtime::WorkerPool> pool_;
  bool stopped_ = false;
  group::Roster roster_;
  group::Agenda::TaskPtr sweeping_;
  group::Agenda::TaskPtr looking_;
  bool changes_unknown_ = false;  // has_changed() has failed since; used by `looking_` only
  std::atomic<runtime::RunState> run_state_{runtime::RunState::unused};
  runtime::Supervisor supervisor_;
  // Last: their threads end before the databases.
  observe::Sampler sampler_;
  HealthService health_;  // uses the sampler
};

}  // namespace dovetail
