// Keeps the leases of a dispatcher's deliveries, and tells handlers when to stop.
//
// Two threads:
//   * The renewer renews a lease when a third of it has passed. No handler can block it.
//   * The timekeeper fires stop tokens before a lease expires and when a handler reaches its
//     timeout. It does no I/O. A user's stop callback runs on its own thread.
//
// Times are from the injected monotonic clock. They only bound how long this process waits. The
// database's clock decides who holds a lease.
//
// Threads: start() once; stop() from one thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "component/service.hpp"
#include "runtime/invocation.hpp"
#include "runtime/ledger.hpp"
#include "runtime/work_source.hpp"

namespace dovetail::runtime {

/// Fires each stop token on its own thread: a user's stop callback may be slow. There are no more
/// running deliveries than threads in the pool. A thread uses only its delivery, which it keeps
/// alive.
void tell_to_stop(const std::vector<DeliveryPtr>& deliveries);

class LeaseKeeper {
 public:
  /// Implemented by the dispatcher. Called with the ledger's mutex held.
  class Holder {
   public:
    /// No handler has begun the delivery, and a third of its lease has passed.
    virtual void return_unstarted(const DeliveryPtr& delivery) = 0;
    /// The handler was told to stop, and still runs one lease later.
    virtual void give_up(const DeliveryPtr& delivery) = 0;
    /// The handler has returned, and its transaction waits, perhaps for a lock. Another thread may
    /// call handlers meanwhile.
    virtual void add_thread_for_blocked_commit(const DeliveryPtr& delivery) = 0;

   protected:
    ~Holder() = default;
  };

  /// The time that a handler's transaction may take to end before another thread is added.
  static constexpr std::chrono::milliseconds commit_patience{250};

  LeaseKeeper(Holder& holder, WorkSource& source, Ledger& ledger, const QueueScope& scope,
              std::chrono::milliseconds lease)
      : holder_(holder),
        source_(source),
        ledger_(ledger),
        scope_(scope),
        lease_(lease),
        renewing_(scope.database.clock()),
        keeping_time_(scope.database.clock()) {}

  /// Starts the two threads.
  void start();

  // Instead of start(), for a runner with threads for many keepers:

  using Wake = std::function<void(MonoTime at)>;
  /// `wake` is called, with the ledger's mutex held, if a stop may be due earlier than the time
  /// that keep_time() returned.
  void begin(Wake wake);
  /// Renews the leases that are due. Returns when to call it again.
  MonoTime renew(const std::stop_token& stop);
  /// Fires the stop tokens that are due. Returns when to call it again.
  MonoTime keep_time();

  /// Returns at once.
  void request_stop();
  /// Cancels a renewal that is under way, and later ones.
  void cut_off() { io_.request_stop(); }
  /// Waits for the threads. A renewal under way is cancelled.
  void stop();

  /// Failed renewals in a row.
  [[nodiscard]] component::ServiceHealth renewals() const;
  /// The loops of the two threads.
  [[nodiscard]] std::vector<component::Loop> loops(const std::string& prefix) const;

  /// A message counts as lost this long before its lease expires.
  [[nodiscard]] MonoDuration safety_margin() const;
  /// A stop may be due at `deadline`. Under the ledger's mutex.
  void watch(MonoTime deadline);
  /// The lease of this delivery is lost. Under the ledger's mutex.
  void note_lost(Delivery& delivery, MonoTime since);

 private:
  [[nodiscard]] MonoDuration interval() const;
  void run_renewer(const std::stop_token& stop);
  enum class Reason { lease_ends, timeout, hangs };
  struct Stop {
    DeliveryPtr delivery;
    Reason reason;
  };

  void run_timekeeper();
  std::vector<Claim> claims_to_renew(MonoTime now);
  void note_failure(const std::exception& error);
  void note_renewal(const std::vector<Claim>& asked, const std::vector<MessageId>& held,
                    MonoTime sent_at);
  /// Finds the stops that are due. Returns when to look again. Under the ledger's mutex.
  MonoTime find_stops(MonoTime now, std::vector<Stop>& due);
  void fire(const std::vector<Stop>& due) const;
  void report_stop(const Delivery& delivery, std::string_view what, std::string_view metric) const;

  Holder& holder_;
  WorkSource& source_;
  Ledger& ledger_;
  const QueueScope& scope_;
  const std::chrono::milliseconds lease_;
  std::condition_variable_any wakes_;         // wakes the timekeeper; used with the ledger's mutex
  MonoTime next_deadline_ = MonoTime::max();  // the earliest stop that is known
  bool closed_ = false;
  component::ServiceHealth renewals_;  // guarded by the ledger's mutex
  Wake wake_;
  core::LoopProgress renewing_;
  core::LoopProgress keeping_time_;
  std::stop_source io_;
  std::jthread renewer_;
  std::jthread timekeeper_;
};

}  // namespace dovetail::runtime
