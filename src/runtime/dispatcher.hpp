// Claims the messages of one queue, hands them to the worker pool, and settles them.
//
// Its threads, the fetchers, make the round trips: each settles finished messages and claims the
// next ones. Several fetchers work at the same time. An engine with one writer has one fetcher.
//
// Responsibilities:
//   * ClaimPlanner: when to make a round trip, what to claim.
//   * WorkSource: how messages are leased and settled.
//   * Ledger: the messages held, and the settlements that wait.
//   * WorkerPool: which delivery a thread begins. StreamLines: the order of deliveries in a stream.
//   * LeaseKeeper: renewals and stop tokens.
//
// A dispatcher of a group has no threads: the group calls visit(), renew_leases() and keep_time().
//
// Threads: start() once; stop() from one thread at a time; visit() from one thread at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "component/renews.hpp"
#include "dovetail/platform.hpp"
#include "runtime/claim_planner.hpp"
#include "runtime/intake.hpp"
#include "runtime/lease_keeper.hpp"
#include "runtime/ledger.hpp"
#include "runtime/stream_lines.hpp"
#include "runtime/work_source.hpp"
#include "runtime/worker_pool.hpp"
#include "storage/listener.hpp"

namespace dovetail::runtime {

class Dispatcher final : public component::Service,
                         public component::Renews,
                         private WorkerPool::Client,
                         private LeaseKeeper::Holder {
 public:
  /// Throws std::out_of_range for options that cannot work.
  Dispatcher(QueueScope scope, std::unique_ptr<WorkSource> source, const HandlerRegistry& handlers,
             const WorkerOptions& options, WorkerPool& pool, storage::Listener& listener);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  /// Requires that no handler runs any more.
  ~Dispatcher() override;

  [[nodiscard]] std::string name() const override { return scope_.prefix + "dispatcher"; }
  [[nodiscard]] std::size_t connections() const override;
  void start() override;
  /// Stops claiming, gives back the messages that no handler has begun, and fires the stop tokens
  /// of the other deliveries.
  void request_stop() override;
  bool stop(MonoTime deadline) override;
  void cut_off() override;
  [[nodiscard]] bool is_essential() const override { return true; }
  /// Settles the messages whose handlers ended after the deadline, if their leases are still held.
  void finish() override;
  [[nodiscard]] component::ServiceHealth health() const override;
  [[nodiscard]] std::vector<component::Loop> loops() const override;
  [[nodiscard]] component::ServiceHealth renewals() const override { return keeper_.renewals(); }

  // --- for a runner with threads for many dispatchers

  /// Both are called with the ledger's mutex held.
  struct Wakes {
    std::function<void()> fetcher;                ///< There may be a reason for a visit.
    std::function<void(MonoTime at)> timekeeper;  ///< keep_time() may be due at that time.
  };
  /// Call it instead of start(). stop() then stores no settlements: the caller makes visits until
  /// stop() returns, and then calls finish().
  void begin(Wakes wakes);
  struct Assessment {
    TripNeeds needs;
    MonoTime wake{};         ///< When to assess again, unless a wake-up comes earlier.
    bool is_idle = true;     ///< Holds no messages, and has no settlements to make.
    bool is_drained = true;  ///< No handler is under way.
  };
  [[nodiscard]] Assessment assess();
  struct Visit {
    std::size_t claimed = 0;
    bool lacked_room = false;  ///< A claim was due, but had to wait until handlers end.
  };
  /// Makes a round trip if one is due.
  Visit visit(bool may_claim, const std::stop_token& stop);
  MonoTime renew_leases(const std::stop_token& stop) { return keeper_.renew(stop); }
  MonoTime keep_time() { return keeper_.keep_time(); }

 private:
  struct Trip {
    TripPlan plan;
    std::vector<Finished> finished;
    std::vector<MessageId> lost_leases;
    std::vector<MessageId> uncharged;
    bool careful = false;
    std::stop_token stop;
  };
  /// The state that the fetchers, the pool's threads and the lease keeper share. The ledger's mutex
  /// guards all of it.
  struct Shared {
    Shared(const HandlerRegistry& handlers, const WorkerOptions& options, int threads)
        : planner(handlers, options, threads) {}

    Ledger ledger;
    ClaimPlanner planner;
    StreamLines lines;
    std::condition_variable_any handler_ended;
    std::condition_variable_any stream_settled;
    component::ServiceHealth health;
    int settling = 0;       // round trips under way that settle messages
    bool stopping = false;  // no further claims
    bool closed = false;    // the fetchers end once everything is settled
  };
  /// The events that wake the fetchers.
  struct Bells {
    explicit Bells(Dispatcher& dispatcher);
    storage::Doorbell::Subscription messages;
    storage::Listener::Subscription listener;
  };

  struct Fetchers {
    std::condition_variable_any wakes;
    std::deque<core::LoopProgress> progress;  // of each thread; not changed after start()
    std::vector<std::jthread> threads;
    std::atomic<bool> running{false};
    std::function<void()> wake_other;  // wakes the threads of a runner instead of these
    std::stop_source io;               // ends their I/O when the deadline of stop() has passed
    std::atomic<bool> cut_off{false};  // they did not end in time
  };

  [[nodiscard]] int fetcher_count() const;
  void set_running();

  // --- the fetchers
  void fetch(core::LoopProgress& progress);
  std::optional<Trip> next_trip(core::LoopProgress& progress);
  /// Under the ledger's mutex.
  [[nodiscard]] std::optional<Trip> trip_for(const Load& load, const TripNeeds& needs,
                                             MonoTime now);
  /// Returns the number of messages that were claimed.
  std::size_t make(Trip trip);
  std::size_t travel(Trip trip);
  /// Sets the gauges. Called after each round trip.
  void report_load() const;
  [[nodiscard]] WorkResult round_trip(const Trip& trip);
  [[nodiscard]] std::vector<storage::ClaimOrder> orders_of(const TripPlan& plan) const;
  void note_settled(const Trip& trip, std::size_t settled);
  void note_failure(Trip& trip, const std::exception& error);
  void settle_one_by_one(std::vector<Finished> finished, const std::stop_token& stop);
  void take_in(const TripClaim& claim, storage::Claimed claimed, MonoTime sent_at);
  bool hold(const DeliveryPtr& delivery, MonoTime sent_at, std::vector<DeliveryPtr>& held);
  void isolate_suspect(const std::vector<DeliveryPtr>& deliveries);
  void take_back_losses(const Trip& trip);
  void join_fetchers(MonoTime give_up_at);
  /// Whether results of handlers wait for their settlement.
  [[nodiscard]] bool has_results();

  // --- the handlers
  bool begin(const DeliveryPtr& delivery) override;
  void handle(const DeliveryPtr& delivery) override;
  void end(const DeliveryPtr& delivery, std::optional<storage::Settlement> settlement);

  // --- under the ledger's mutex
  void return_unstarted(const DeliveryPtr& delivery) override;
  void give_up(const DeliveryPtr& delivery) override;
  void add_thread_for_blocked_commit(const DeliveryPtr& delivery) override;
  void settle_later(Finished finished);
  void give_back(const Delivery& delivery);
  void give_back_waiting();
  /// Gives back the messages behind this one in its stream: they must not begin.
  void release_successors(const Delivery& delivery);
  void submit_next(const Delivery& delivery);
  bool await_predecessors(const Delivery& delivery);
  void drop(const DeliveryPtr& delivery);
  [[nodiscard]] Load load() const;
  void wake_fetcher();
  void wake_all_fetchers();

  [[nodiscard]] Clock& clock() const { return scope_.database.clock(); }

  const QueueScope scope_;
  const WorkerOptions options_;
  const std::unique_ptr<WorkSource> source_;
  WorkerPool& pool_;
  storage::Listener& listener_;
  Shared shared_;
  Intake intake_;
  LeaseKeeper keeper_;
  std::optional<Bells> bells_;
  Fetchers fetchers_;
};

}  // namespace dovetail::runtime
