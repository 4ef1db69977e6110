// The dispatcher's fetchers: claim and settle.
#include "runtime/dispatcher.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "dovetail/error.hpp"

namespace dovetail::runtime {
namespace {

using Kind = storage::Settlement::Kind;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

/// How long a finished message may wait for others, to be settled with them in one round trip,
/// while workers have more to do.
constexpr milliseconds settle_delay{5};
/// We hold so many batches at most.
constexpr std::size_t batches_held = 4;
/// How long a settlement waits for a lock of somebody else. Then it is put aside, and tried again
/// after the second.
constexpr milliseconds lock_patience{100};
constexpr milliseconds aside_delay{200};
/// How long a message that we claimed from ourselves is left to the handler that has lost it.
constexpr milliseconds successor_delay{500};
/// So often must its lease have run out before a message is tried alone. Once may be anybody's bad
/// luck.
constexpr int suspicious_losses = 2;
/// An engine with one writer looks at so many messages in a transaction.
constexpr int looked_at_once = 50'000;

/// Waiting for another try makes sense: it is the database's state, not what we sent.
bool may_pass(const std::exception& error) {
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

}  // namespace

/// What handlers finished when the fetcher had gone already; if their leases still hold.
void Dispatcher::settle_the_late(MonoTime give_up_at) {
  Trip trip;
  {
    std::lock_guard lock(mutex_);
    trip.finished = std::exchange(finished_, {});
    std::ranges::move(std::exchange(aside_, {}), std::back_inserter(trip.finished));
  }
  if (trip.finished.empty()) return;
  std::stop_source limit;
  const std::jthread timer([&](const std::stop_token& done) {
    if (system_clock()->sleep_until(give_up_at, done)) limit.request_stop();
  });
  try {
    make_careful_trip(trip, limit.get_token());
  } catch (const std::exception& error) {
    log_error("round_trip_failed", error);
  }
}

void Dispatcher::fetch() {
  for (Trip trip; next_trip(trip); trip = {}) travel(trip);
}

std::size_t Dispatcher::startable() const {
  if (!handlers_.has_limits()) return waiting_.size();
  std::size_t ready = 0;
  for (const auto& subscription : subscriptions_) {
    if (subscription.limited() == nullptr) {
      ready += subscription.waiting;
      continue;
    }
    const auto limit = static_cast<std::size_t>(subscription.limited()->options.concurrency);
    const auto busy = running_.find(subscription.limited());
    const auto running = busy == running_.end() ? 0 : static_cast<std::size_t>(busy->second);
    ready += std::min(subscription.waiting, limit - std::min(limit, running));
  }
  return ready;
}

std::size_t Dispatcher::largest_window() const {
  return std::max(batches_held * batch(), 2 * static_cast<std::size_t>(options_.threads));
}

std::size_t Dispatcher::window_left() const {
  const bool full =
      stopping_ || live_workers_ == 0 || suspect_ || held_bytes_ >= options_.max_bytes;
  const auto held = jobs_.size() + claiming_;
  return full ? 0 : window_ - std::min(window_, held);
}

/// Handlers that take their time, and survive, are no reason to hold back.
void Dispatcher::grow_window(MonoTime now) {
  if (jobs_.size() < window_ || running_total_ == 0 || suspect_) {
    grow_at_ = now + growth_interval;
  } else if (now >= grow_at_) {
    window_ = std::min(largest_window(), window_ * 2);
    grow_at_ = now + growth_interval;
  }
}

bool Dispatcher::claims_now(const Subscription& subscription, MonoTime now) const {
  return subscription.room(batch()) > 0 && subscription.is_due(now);
}

void Dispatcher::plan_claims(Trip& trip, MonoTime now) {
  for (auto& subscription : subscriptions_) {
    const auto wanted = std::min(window_left(), subscription.room(batch()));
    if (wanted == 0 || !subscription.is_due(now)) continue;
    trip.claims.push_back({&subscription, subscription.begin_claim(wanted, trip.number, now)});
    claiming_ += wanted;
  }
  // Others may claim at the same time.
  const auto shares =
      static_cast<std::size_t>(options_.fetchers) * std::max<std::size_t>(1, trip.claims.size());
  const auto left = options_.max_bytes - std::min(options_.max_bytes, held_bytes_);
  trip.max_bytes = static_cast<std::int64_t>(std::max<std::size_t>(1, left / shares));
}

/// Also those that were put aside, when it is time to try them again.
void Dispatcher::take_settlements(Trip& trip, std::size_t ready, MonoTime now) {
  trip.finished = std::exchange(finished_, {});
  first_finished_.reset();
  trip.ran_dry = ready == 0;
  trip.careful = !aside_.empty();
  trip.absolved = std::exchange(absolved_, {});
  const auto due = std::partition(aside_.begin(), aside_.end(), [&](const Finished& each) {
    return each.retry_at > now && !stopping_;
  });
  std::move(due, aside_.end(), std::back_inserter(trip.finished));
  aside_.erase(due, aside_.end());
}

/// Waits until there is a reason for a round trip; answers false when there will be none any more.
bool Dispatcher::next_trip(Trip& trip) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto now = Steady::now();
    const auto ready = startable();
    grow_window(now);
    const bool failing = now < retry_at_;
    const bool claims =
        window_left() > 0 && std::ranges::any_of(subscriptions_, [&](const auto& each) {
          return claims_now(each, now);
        });
    const bool settles =
        !finished_.empty() && (ready == 0 || finished_.size() >= batch() || stopping_ ||
                               now >= *first_finished_ + settle_delay);
    const bool retries =
        std::ranges::any_of(aside_, [&](const Finished& each) { return each.retry_at <= now; });
    if (!failing && (claims || settles || retries || !absolved_.empty())) {
      trip.number = ++trips_;
      take_settlements(trip, ready, now);
      if (claims) plan_claims(trip, now);
      if (!claims) fetcher_wakes_.notify_one();  // another keeps watch meanwhile
      return true;
    }
    if (closed_ && (!failing || hurry_.stop_requested())) return false;
    fetcher_wakes_.wait_until(lock, next_wake(failing, now));
  }
}

