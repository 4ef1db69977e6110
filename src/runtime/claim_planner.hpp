// Decides when a dispatcher makes a round trip, which topics it claims, how many messages, and from
// which place in the queue.
//
// The planner does no I/O, has no lock and reads no clock: events and times come in, decisions go
// out. Its parts:
//   * Subscriptions: one for all handlers without a concurrency limit, and one for each handler
//     with a limit (subscription.hpp).
//   * The window: how many messages the process holds at most. It starts with one message, so that
//     a message that kills its process takes no others with it, and doubles while handlers return.
//   * The suspect: a message whose leases were lost again and again is handled alone.
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

/// What a dispatcher holds at the moment of a decision.
struct Load {
  std::size_t held = 0;                       ///< Deliveries, waiting or running.
  std::size_t running = 0;                    ///< Handlers under way.
  std::size_t bytes = 0;                      ///< Of the payloads held.
  std::size_t finished = 0;                   ///< Settlements that wait for a round trip.
  MonoTime first_finished = MonoTime::max();  ///< Since when the first of them waits.
  MonoTime retry_aside = MonoTime::max();     ///< When to retry a settlement that was put aside.
  bool absolves = false;                      ///< There are messages to absolve.
  bool has_threads = true;                    ///< At least one thread can call handlers.
  bool stopping = false;                      ///< No further claims.
};

struct TripClaim {
  Subscription* subscription = nullptr;
  PlannedClaim plan;
};

/// Why a dispatcher would make a round trip at a moment.
struct TripNeeds {
  bool settles = false;   ///< There are settlements that should not wait any longer.
  bool is_due = false;    ///< A claim is due.
  bool has_room = false;  ///< False: it has to wait until handlers end.

  [[nodiscard]] bool claims() const { return is_due && has_room; }
};

/// A round trip: it settles all that is finished, and makes these claims.
struct TripPlan {
  std::uint64_t number = 0;  ///< In the order of their starts.
  std::vector<TripClaim> claims;
  std::int64_t max_bytes = 0;  ///< Of each claim.
  bool ran_dry = false;        ///< No thread had a delivery to begin.
};

class ClaimPlanner {
 public:
  ClaimPlanner(const HandlerRegistry& handlers, const WorkerOptions& options, int threads);

  // --- decisions

  /// The round trip to make now; nothing when there is no reason for one.
  [[nodiscard]] std::optional<TripPlan> plan(const Load& load, MonoTime now) {
    return plan(load, needs(load, now), now);
  }
  /// The same, when the needs are known. A caller may take needs away.
  [[nodiscard]] std::optional<TripPlan> plan(const Load& load, const TripNeeds& needs,
                                             MonoTime now);
  [[nodiscard]] TripNeeds needs(const Load& load, MonoTime now);
  /// When to ask again, unless an event comes earlier.
  [[nodiscard]] MonoTime next_wake(const Load& load, MonoTime now) const;
  /// True during the pause after a failed round trip.
  [[nodiscard]] bool is_failing(MonoTime now) const { return now < retry_at_; }
  /// True when only this message may be handled now.
  [[nodiscard]] bool is_suspect(MessageId id) const { return suspect_ == id; }
  [[nodiscard]] bool has_suspect() const { return suspect_.has_value(); }

  // --- events of the queue

  /// A message may have come.
  void ring();
  /// Look at the queue then at the latest.
  void look_by(MonoTime time);

  // --- events of a round trip

  void end_claim(const TripClaim& claim, const storage::Claimed& claimed, const PollPace& pace,
                 MonoTime sent_at, MonoTime now);
  /// The messages of the claim are counted as held from now on.
  void take_in(const TripClaim& claim) { claiming_ -= claim.plan.wanted; }
  void note_settled(std::size_t settled, bool ran_dry);
  /// `random` is from 0 to 1.
  void note_failure(const TripPlan& trip, double random, MonoTime now);

  // --- events of a delivery

  void add(Subscription& subscription);
  void begin(Subscription& subscription);
  /// It ends without having begun.
  void drop(Subscription& subscription);
  void end(Subscription& subscription, MonoDuration took);
  /// A handler returned whose own transaction settled its message: no round trip will say so.
  void note_alive();
  /// Messages waited for a handler for too long: hold fewer.
  void shrink(std::size_t running, MonoTime now);
  /// Nothing else is claimed until release().
  void isolate(MessageId suspect);
  void release(MessageId id);
  void release_suspect() { suspect_.reset(); }

  /// How many deliveries could begin if a thread were free.
  [[nodiscard]] std::size_t startable() const;
  /// Whether a free place in the window matters to the fetchers.
  [[nodiscard]] bool is_full(std::size_t held) const { return held >= window_; }
  [[nodiscard]] std::size_t batch() const { return batch_; }
  [[nodiscard]] std::size_t window() const { return window_; }

 private:
  [[nodiscard]] std::size_t window_left(const Load& load) const;
  void grow(const Load& load, MonoTime now);
  void plan_claims(TripPlan& trip, const Load& load, MonoTime now);

  const std::size_t batch_;
  const std::size_t max_bytes_;
  const std::size_t fetchers_;
  const std::size_t largest_window_;

  std::deque<Subscription> subscriptions_;  // they stay where they are
  std::size_t window_ = 1;
  MonoTime grow_at_{};
  std::size_t claiming_ = 0;  // messages that round trips under way may bring
  std::uint64_t trips_ = 0;
  std::optional<MessageId> suspect_;
  MonoTime retry_at_{};
  int failures_ = 0;
};

}  // namespace dovetail::runtime
