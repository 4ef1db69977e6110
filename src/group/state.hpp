// The parts of a PlatformGroup.
//
// Threads: see group.hpp.
#pragma once

#include <mutex>

#include "core/owner_process.hpp"
#include "dovetail/group.hpp"
#include "group/roster.hpp"

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

  // --- discovery
  void discover(std::shared_ptr<DatabaseDiscovery> discovery, DiscoverOptions options);
  /// Throws the errors of the discovery. Returns complaints about bad entries.
  std::vector<std::string> refresh();
  [[nodiscard]] std::vector<DatabaseEntry> entries();

  // --- handlers; throw InvalidOperation after start()
  void add_handler(bool inbox, std::string_view topic, HandlerFunction function,
                   HandlerOptions options);
  void add_fallback(bool inbox, HandlerFunction function, HandlerOptions options);

  void start();
  bool stop(std::optional<std::chrono::milliseconds> deadline);

 private:
  struct Discovering {
    std::mutex running;  // held while the discovery is called; locked before the other one
    mutable std::mutex mutex;
    std::shared_ptr<DatabaseDiscovery> source;
    DiscoverOptions options;
    bool succeeded = false;  // at least once
    int failures = 0;
    std::string error;
    std::vector<std::string> bad_entries;
    MonoTime due{};
  };

  [[nodiscard]] runtime::HandlerRegistry& registry(bool inbox);
  /// Calls the discovery if it is due, and ends databases that have left.
  MonoTime tick();
  void try_refresh();
  /// Calls the discovery and applies its list. Returns complaints about bad entries.
  std::vector<std::string> apply_discovery(DatabaseDiscovery& source);
  void note_failure(const std::string& error);
  void finish_members();

  const GroupOptions options_;
  const Logger log_;
  const Metrics metrics_;
  const core::OwnerProcess process_;
  runtime::HandlerRegistry outbox_handlers_;
  runtime::HandlerRegistry inbox_handlers_;
  GroupFanout fanout_;
  group::Agenda care_;
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
  group::Agenda::TaskPtr ticking_;
};

}  // namespace dovetail