MonoTime Dispatcher::next_wake(bool failing, MonoTime now) const {
  auto wake =
      now + (closed_ ? MonoDuration{milliseconds{50}} : MonoDuration{std::chrono::hours{1}});
  bool hungry = false;
  for (const auto& subscription : subscriptions_) {
    if (stopping_ || live_workers_ == 0 || subscription.room(batch()) == 0) continue;
    hungry = true;
    if (!failing && window_left() > 0) wake = std::min(wake, subscription.next_look());
  }
  if (failing) {
    wake = std::min(wake, retry_at_);
  } else if (!finished_.empty()) {
    wake = std::min<MonoTime>(wake, *first_finished_ + settle_delay);
  }
  for (const auto& each : aside_) {
    if (!failing) wake = std::min(wake, each.retry_at);
  }
  if (hungry && window_left() == 0 && window_ < largest_window()) wake = std::min(wake, grow_at_);
  return wake;
}

std::vector<storage::ClaimOrder> Dispatcher::orders_of(const Trip& trip) const {
  std::vector<storage::ClaimOrder> orders;
  for (const auto& [subscription, plan] : trip.claims) {
    orders.push_back({.owner = owner_,
                      .batch_size = static_cast<int>(plan.wanted),
                      .lease = options_.lease,
                      .max_attempts = subscription->max_attempts(),
                      .after = plan.after ? &*plan.after : nullptr,
                      .asks_next_due = plan.asks_next_due,
                      .topics = subscription->topics(),
                      .max_bytes = trip.max_bytes,
                      .look_at = looked_at_once});
  }
  return orders;
}

