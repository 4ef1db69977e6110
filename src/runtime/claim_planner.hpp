// Decides when a dispatcher makes a round trip, which topics it claims, how many messages, and from
// which place in the queue.
//
// The planner does no I/O, has no lock and reads no clock: events and times come in, decisions go
// out. Its parts:
//   * Subscriptions: one for all handlers without a concurrency limit, and one for each handler
//     with a limit (subscription.hpp).
//   * The window: the largest number of messages that the process holds. It starts at one, so that
//     a message that crashes its process affects no others. It doubles while handlers return.
//   * The suspect: a message that lost its lease repeatedly. It is handled alone.
//   * The byte budget, and the pause after a failed round trip.
//
// Threads: the caller's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "dovetail/platform.hpp"
#include "runtime/handler_registry.hpp"
#include "runtime/subscription.hpp"

namespace dovetail::runtime {

/// The load of a dispatcher at the time of a decision.
struct Load {
  std::size_t held = 0;                       ///< Deliveries, waiting or running.
  std::size_t running = 0;                    ///< Handlers under way.
  std::size_t bytes = 0;                      ///< Total size of the payloads held.
  std::size_t finished = 0;                   ///< Settlements that wait for a round trip.
  MonoTime first_finished = MonoTime::max();  ///< When the first of them finished.
  MonoTime retry_aside = MonoTime::max();     ///< When to retry a settlement that was put aside.
  bool resets_lost_leases = false;            ///< Some messages lost their leases.
  bool has_threads = true;                    ///< At least one thread can call handlers.
  bool stopping = false;                      ///< No further claims.
};

struct TripClaim {
  Subscription* subscription = nullptr;
  PlannedClaim plan;
};

/// The reasons for a round trip.
struct TripNeeds {
  bool settles = false;   ///< There are settlements that should not wait any longer.
  bool is_due = false;    ///< A claim is due.
  bool has_room = false;  ///< False: claims have to wait until handlers end.

  [[nodiscard]] bool claims() const { return is_due && has_room; }
};

/// A round trip: it stores all finished settlements, and makes these claims.
struct TripPlan {
  std::uint64_t number = 0;  ///< Trips are numbered in the order of their starts.
  std::vector<TripClaim> claims;
  std::int64_t max_bytes = 0;      ///< The byte limit of each claim.
  bool nothing_startable = false;  ///< No held delivery could begin.
};

class ClaimPlanner {
 public:
  ClaimPlanner(const HandlerRegistry& handlers, const WorkerOptions& options, int threads);

  // --- decisions

  /// Lets the window grow, and returns the round trip to make now, or nullopt if there is no reason
  /// for one.
  [[nodiscard]] std::optional<TripPlan> plan(const Load& load, MonoTime now) {
    grow(load, now);
    return plan(load, needs(load, now), now);
  }
  /// The same with known needs. A caller may clear some of them.
  [[nodiscard]] std::optional<TripPlan> plan(const Load& load, const TripNeeds& needs,
                                             MonoTime now);
  [[nodiscard]] TripNeeds needs(const Load& load, MonoTime now) const;
  /// Returns when to call plan() again, unless an event comes earlier.
  [[nodiscard]] MonoTime next_wake(const Load& load, MonoTime now) const;
  /// True during the pause after a failed round trip.
  [[nodiscard]] bool is_failing(MonoTime now) const { return now < retry_at_; }
  /// True when only this message may be handled now.
  [[nodiscard]] bool is_suspect(MessageId id) const { return suspect_ == id; }
  [[nodiscard]] bool has_suspect() const { return suspect_.has_value(); }

  // --- events of the queue

  /// A message may have arrived.
  void ring();
  /// Claims are due at `time` at the latest.
  void poll_by(MonoTime time);

  /// A message of the subscription is expected to come due at `time`.
  void note_due_at(Subscription& subscription, MonoTime time);
  /// The message at `place` is ready again. The next claims begin there or earlier.
  void note_returned(Subscription& subscription, int priority, const storage::QueueMark& place);
  /// The load at this time. A window that stays full grows with time, because slow handlers are no
  /// reason for a small one. Call it before needs().
  void grow(const Load& load, MonoTime now);

  // --- events of a round trip

  void end_claim(const TripClaim& claim, const storage::Claimed& claimed, const PollPace& pace,
                 MonoTime sent_at, MonoTime now);
  /// The messages of the claim are counted as held from now on.
  void take_in(const TripClaim& claim) { claiming_ -= claim.plan.wanted; }
  void note_settled(std::size_t settled, bool nothing_startable);
  /// `random` is from 0 to 1.
  void note_failure(const TripPlan& trip, double random, MonoTime now);

  // --- events of a delivery

  void add(Subscription& subscription);
  /// A handler begins. Returns whether a fetcher should check what to claim: there is room for a
  /// batch, no delivery is left to begin, or the handler has a concurrency limit.
  bool begin(Subscription& subscription);
  /// The delivery ends without having begun.
  void drop(Subscription& subscription);
  void end(Subscription& subscription, MonoDuration took);
  /// A handler has returned, and its own transaction has settled the message. No round trip reports
  /// that.
  void note_alive();
  /// Messages waited too long for a handler. Reduces the window.
  void shrink(std::size_t running, MonoTime now);
  /// Nothing else is claimed until release().
  void isolate(MessageId suspect);
  void release(MessageId id);
  void release_suspect() { suspect_.reset(); }

  /// The number of deliveries that could begin if threads were free.
  [[nodiscard]] std::size_t startable() const;
  /// True if the window is full. The fetchers then wait for a free place.
  [[nodiscard]] bool is_full(std::size_t held) const { return held >= window_; }
  [[nodiscard]] std::size_t batch() const { return batch_; }
  [[nodiscard]] std::size_t window() const { return window_; }

 private:
  [[nodiscard]] std::size_t window_left(const Load& load) const;
  void plan_claims(TripPlan& trip, const Load& load, MonoTime now);

  const std::size_t batch_;
  const std::size_t max_bytes_;
  const std::size_t fetchers_;
  const std::size_t largest_window_;

  std::deque<Subscription> subscriptions_;  // a deque: its elements do not move
  std::size_t window_ = 1;
  MonoTime grow_at_{};
  std::size_t claiming_ = 0;  // messages requested by claims under way
  std::uint64_t trips_ = 0;
  std::optional<MessageId> suspect_;
  MonoTime retry_at_{};
  int failures_ = 0;
};

}  // namespace dovetail::runtime
