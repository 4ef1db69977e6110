// The dispatchers of one database of a group while the database has work. The group's threads visit
// them.
//
// Threads: from any; stop() and finish() from one thread at a time.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "group/agenda.hpp"
#include "group/turns.hpp"
#include "runtime/node_services.hpp"

namespace dovetail::group {

/// The threads that all databases of a group share.
struct GroupThreads {
  Agenda& fetchers;     ///< Claim and settle.
  Agenda& renewers;     ///< Renew leases.
  Agenda& timekeepers;  ///< Fire stop tokens. No I/O.
  Turns& turns;
  runtime::WorkerPool& pool;
};

class Work {
 public:
  /// The place of the database in its group.
  struct Place {
    std::string key;
    std::size_t index;
    Agenda::IsOver is_over;  ///< Limits claims and renewals.
  };
  Work(const GroupThreads& threads, runtime::Node& node, const runtime::NodeHandlers& handlers,
       Place place);
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  /// Stops with a deadline of zero. Requires that no handler runs any more.
  ~Work();

  /// Starts claiming.
  void start();

  /// True if it holds no messages and has no results to store.
  [[nodiscard]] bool is_idle() const;
  /// True if no handler is running.
  [[nodiscard]] bool is_drained() const;
  /// The time of the last claim that returned messages, or the start of the work.
  [[nodiscard]] MonoTime last_claim() const { return last_claim_; }
  /// True if a claim was made since the start, or since the last expect_message().
  [[nodiscard]] bool has_looked() const { return has_looked_; }
  /// A message may have arrived: has_looked() is false until the next claim.
  void expect_message() { has_looked_ = false; }
  /// Whether any message was claimed.
  [[nodiscard]] bool has_claimed() const { return has_claimed_; }
  [[nodiscard]] component::ServiceHealth health() const;

  /// Stops claiming if no messages are held. Otherwise continues and returns false.
  bool try_pause();
  void request_stop();
  /// Waits for the handlers. Returns whether all have ended.
  bool stop(MonoTime deadline);
  /// No visits follow. Stores the last results, unless it is too late.
  void finish(MonoTime give_up_at);

 private:
  struct Seen {
    runtime::TripNeeds needs{};
    MonoTime wake = MonoTime::max();
  };

  MonoTime step(const std::stop_token& stop);
  [[nodiscard]] Seen assess() const;

  const GroupThreads threads_;
  Clock& clock_;
  const Place place_;
  const std::chrono::milliseconds lease_;
  std::vector<std::unique_ptr<runtime::Dispatcher>> dispatchers_;
  std::atomic<MonoTime> last_claim_;
  std::atomic<bool> has_claimed_{false};
  std::atomic<bool> has_looked_{false};
  std::atomic<bool> paused_{true};  // until all dispatchers have begun
  Turns::EntryPtr turn_;
  Agenda::TaskPtr fetching_;
  std::vector<Agenda::TaskPtr> renewing_;
  std::vector<Agenda::TaskPtr> keeping_time_;
};

}  // namespace dovetail::group
