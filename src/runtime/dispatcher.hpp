// Claims messages of one queue, hands them to the handlers, and settles them: the background
// service of a Platform.
//
// Its threads, and what each must never do:
//   * the workers call handlers; nothing else waits for them.
//   * the fetchers make the round trips: each settles what the workers have finished and claims the
//   next.
//     While one waits for the database, another works there; an engine with one writer has one
//     fetcher.
//   * the renewer renews leases when a third of them has passed; no handler can hold it up.
//   * the timekeeper fires stop tokens, before a lease is lost and when a handler's time is up; it
//   does no
//     I/O.
//   * the housekeeper takes back the leases of the dead, deletes old history, and does the other
//   components' chores.
//
// All times here are of the system's monotonic clock: they only bound how long this process waits.
// What decides is the database's clock.
//
// Threads: start() once; stop() from any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "dovetail/platform.hpp"
#include "runtime/handler_registry.hpp"
#include "runtime/invocation.hpp"
#include "runtime/job.hpp"
#include "runtime/listener.hpp"
#include "runtime/subscription.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"

namespace dovetail::runtime {

/// Something the housekeeper does for another component, now and then.
struct Chore {
  const char* name;
  std::function<void(const std::stop_token& stop)> run;
};

class Dispatcher {
 public:
  /// `options.threads` is at least 1 here. Throws std::out_of_range for options that cannot work.
  Dispatcher(storage::Database& database, storage::QueueConsumer& store, WorkQueue& queue,
             HandlerRegistry& handlers, WorkerOptions options, Listener& listener,
             std::vector<Chore> chores, Logger log, Metrics metrics);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  /// Stops, and waits for handlers for as long as they take.
  ~Dispatcher();

  void start();
  /// Claims nothing more, gives back what no handler has begun, waits for the rest up to
  /// `deadline`. Answers whether all handlers have ended. A database that does not answer delays it
  /// by some seconds at most.
  bool stop(std::chrono::milliseconds deadline);

 private:
  using Settlements = std::vector<storage::Settlement>;
  // A wait that nobody sees the end of, and that no clock overflows at.
  static constexpr std::chrono::milliseconds longest_wait = std::chrono::hours{24 * 365};
  // How fast the window grows when handlers take their time.
  static constexpr std::chrono::milliseconds growth_interval{250};

  // --- the fetchers
  /// A settlement that waits for its round trip, and where its message comes from.
  struct Finished {
    storage::Settlement settlement;
    Subscription* subscription = nullptr;
    int priority = 0;
    storage::QueueMark place{};
    // While it is put aside because somebody else holds a lock that it needs.
    MonoTime retry_at{};
    MonoTime lease_end{};
  };
  struct TripClaim {
    Subscription* subscription;
    PlannedClaim plan;
  };
  struct Trip {
    std::uint64_t number = 0;  // in the order of their beginnings
    std::vector<Finished> finished;
    std::vector<TripClaim> claims;
    std::vector<MessageId> absolved;  // their leases were lost, but they killed nobody
    std::int64_t max_bytes = 0;       // of each claim
    bool ran_dry = false;             // no worker had anything to begin
    bool careful = false;             // settles only what needs no lock of somebody else
  };
  void fetch();
  bool next_trip(Trip& trip);
  void grow_window(MonoTime now);
  void plan_claims(Trip& trip, MonoTime now);
  void take_settlements(Trip& trip, std::size_t ready, MonoTime now);
  [[nodiscard]] MonoTime next_wake(bool failing, MonoTime now) const;
  [[nodiscard]] bool claims_now(const Subscription& subscription, MonoTime now) const;
  [[nodiscard]] std::size_t window_left() const;
  void travel(Trip& trip);
  [[nodiscard]] storage::WorkAnswer make_trip(const Trip& trip);
  storage::WorkAnswer make_careful_trip(Trip& trip, const std::stop_token& stop);
  [[nodiscard]] std::vector<storage::ClaimOrder> orders_of(const Trip& trip) const;
  void put_aside(Trip& trip, const std::vector<Claim>& settleable);
  void settle_one_by_one(std::vector<Finished> finished);
  void note_settled(Trip& trip, std::size_t settled);
  void absolve(const std::vector<MessageId>& ids);
  void take_in(Subscription& subscription, std::vector<storage::ClaimedEntry> entries,
               std::size_t wanted, MonoTime sent_at);
  void take_suspect(const std::vector<JobPtr>& jobs);
  void hold(JobPtr job, MonoTime sent_at);
  JobPtr to_job(storage::ClaimedEntry&& entry, Subscription& subscription, MonoTime sent_at,
                std::vector<Finished>& unfit) const;
  void put_back(Trip& trip);
  void settle_the_late(MonoTime give_up_at);
  /// Waits until the fetchers have settled the rest and ended; from `give_up_at` on their I/O is
  /// cancelled. False when that was necessary.
  bool join_fetchers(MonoTime give_up_at);

