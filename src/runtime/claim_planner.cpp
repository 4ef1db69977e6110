#include "runtime/claim_planner.hpp"

#include <algorithm>

#include "dovetail/backoff.hpp"

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;

/// The longest time that a finished message waits to be settled with others in one round trip,
/// while there is more to handle.
constexpr milliseconds settle_delay{5};
/// A full window doubles at this interval while handlers are slow.
constexpr milliseconds growth_interval{250};
/// The window holds this many batches at most.
constexpr std::size_t batches_held = 4;
constexpr std::chrono::hours longest_pause{1};

}  // namespace

ClaimPlanner::ClaimPlanner(const HandlerRegistry& handlers, const WorkerOptions& options,
                           int threads)
    : batch_(static_cast<std::size_t>(options.batch_size)),
      max_bytes_(options.max_bytes),
      fetchers_(static_cast<std::size_t>(options.fetchers)),
      largest_window_(std::max(batches_held * batch_, 2 * static_cast<std::size_t>(threads))),
      subscriptions_(subscriptions_of(handlers, options.unknown_topics)) {}

// --- decisions

std::size_t ClaimPlanner::startable() const {
  std::size_t ready = 0;
  for (const auto& subscription : subscriptions_) ready += subscription.startable();
  return ready;
}

std::size_t ClaimPlanner::window_left(const Load& load) const {
  const bool full = load.stopping || !load.has_threads || suspect_ || load.bytes >= max_bytes_;
  const auto held = load.held + claiming_;
  return full ? 0 : window_ - std::min(window_, held);
}

TripNeeds ClaimPlanner::needs(const Load& load, MonoTime now) const {
  if (is_failing(now)) return {};
  TripNeeds needs;
  needs.settles =
      load.resets_lost_leases || load.retry_aside <= now ||
      (load.finished > 0 && (startable() == 0 || load.finished >= batch_ || load.stopping ||
                             now >= load.first_finished + settle_delay));
  for (const auto& each : subscriptions_) {
    if (load.stopping || !each.is_due(now)) continue;
    needs.is_due = true;
    needs.has_room = needs.has_room || each.room(batch_) > 0;
  }
  needs.has_room = needs.has_room && window_left(load) > 0;
  return needs;
}

std::optional<TripPlan> ClaimPlanner::plan(const Load& load, const TripNeeds& needs, MonoTime now) {
  if (!needs.settles && !needs.claims()) return std::nullopt;
  TripPlan trip;
  trip.number = ++trips_;
  trip.nothing_startable = startable() == 0;
  if (needs.claims()) plan_claims(trip, load, now);
  return trip;
}

void ClaimPlanner::plan_claims(TripPlan& trip, const Load& load, MonoTime now) {
  for (auto& subscription : subscriptions_) {
    const auto wanted = std::min(window_left(load), subscription.room(batch_));
    if (wanted == 0 || !subscription.is_due(now)) continue;
    trip.claims.push_back({&subscription, subscription.begin_claim(wanted, trip.number, now)});
    claiming_ += wanted;
  }
  // Other fetchers may claim at the same time.
  const auto shares = fetchers_ * std::max<std::size_t>(1, trip.claims.size());
  const auto left = max_bytes_ - std::min(max_bytes_, load.bytes);
  trip.max_bytes = static_cast<std::int64_t>(std::max<std::size_t>(1, left / shares));
}

MonoTime ClaimPlanner::next_wake(const Load& load, MonoTime now) const {
  MonoTime wake = now + longest_pause;
  const bool failing = is_failing(now);
  const auto left = window_left(load);
  bool hungry = false;
  for (const auto& subscription : subscriptions_) {
    if (load.stopping || !load.has_threads || subscription.is_dormant()) continue;
    if (subscription.room(batch_) == 0) continue;
    hungry = true;
    if (!failing && left > 0) wake = std::min(wake, subscription.next_poll());
  }
  if (failing) {
    wake = std::min(wake, retry_at_);
  } else {
    if (load.finished > 0) wake = std::min<MonoTime>(wake, load.first_finished + settle_delay);
    wake = std::min(wake, load.retry_aside);
  }
  if (hungry && left == 0 && window_ < largest_window_) wake = std::min(wake, grow_at_);
  return wake;
}

// --- events

void ClaimPlanner::ring() {
  for (auto& subscription : subscriptions_) subscription.ring();
}

void ClaimPlanner::poll_by(MonoTime time) {
  for (auto& subscription : subscriptions_) subscription.poll_by(time);
}

void ClaimPlanner::note_due_at(Subscription& subscription, MonoTime time) {
  subscription.note_due_at(time);
}

void ClaimPlanner::note_returned(Subscription& subscription, int priority,
                                 const storage::QueueMark& place) {
  subscription.note_returned(priority, place);
}

void ClaimPlanner::grow(const Load& load, MonoTime now) {
  if (load.held < window_ || load.running == 0 || suspect_) {
    grow_at_ = now + growth_interval;
  } else if (now >= grow_at_) {
    window_ = std::min(largest_window_, window_ * 2);
    grow_at_ = now + growth_interval;
  }
}

void ClaimPlanner::end_claim(const TripClaim& claim, const storage::Claimed& claimed,
                             const PollPace& pace, MonoTime sent_at, MonoTime now) {
  claim.subscription->end_claim(claim.plan, claimed, pace, sent_at, now);
  if (!claimed.has_streams) return;
  for (auto& subscription : subscriptions_) subscription.wake();
}

void ClaimPlanner::note_settled(std::size_t settled, bool nothing_startable) {
  failures_ = 0;
  if (settled > 0 && nothing_startable) window_ = std::min(largest_window_, window_ * 2);
}

void ClaimPlanner::note_failure(const TripPlan& trip, double random, MonoTime now) {
  const ExponentialBackoff backoff{
      .initial = milliseconds{50}, .cap = milliseconds{5'000}, .jitter = 0.5};
  retry_at_ = now + backoff.delay(failures_++, random);
  for (const auto& claim : trip.claims) {
    claiming_ -= claim.plan.wanted;
    claim.subscription->cancel_claim(claim.plan);
  }
}

void ClaimPlanner::add(Subscription& subscription) {
  ++subscription.held;
  ++subscription.waiting;
}

bool ClaimPlanner::begin(Subscription& subscription) {
  --subscription.waiting;
  ++subscription.running;
  return subscription.waiting == batch_ || startable() == 0 || subscription.limited() != nullptr;
}

void ClaimPlanner::drop(Subscription& subscription) {
  --subscription.waiting;
  --subscription.held;
}

void ClaimPlanner::end(Subscription& subscription, MonoDuration took) {
  --subscription.running;
  --subscription.held;
  subscription.note_handled(took);
}

void ClaimPlanner::note_alive() {
  if (startable() == 0) window_ = std::min(largest_window_, window_ * 2);
}

void ClaimPlanner::shrink(std::size_t running, MonoTime now) {
  window_ = std::max<std::size_t>(1, running * 2);
  grow_at_ = now + growth_interval;
}

void ClaimPlanner::isolate(MessageId suspect) {
  suspect_ = suspect;
  window_ = 1;
}

void ClaimPlanner::release(MessageId id) {
  if (suspect_ == id) suspect_.reset();
}

}  // namespace dovetail::runtime