storage::WorkAnswer Dispatcher::make_trip(const Trip& trip) {
  const auto orders = orders_of(trip);
  Settlements settlements;
  settlements.reserve(trip.finished.size());
  for (const auto& each : trip.finished) settlements.push_back(each.settlement);
  storage::WorkAnswer answer;
  database_.write({.single_statement = true,
                   .service = true,
                   .gives_up_locks = true,
                   .stop = hurry_.get_token()},
                  [&](storage::WriteSession& session) {
                    answer = store_.work(session, {.owner = owner_,
                                                   .settlements = settlements,
                                                   .keep_done = scope_.keep_done,
                                                   .lock_patience = lock_patience,
                                                   .claims = orders});
                  });
  return answer;
}

/// Settles only those that need no lock of somebody else, and puts the others aside.
storage::WorkAnswer Dispatcher::make_careful_trip(Trip& trip, const std::stop_token& stop) {
  const auto orders = orders_of(trip);
  std::vector<Claim> claims;
  for (const auto& each : trip.finished) claims.push_back(each.settlement.claim);
  std::ranges::sort(claims, {}, &Claim::id);
  storage::WorkAnswer answer;
  std::vector<Claim> settleable;
  database_.write({.service = true, .stop = stop}, [&](storage::WriteSession& session) {
    settleable = claims.empty() ? claims : store_.settleable(session, owner_, claims);
    Settlements settlements;
    for (const auto& each : trip.finished) {
      if (std::ranges::binary_search(settleable, each.settlement.claim.id, {}, &Claim::id)) {
        settlements.push_back(each.settlement);
      }
    }
    answer = store_.work(session, {.owner = owner_,
                                   .settlements = settlements,
                                   .keep_done = scope_.keep_done,
                                   .claims = orders});
  });
  put_aside(trip, settleable);
  return answer;
}

/// Those of the trip that are not settleable now, for as long as their leases last.
void Dispatcher::put_aside(Trip& trip, const std::vector<Claim>& settleable) {
  const auto now = Steady::now();
  std::lock_guard lock(mutex_);
  const auto settled = [&](const Finished& each) {
    return each.lease_end <= now ||
           std::ranges::binary_search(settleable, each.settlement.claim.id, {}, &Claim::id);
  };
  const auto blocked = std::partition(trip.finished.begin(), trip.finished.end(), settled);
  for (auto each = blocked; each != trip.finished.end(); ++each) {
    each->retry_at = now + aside_delay;
    aside_.push_back(std::move(*each));
  }
  trip.finished.erase(blocked, trip.finished.end());
}

/// One round trip. What it could not settle is kept for the next.
void Dispatcher::travel(Trip& trip) {
  absolve(trip.absolved);
  const auto sent_at = Steady::now();
  storage::WorkAnswer answer;
  try {
    try {
      answer = trip.careful ? make_careful_trip(trip, hurry_.get_token()) : make_trip(trip);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::lock_timeout) throw;
      metrics_.count(event("settlement_blocked"), 1, {{"store", database_.name()}});
      answer = make_careful_trip(trip, hurry_.get_token());
    }
  } catch (const std::exception& error) {
    log_error("round_trip_failed", error);
    if (!may_pass(error)) settle_one_by_one(std::exchange(trip.finished, {}));
    put_back(trip);
    return;
  }
  metrics_.time(event("round_trip"), Steady::now() - sent_at, {{"store", database_.name()}});
  note_settled(trip, answer.settled);
  for (std::size_t i = 0; i < trip.claims.size(); ++i) {
    auto& [subscription, plan] = trip.claims[i];
    auto& claimed = answer.claimed[i];
    const auto count = claimed.entries.size();
    metrics_.count(event("claimed"), count, {{"store", database_.name()}});
    if (log_.enabled(LogLevel::debug)) {
      log_.write(LogLevel::debug, event("claimed"),
                 {{"store", database_.name()}, {"owner", owner_.to_string()}, {"count", count}});
    }
    {
      std::lock_guard lock(mutex_);
      const PollPace pace{options_.poll_interval, listener_.hears_others()
                                                      ? options_.idle_poll_interval
                                                      : options_.poll_interval};
      subscription->end_claim(plan, claimed, pace, sent_at, Steady::now());
    }
    take_in(*subscription, std::move(claimed.entries), plan.wanted, sent_at);
  }
  report_load();
}