  // --- the workers
  void work();
  void add_worker();
  JobPtr next_job();
  [[nodiscard]] bool begin(const JobPtr& job);
  [[nodiscard]] bool finish(const JobPtr& job, std::optional<storage::Settlement> settlement);
  void settle_later(Finished finished);
  void settle_later(const Job& job, storage::Settlement settlement);
  void give_back(const Job& job);
  void give_back_waiting();
  void forget(const JobPtr& job);

  // --- the other threads
  void renew(const std::stop_token& stop);
  std::vector<Claim> claims_to_renew(MonoTime now);
  void note_renewal(const std::vector<Claim>& asked, const std::vector<MessageId>& held,
                    MonoTime sent_at);
  void keep_time(const std::stop_token& stop);
  MonoTime fire_due_stops(MonoTime now);
  void give_up(const JobPtr& job);
  void keep_house(const std::stop_token& stop);
  void do_chores(const std::stop_token& stop);

  void drop_unstarted(const JobPtr& job);
  [[nodiscard]] bool may_start(const Job& job) const;
  /// How many messages wait whose handlers are not at their limits.
  [[nodiscard]] std::size_t startable() const;
  [[nodiscard]] std::size_t batch() const { return static_cast<std::size_t>(options_.batch_size); }
  [[nodiscard]] std::size_t largest_window() const;
  [[nodiscard]] MonoDuration safety_margin() const;
  [[nodiscard]] std::string event(std::string_view what) const { return scope_.event(what); }
  void log_error(std::string_view what, const std::exception& error) const;
  void log_job(LogLevel level, std::string_view what, const Job& job) const;

  storage::Database& database_;
  storage::QueueConsumer& store_;
  WorkQueue& queue_;
  HandlerRegistry& handlers_;
  const WorkerOptions options_;
  Listener& listener_;
  const std::vector<Chore> chores_;
  const OwnerToken owner_ = OwnerToken::generate();
  const Logger log_;
  const Metrics metrics_;
  const InvocationScope scope_;

  std::mutex stop_mutex_;  // taken before the other
  std::mutex mutex_;
  std::condition_variable_any fetcher_wakes_;
  std::condition_variable_any worker_wakes_;
  std::condition_variable_any timekeeper_wakes_;
  std::condition_variable_any job_ended_;
  bool stopping_ = false;                                      // no new claims
  bool closed_ = false;                                        // no more work at all
  std::unordered_map<MessageId, JobPtr> jobs_;                 // all that we hold
  std::deque<JobPtr> waiting_;                                 // those that no handler has begun
  std::unordered_map<const RegisteredHandler*, int> running_;  // calls under way, per handler
  std::size_t running_total_ = 0;
  std::vector<Finished> finished_;            // to be settled by the next round trip
  std::optional<MonoTime> first_finished_;    // since when the first of them waits
  std::vector<Finished> aside_;               // not settled: somebody holds a lock that they need
  std::vector<MessageId> absolved_;           // for the next round trip
  MonoTime next_deadline_ = MonoTime::max();  // the earliest that the timekeeper knows of
  int live_workers_ = 0;                      // threads whose handlers come back
  int replacements_ = 0;
  std::vector<JobPtr>
      unreplaced_;  // handlers that hang, and nobody took the place of their threads
  std::vector<std::thread::id> exited_;  // threads that have ended and can be joined
  JobPtr suspect_;  // a message that may kill its workers: nothing is claimed beside it

  // How many messages we hold at most. It begins with one, so that a message that kills its process
  // does not take others with it, and doubles while things go well.
  std::size_t window_ = 1;
  MonoTime grow_at_{};

  std::deque<Subscription> subscriptions_;  // when and where to claim; they stay where they are
  std::size_t claiming_ = 0;                // messages that round trips under way may bring
  std::size_t held_bytes_ = 0;              // of the payloads of all that we hold
  std::uint64_t trips_ = 0;
  MonoTime retry_at_{};  // no trip before: the last one failed
  int failures_ = 0;

  std::stop_source hurry_;  // ends I/O when the deadline of stop() has passed
  std::optional<storage::Doorbell::Subscription> bell_;
  std::optional<Listener::Subscription> hearing_;
  std::vector<std::jthread> services_;
  std::vector<std::jthread> fetchers_;
  std::list<std::jthread> workers_;
};

}  // namespace dovetail::runtime
