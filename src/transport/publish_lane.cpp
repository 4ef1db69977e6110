// The lanes of a route: round trips that settle and claim, and probes of the broker.
#include <algorithm>
#include <limits>

#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "runtime/settled_count.hpp"
#include "transport/publish_service.hpp"

namespace dovetail::transport {
namespace {

using Verdict = storage::Settlement::Kind;
using std::chrono::milliseconds;

/// The time limit of a probe.
constexpr milliseconds longest_probe_call{10'000};
/// How often a Publisher is asked whether the broker still asks to wait.
constexpr milliseconds blocked_look{100};
/// The delay before a settlement that waits for a lock is tried again.
constexpr milliseconds aside_delay{200};
constexpr std::chrono::hours longest_pause{1};

}  // namespace

void PublishService::run(Lane& lane) {
  while (auto trip = next_trip(lane)) {
    if (travel(lane, *trip)) publish_batch(lane);
  }
  lane.progress.rest(MonoTime::max());
  const std::lock_guard lock(mutex_);
  lane.ended = true;
  wakes_.notify_all();
}

// --- when to make a round trip

std::optional<PublishService::Trip> PublishService::next_trip(Lane& lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    lane.progress.begin();
    auto now = clock().mono();
    if (!stopping_ && breaker_.begin_probe(now)) {
      probe(lane, lock);
      continue;
    }
    ask_blocked(lock);
    now = clock().mono();
    Trip trip{.claim = plan(lane, now)};
    const bool settles = !lane.finished.empty() && now >= retry_at_ && now >= lane.settle_at;
    if (trip.claim || settles) return trip;
    if (closed_ || (stopping_ && lane.finished.empty())) return std::nullopt;
    const auto wake = next_wake(lane, now);
    lane.progress.rest(wake);
    clock().wait_until(wakes_, lock, wake);
  }
}

std::optional<LaneClaim> PublishService::plan(Lane& lane, MonoTime now) {
  if (stopping_ || breaker_.is_open() || blocked_ || now < retry_at_) return std::nullopt;
  for (const bool streams : lane.kinds) {
    auto claim = planner_.plan(streams, now);
    if (!claim) continue;
    std::reverse(lane.kinds.begin(), lane.kinds.end());  // the other kind has its turn next
    return claim;
  }
  return std::nullopt;
}

MonoTime PublishService::next_wake(const Lane& lane, MonoTime now) const {
  MonoTime wake = now + longest_pause;
  if (!lane.finished.empty()) wake = std::max(retry_at_, lane.settle_at);
  if (stopping_) return wake;
  if (breaker_.is_open()) return std::min(wake, breaker_.next_probe());
  if (now < retry_at_) return std::min(wake, retry_at_);
  if (blocked_) return std::min<MonoTime>(wake, now + blocked_look);
  for (const bool streams : lane.kinds) wake = std::min(wake, planner_.next_poll(streams));
  return wake;
}

// --- the broker

void PublishService::probe(Lane& lane, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::optional<std::string> problem;
  try {
    const core::LoopProgress::Aside aside(lane.progress);
    const auto limit = std::min<milliseconds>(route_.options.timeout, longest_probe_call);
    route_.publisher->probe({.deadline = std::chrono::steady_clock::now() + limit,
                             .stop = probes_.get_token(),
                             .source = source_name_});
  } catch (const std::exception& error) {
    problem = error.what();
  } catch (...) {
    problem = "the probe failed";
  }
  lock.lock();
  note_probe(problem, clock().mono());
}

void PublishService::note_probe(const std::optional<std::string>& problem, MonoTime now) {
  breaker_.end_probe(problem, core::random_unit(), now);
  if (problem) return;
  scope_.metrics.gauge("dovetail_transport_breaker_open", 0,
                       {{"store", store()}, {"route", route_.pattern}});
  scope_.log.write(
      LogLevel::info, "transport.available",
      {{"store", store()}, {"route", route_.pattern}, {"address", route_.publisher->address()}});
  planner_.ring();
  wakes_.notify_all();
}

void PublishService::ask_blocked(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  auto blocked = route_.publisher->blocked();
  lock.lock();
  if (blocked && !blocked_) blocked_since_ = clock().mono();
  blocked_ = std::move(blocked);
}

// --- round trips

bool PublishService::travel(Lane& lane, Trip& trip) {
  take_back_losses(lane);
  trip.sent_at = clock().mono();
  std::vector<storage::Settlement> settlements;
  settlements.reserve(lane.finished.size());
  for (const auto& each : lane.finished) settlements.push_back(each.settlement);
  std::vector<storage::ClaimOrder> orders;
  if (trip.claim) orders.push_back(order_of(*trip.claim));
  runtime::WorkResult result;
  try {
    result = source_.settle_and_claim({.settlements = settlements,
                                       .claims = orders,
                                       .careful = lane.careful,
                                       .stop = io_.get_token()});
  } catch (const std::exception& error) {
    note_failure(trip, error);
    return false;
  }
  note_settled(lane, trip, result);
  if (!trip.claim) return false;
  take_in(lane, trip, std::move(result.claimed.front()));
  return !lane.works.empty();
}

storage::ClaimOrder PublishService::order_of(const LaneClaim& claim) const {
  const bool streams = claim.subscription->claims_streams();
  return {.owner = source_.owner(),
          .batch_size = static_cast<int>(claim.plan.wanted),
          .lease = worker_.lease,
          .max_attempts = streams ? std::numeric_limits<int>::max() : route_.max_attempts,
          .after = claim.plan.after ? &*claim.plan.after : nullptr,
          .asks_next_due = claim.plan.asks_next_due,
          .topics = claim.subscription->topics(),
          .max_bytes = static_cast<std::int64_t>(worker_.max_bytes / lanes_.size()),
          .scan_limit = claim.plan.scan_limit,
          .scans = claim.plan.scans && !streams,
          .streams = streams,
          .may_be_run = claim.plan.may_be_run};
}

/// This process is alive, so its messages did not lose their leases in a crash.
void PublishService::take_back_losses(Lane& lane) {
  try {
    const auto lost = std::exchange(lane.lost_leases, {});
    const auto uncharged = std::exchange(lane.uncharged, {});
    if (!lost.empty()) source_.reset_lost_leases(lost, io_.get_token());
    if (!uncharged.empty()) source_.uncharge(uncharged, io_.get_token());
  } catch (const std::exception& error) {
    scope_.log_error("reset_lost_leases_failed", "dovetail_reset_lost_leases_failed_total", error);
  }
}

void PublishService::note_failure(const Trip& trip, const std::exception& error) {
  scope_.log_error("round_trip_failed", "dovetail_round_trip_failed_total", error);
  const ExponentialBackoff backoff{
      .initial = milliseconds{50}, .cap = milliseconds{5'000}, .jitter = 0.5};
  const std::lock_guard lock(mutex_);
  const auto now = clock().mono();
  if (health_.failures == 0) failing_since_ = now;
  retry_at_ = now + backoff.delay(health_.failures++, core::random_unit());
  health_.last_error = error.what();
  if (trip.claim) planner_.cancel_claim(*trip.claim);
}

void PublishService::note_settled(Lane& lane, const Trip& trip, const runtime::WorkResult& result) {
  const auto now = clock().mono();
  auto& finished = lane.finished;
  std::vector<runtime::Finished> aside;  // another transaction holds a lock of their messages
  if (result.settleable) {
    const auto blocked =
        std::partition(finished.begin(), finished.end(), [&](const runtime::Finished& each) {
          return each.lease_end <= now ||
                 std::ranges::binary_search(*result.settleable, each.settlement.claim.id);
        });
    std::move(blocked, finished.end(), std::back_inserter(aside));
    finished.erase(blocked, finished.end());
  }
  const auto lost = finished.size() - std::min(result.settled, finished.size());
  runtime::count_settled(scope_, finished, result.settled, now);
  scope_.count_metric("dovetail_lease_lost_total", lost);
  if (lost > 0) {
    scope_.log.write(LogLevel::warn, scope_.event("lease_lost"),
                     {{"store", store()}, {"count", lost}});
    for (const auto& each : finished) {
      const bool released = each.settlement.kind == Verdict::snooze;
      (released && each.stream.empty() ? lane.uncharged : lane.lost_leases)
          .push_back(each.settlement.claim.id);
    }
  }
  const std::lock_guard lock(mutex_);
  health_.failures = 0;
  const bool claimed_streams = trip.claim && trip.claim->subscription->claims_streams();
  for (const auto& each : finished) note_return(each, claimed_streams, now);
  finished = std::move(aside);
  lane.careful = !finished.empty();
  lane.settle_at = lane.careful ? now + aside_delay : MonoTime{};
}

/// Notes when the message, or the next message of its stream, is due.
void PublishService::note_return(const runtime::Finished& finished, bool claimed_streams,
                                 MonoTime now) {
  const bool streams = !finished.stream.empty();
  if (streams && !claimed_streams) planner_.note_due_at(true, now);
  const auto& settlement = finished.settlement;
  if (settlement.kind == Verdict::ack || settlement.kind == Verdict::fail) return;
  if (!settlement.delay) planner_.note_returned(streams, finished.priority, finished.place);
  const auto in = std::min<std::chrono::microseconds>(
      settlement.delay.value_or(std::chrono::microseconds{0}), longest_delay);
  planner_.note_due_at(streams, now + in + milliseconds{1});
  wakes_.notify_all();
}

// --- claimed messages

void PublishService::take_in(Lane& lane, const Trip& trip, storage::Claimed claimed) {
  scope_.count_metric("dovetail_claimed_total", claimed.entries.size());
  const std::lock_guard lock(mutex_);
  const runtime::PollPace pace{worker_.poll_interval, listener_.hears_others()
                                                          ? worker_.idle_poll_interval
                                                          : worker_.poll_interval};
  planner_.end_claim(*trip.claim, claimed, pace, trip.sent_at, clock().mono());
  for (auto& entry : claimed.entries) {
    lane.works.push_back(work_of(std::move(entry), trip.sent_at));
  }
  if (claimed.has_streams || claimed.entries.size() >= trip.claim->plan.wanted) {
    wakes_.notify_all();  // there is work for other lanes
  }
  if (lane.works.empty()) return;
  const auto lease = MonoDuration{worker_.lease};
  const auto keep_at =
      trip.sent_at + (claimed.is_run ? std::min<MonoDuration>(lease / 3, longest_run) : lease / 3);
  if (keep_at >= keep_at_) return;
  keep_at_ = keep_at;
  keeper_wakes_.notify_one();
}

PublishService::Work PublishService::work_of(storage::ClaimedEntry&& entry,
                                             MonoTime sent_at) const {
  Work work{.message = std::move(entry.claimed.message),
            .claim = entry.claimed.claim,
            .place = {.ready_at = entry.ready_at, .id = entry.claimed.claim.id.uuid(), .row = 0},
            .lease_end = sent_at + worker_.lease,
            .expires = std::nullopt,
            .lost_leases = entry.lost_leases};
  if (work.message.expires_at) {
    const auto left = *work.message.expires_at - (entry.claimed.lease_until - worker_.lease);
    work.expires = sent_at + std::min<std::chrono::microseconds>(left, longest_delay);
  }
  return work;
}

}  // namespace dovetail::transport