void Dispatcher::report_load() {
  std::size_t held = 0;
  std::size_t running = 0;
  std::size_t window = 0;
  {
    std::lock_guard lock(mutex_);
    held = jobs_.size();
    running = running_total_;
    window = window_;
  }
  metrics_.gauge(event("held"), static_cast<double>(held), {{"store", database_.name()}});
  metrics_.gauge(event("running"), static_cast<double>(running), {{"store", database_.name()}});
  metrics_.gauge(event("window"), static_cast<double>(window), {{"store", database_.name()}});
}

/// One of them is refused for what it is: it must not keep the others from being settled.
void Dispatcher::settle_one_by_one(std::vector<Finished> finished) {
  for (auto& each : finished) {
    Trip single;
    const auto id = each.settlement.claim.id;
    single.finished.push_back(std::move(each));
    try {
      const auto settled = make_careful_trip(single, hurry_.get_token()).settled;
      note_settled(single, settled);
    } catch (const std::exception& error) {
      if (may_pass(error)) {
        put_back(single);
      } else {
        log_.write(LogLevel::error, event("settlement_refused"),
                   {{"store", database_.name()}, {"id", id.to_string()}, {"error", error.what()}});
      }
    }
  }
}

void Dispatcher::note_settled(Trip& trip, std::size_t settled) {
  const auto lost = trip.finished.size() - std::min(settled, trip.finished.size());
  metrics_.count(event("settled"), settled, {{"store", database_.name()}});
  metrics_.count(event("lease_lost"), lost, {{"store", database_.name()}});
  if (lost > 0) {
    log_.write(LogLevel::warn, event("lease_lost"), {{"store", database_.name()}, {"count", lost}});
  }
  std::lock_guard lock(mutex_);
  for (const auto& each : trip.finished) {
    // Which of them were lost, nobody says. Those that no handler has begun prove nothing.
    const bool begun = each.settlement.kind != Kind::snooze || each.settlement.delay;
    if (lost > 0 && begun) absolved_.push_back(each.settlement.claim.id);
  }
  failures_ = 0;
  if (settled > 0 && trip.ran_dry) window_ = std::min(largest_window(), window_ * 2);
  for (const auto& each : trip.finished) {
    const auto kind = each.settlement.kind;
    const auto delay = each.settlement.delay;
    if (kind == Kind::ack || kind == Kind::fail) continue;
    if (kind == Kind::snooze && !delay) each.subscription->came_back(each.priority, each.place);
    const auto in = std::min<std::chrono::microseconds>(
        delay.value_or(std::chrono::microseconds{0}), longest_wait);
    each.subscription->comes_due(Steady::now() + in + milliseconds{1});
  }
}

/// We are alive: these messages have not killed the process that lost their leases.
void Dispatcher::absolve(const std::vector<MessageId>& ids) {
  if (ids.empty()) return;
  try {
    database_.write(
        {.single_statement = true, .repeatable = true, .service = true, .stop = hurry_.get_token()},
        [&](storage::WriteSession& session) { store_.absolve(session, ids); });
  } catch (const std::exception& error) {
    log_error("absolve_failed", error);
  }
}

