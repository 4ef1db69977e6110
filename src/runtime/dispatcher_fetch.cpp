// The dispatcher's fetchers: round trips that settle and claim.
#include <algorithm>
#include <limits>

#include "core/random.hpp"
#include "dovetail/error.hpp"
#include "runtime/dispatcher.hpp"
#include "runtime/settled_count.hpp"

namespace dovetail::runtime {
namespace {

using Kind = storage::Settlement::Kind;
using std::chrono::milliseconds;

/// The time limit for settling the results of handlers that ended after stop().
constexpr milliseconds late_patience{1'000};
/// The interval at which a closed dispatcher checks whether it may give up.
constexpr milliseconds closing_look{50};
constexpr milliseconds longest_settle_delay = std::chrono::hours{24 * 365};

/// True if the state of the database caused the error, not the data that was sent: a retry may
/// succeed.
bool is_environmental(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known == nullptr) return true;
  switch (known->kind()) {
    case ErrorKind::constraint:
    case ErrorKind::invalid:
    case ErrorKind::other:
      return false;
    default:
      return true;
  }
}

/// The limit of attempts that a claim applies. For streams the worker applies the limit itself,
/// because the handler has the policy for failed messages.
int attempts_of(const Subscription& subscription) {
  return subscription.claims_streams() ? std::numeric_limits<int>::max()
                                       : subscription.max_attempts();
}

std::vector<storage::Settlement> settlements_of(const std::vector<Finished>& finished) {
  std::vector<storage::Settlement> settlements;
  settlements.reserve(finished.size());
  for (const auto& each : finished) settlements.push_back(each.settlement);
  return settlements;
}

}  // namespace

void Dispatcher::fetch(core::LoopProgress& progress) {
  while (auto trip = next_trip(progress)) make(std::move(*trip));
  progress.rest(MonoTime::max());
}

/// Waits until there is a reason for a round trip. Returns nullopt if there will be no more.
std::optional<Dispatcher::Trip> Dispatcher::next_trip(core::LoopProgress& progress) {
  std::unique_lock lock(shared_.ledger.mutex);
  for (;;) {
    progress.begin();
    const auto now = clock().mono();
    const auto load = this->load();
    shared_.planner.grow(load, now);
    if (auto trip = trip_for(load, shared_.planner.needs(load, now), now)) {
      if (trip->plan.claims.empty()) wake_fetcher();  // another fetcher watches for claims
      trip->stop = fetchers_.io.get_token();
      return trip;
    }
    const bool failing = shared_.planner.is_failing(now);
    if (shared_.closed && (!failing || fetchers_.io.stop_requested())) return std::nullopt;
    auto wake = shared_.planner.next_wake(load, now);
    if (shared_.closed) wake = std::min<MonoTime>(wake, now + closing_look);
    progress.rest(wake);
    clock().wait_until(fetchers_.wakes, lock, wake);
  }
}

std::optional<Dispatcher::Trip> Dispatcher::trip_for(const Load& load, const TripNeeds& needs,
                                                     MonoTime now) {
  auto plan = shared_.planner.plan(load, needs, now);
  if (!plan) return std::nullopt;
  Trip trip{.plan = std::move(*plan),
            .finished = {},
            .lost_leases = std::exchange(shared_.ledger.lost_leases, {}),
            .uncharged = std::exchange(shared_.ledger.uncharged, {}),
            .careful = !shared_.ledger.aside().empty(),
            .stop = {}};
  trip.finished = shared_.ledger.take(shared_.stopping, now);
  if (!trip.finished.empty()) ++shared_.settling;
  return trip;
}

Dispatcher::Visit Dispatcher::visit(bool may_claim, const std::stop_token& stop) {
  Visit visit;
  std::optional<Trip> trip;
  {
    const std::lock_guard lock(shared_.ledger.mutex);
    const auto now = clock().mono();
    const auto load = this->load();
    shared_.planner.grow(load, now);
    auto needs = shared_.planner.needs(load, now);
    needs.is_due = needs.is_due && may_claim;
    visit.lacked_room = needs.is_due && !needs.has_room;
    trip = trip_for(load, needs, now);
  }
  if (!trip) return visit;
  trip->stop = stop;
  visit.claimed = make(std::move(*trip));
  return visit;
}

std::size_t Dispatcher::make(Trip trip) {
  const bool settles = !trip.finished.empty();
  const auto claimed = travel(std::move(trip));
  if (settles) {
    const std::lock_guard lock(shared_.ledger.mutex);
    --shared_.settling;
  }
  return claimed;
}

/// Makes one round trip. Settlements that it could not store are kept for the next one.
std::size_t Dispatcher::travel(Trip trip) {
  take_back_losses(trip);
  const auto sent_at = clock().mono();
  WorkResult result;
  try {
    result = round_trip(trip);
  } catch (const std::exception& error) {
    note_failure(trip, error);
    return 0;
  }
  scope_.metrics.time("dovetail_round_trip_seconds", clock().mono() - sent_at,
                      {{"store", scope_.database.name()}, {"queue", scope_.queue()}});
  if (result.settleable) {
    const std::lock_guard lock(shared_.ledger.mutex);
    shared_.ledger.put_aside(trip.finished, *result.settleable, clock().mono());
  }
  note_settled(trip, result.settled);
  std::size_t claimed = 0;
  for (std::size_t i = 0; i < trip.plan.claims.size(); ++i) {
    claimed += result.claimed[i].entries.size();
    take_in(trip.plan.claims[i], std::move(result.claimed[i]), sent_at);
  }
  report_load();
  return claimed;
}

WorkResult Dispatcher::round_trip(const Trip& trip) {
  return source_->settle_and_claim({.settlements = settlements_of(trip.finished),
                                    .claims = orders_of(trip.plan),
                                    .careful = trip.careful,
                                    .stop = trip.stop});
}

std::vector<storage::ClaimOrder> Dispatcher::orders_of(const TripPlan& plan) const {
  std::vector<storage::ClaimOrder> orders;
  for (const auto& [subscription, claim] : plan.claims) {
    orders.push_back({.owner = source_->owner(),
                      .batch_size = static_cast<int>(claim.wanted),
                      .lease = options_.lease,
                      .max_attempts = attempts_of(*subscription),
                      .after = claim.after ? &*claim.after : nullptr,
                      .asks_next_due = claim.asks_next_due,
                      .topics = subscription->topics(),
                      .max_bytes = plan.max_bytes,
                      .scan_limit = claim.scan_limit,
                      .scans = claim.scans && !subscription->claims_streams(),
                      .streams = subscription->claims_streams(),
                      .may_be_run = claim.may_be_run});
  }
  return orders;
}

void Dispatcher::note_settled(const Trip& trip, std::size_t settled) {
  const auto lost = trip.finished.size() - std::min(settled, trip.finished.size());
  count_settled(scope_, trip.finished, settled, clock().mono());
  scope_.count_metric("dovetail_lease_lost_total", lost);
  if (lost > 0) {
    scope_.log.write(LogLevel::warn, scope_.event("lease_lost"),
                     {{"store", scope_.database.name()}, {"count", lost}});
  }
  const std::lock_guard lock(shared_.ledger.mutex);
  shared_.health.failures = 0;
  auto& planner = shared_.planner;
  const auto now = clock().mono();
  planner.note_settled(settled, trip.plan.nothing_startable);
  const bool claimed_streams = std::ranges::any_of(trip.plan.claims, [](const TripClaim& claim) {
    return claim.subscription->claims_streams();
  });
  for (const auto& each : trip.finished) {
    shared_.ledger.note_settled(each);
    const auto& [kind, claim, error, delay, max_attempts, charge, policy] = each.settlement;
    // The result does not name the lost messages, so each one that a handler has begun is reset.
    // The other messages prove nothing about their handlers. Only the last loss is taken back.
    const bool begun = kind != Kind::snooze || delay;
    if (lost > 0 && begun) shared_.ledger.lost_leases.push_back(claim.id);
    const bool is_lost = lost > 0 && (settled == 0 || each.lease_end <= now);
    if (is_lost && !begun && each.stream.empty()) shared_.ledger.uncharged.push_back(claim.id);
    // The next message of the stream may be ready.
    if (!each.stream.empty() && !claimed_streams) planner.note_due_at(*each.subscription, now);
    if (kind == Kind::ack || kind == Kind::fail) continue;
    if (!begun) planner.note_returned(*each.subscription, each.priority, each.place);
    const auto in = std::min<std::chrono::microseconds>(
        delay.value_or(std::chrono::microseconds{0}), longest_settle_delay);
    planner.note_due_at(*each.subscription, now + in + milliseconds{1});
  }
  shared_.stream_settled.notify_all();
}

void Dispatcher::note_failure(Trip& trip, const std::exception& error) {
  scope_.log_error("round_trip_failed", "dovetail_round_trip_failed_total", error);
  if (!is_environmental(error)) settle_one_by_one(std::exchange(trip.finished, {}), trip.stop);
  const std::lock_guard lock(shared_.ledger.mutex);
  const auto now = clock().mono();
  ++shared_.health.failures;
  shared_.health.last_error = error.what();
  shared_.planner.note_failure(trip.plan, core::random_unit(), now);
  shared_.ledger.put_back(std::move(trip.finished), now);
}

/// The database refuses one of the settlements because of its data. The others must still be
/// stored.
void Dispatcher::settle_one_by_one(std::vector<Finished> finished, const std::stop_token& stop) {
  for (auto& each : finished) {
    const auto id = each.settlement.claim.id;
    Trip single;
    single.careful = true;
    single.stop = stop;
    single.finished.push_back(std::move(each));
    try {
      const auto result = round_trip(single);
      {
        const std::lock_guard lock(shared_.ledger.mutex);
        shared_.ledger.put_aside(single.finished, *result.settleable, clock().mono());
      }
      note_settled(single, result.settled);
    } catch (const std::exception& error) {
      if (is_environmental(error)) {
        const std::lock_guard lock(shared_.ledger.mutex);
        shared_.ledger.put_back(std::move(single.finished), clock().mono());
        continue;
      }
      {
        const std::lock_guard lock(shared_.ledger.mutex);
        for (const auto& refused : single.finished) shared_.ledger.note_settled(refused);
        shared_.stream_settled.notify_all();
      }
      scope_.log.write(
          LogLevel::error, scope_.event("settlement_refused"),
          {{"store", scope_.database.name()}, {"id", id.to_string()}, {"error", error.what()}});
    }
  }
}

/// This process is alive, so its messages did not lose their leases in a crash.
void Dispatcher::take_back_losses(const Trip& trip) {
  try {
    if (!trip.lost_leases.empty()) source_->reset_lost_leases(trip.lost_leases, trip.stop);
    if (!trip.uncharged.empty()) source_->uncharge(trip.uncharged, trip.stop);
  } catch (const std::exception& error) {
    scope_.log_error("reset_lost_leases_failed", "dovetail_reset_lost_leases_failed_total", error);
  }
}

void Dispatcher::finish() {
  Trip trip;
  trip.careful = true;
  {
    const std::lock_guard lock(shared_.ledger.mutex);
    trip.finished = shared_.ledger.take(true, clock().mono());
  }
  if (trip.finished.empty() || fetchers_.cut_off) return;
  std::stop_source limit;
  const std::jthread timer([&](const std::stop_token& done) {
    if (clock().sleep_for(late_patience, done)) limit.request_stop();
  });
  try {
    source_->settle_and_claim(
        {.settlements = settlements_of(trip.finished), .careful = true, .stop = limit.get_token()});
  } catch (const std::exception& error) {
    scope_.log_error("round_trip_failed", "dovetail_round_trip_failed_total", error);
  }
}

}  // namespace dovetail::runtime