void Dispatcher::put_back(Trip& trip) {
  const ExponentialBackoff backoff{
      .initial = milliseconds{50}, .cap = milliseconds{5'000}, .jitter = 0.5};
  std::lock_guard lock(mutex_);
  retry_at_ = Steady::now() + backoff.delay(failures_++, core::random_unit());
  std::ranges::move(trip.finished, std::back_inserter(finished_));
  if (!finished_.empty() && !first_finished_) first_finished_ = Steady::now();
  for (const auto& [subscription, plan] : trip.claims) {
    claiming_ -= plan.wanted;
    subscription->cancel_claim(plan);
  }
}

/// Nothing when no handler may have the message; then `unfit` says what becomes of it.
JobPtr Dispatcher::to_job(storage::ClaimedEntry&& entry, Subscription& subscription,
                          MonoTime sent_at, std::vector<Finished>& unfit) const {
  const auto& message = entry.claimed.message;
  const auto& claim = entry.claimed.claim;
  const auto* handler = handlers_.find(message.topic);
  const auto refuse = [&](storage::Settlement settlement) {
    unfit.push_back({.settlement = std::move(settlement),
                     .subscription = &subscription,
                     .priority = message.priority,
                     .lease_end = sent_at + options_.lease});
  };
  if (handler == nullptr) {
    log_.write(LogLevel::warn, event("unknown_topic"),
               {{"store", database_.name()},
                {"topic", message.topic},
                {"message_id", message.message_id.to_string()}});
    metrics_.count(event("unknown_topic"), 1, {{"store", database_.name()}});
    const RegisteredHandler nobody{{}, {}, handlers_.default_attempts()};
    refuse(failed_try(nobody, claim, message.attempts, "no handler for this topic"));
    return nullptr;
  }
  if (entry.lost_leases > 0 && message.attempts >= handler->max_attempts) {
    refuse({.kind = Kind::fail,
            .claim = claim,
            .error = "its lease ran out, and with it its last attempt",
            .charge = 0});
    return nullptr;
  }
  auto job = std::make_shared<Job>();
  job->handler = handler;
  job->subscription = &subscription;
  job->place = {.ready_at = entry.ready_at, .id = claim.id.uuid(), .row = 0};
  job->lost_leases = entry.lost_leases;
  job->lease_end = sent_at + options_.lease;
  if (message.expires_at) {
    const auto database_now = entry.claimed.lease_until - options_.lease;
    const auto left =
        *message.expires_at - database_now;  // compared before it is converted: it may be centuries
    job->expires = Steady::now() + std::min<std::chrono::microseconds>(left, longest_wait);
  }
  job->claimed = std::move(entry.claimed);
  return job;
}

/// A message whose lease was lost again and again, each time by a process that never came back, may
/// be what kills its workers: it is tried alone.
void Dispatcher::take_suspect(const std::vector<JobPtr>& jobs) {
  const auto suspicious = [this](const JobPtr& job) {
    return job->lost_leases >= suspicious_losses && !jobs_.contains(job->claimed.claim.id);
  };
  const auto first = std::ranges::find_if(jobs, suspicious);
  if (first == jobs.end() || stopping_ || suspect_) return;
  give_back_waiting();
  suspect_ = *first;
  window_ = 1;
}

void Dispatcher::hold(JobPtr job, MonoTime sent_at) {
  auto& held = jobs_[job->claimed.claim.id];
  if (held) {
    // We lost its lease, and our handler has not noticed yet: it is told, and the message waits for
    // it. Never two at once.
    held->lease_end = std::min(held->lease_end, sent_at);
    next_deadline_ = MonoTime::min();
    timekeeper_wakes_.notify_one();
    const auto delay = std::min<milliseconds>(options_.lease, successor_delay);
    settle_later(*job, {.kind = Kind::snooze, .claim = job->claimed.claim, .delay = delay});
    return;
  }
  held = job;
  ++job->subscription->held;
  ++job->subscription->waiting;
  held_bytes_ += job->claimed.message.payload.size();
  waiting_.push_back(std::move(job));
}

void Dispatcher::take_in(Subscription& subscription, std::vector<storage::ClaimedEntry> entries,
                         std::size_t wanted, MonoTime sent_at) {
  std::vector<JobPtr> jobs;
  jobs.reserve(entries.size());
  std::vector<Finished> unfit;
  for (auto& entry : entries) {
    if (auto job = to_job(std::move(entry), subscription, sent_at, unfit))
      jobs.push_back(std::move(job));
  }
  std::lock_guard lock(mutex_);
  claiming_ -= wanted;
  if (entries.empty()) return;
  for (auto& settlement : unfit) settle_later(std::move(settlement));
  take_suspect(jobs);
  for (auto& job : jobs) {
    if (stopping_ || (suspect_ && job != suspect_)) {
      give_back(*job);
    } else {
      hold(std::move(job), sent_at);
    }
  }
  worker_wakes_.notify_all();
}

}  // namespace dovetail::runtime
