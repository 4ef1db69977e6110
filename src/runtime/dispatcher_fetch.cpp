// The dispatcher's fetchers: claim, settle, and when to do it.
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

/// How long a finished message may wait for others, to be settled with them in one round trip, while workers
/// have more to do.
constexpr milliseconds settle_delay{5};
/// Claims start where the last one did; this often at least they start at the queue's beginning.
constexpr milliseconds scan_interval{1'000};
/// We hold so many batches at most; of them, so many may wait for handlers at their limits. More go back for
/// a while.
constexpr std::size_t batches_held = 4;
constexpr std::size_t batches_blocked = 2;
constexpr milliseconds blocked_delay{5'000};
/// How long a message that we claimed from ourselves is left to the handler that has lost it.
constexpr milliseconds successor_delay{500};
/// So often must its lease have run out before a message is tried alone. Once may be anybody's bad luck.
constexpr int suspicious_losses = 2;

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

/// Where a claim began: for each priority, its first message.
storage::QueueMarks places_of(const std::vector<storage::ClaimedEntry>& entries) {
  storage::QueueMarks places{};
  for (const auto& entry : entries) {
    const auto lane = static_cast<std::size_t>(entry.claimed.message.priority - storage::lowest_priority);
    if (lane < places.size() && !places[lane]) places[lane] = {entry.ready_at, entry.claimed.claim.id.uuid()};
  }
  return places;
}

}  // namespace

/// What handlers finished when the fetcher had gone already; if their leases still hold.
void Dispatcher::settle_the_late(MonoTime give_up_at) {
  Settlements late;
  {
    std::lock_guard lock(mutex_);
    late = std::exchange(finished_, {});
  }
  if (late.empty()) return;
  std::stop_source limit;
  const std::jthread timer([&](const std::stop_token& done) {
    if (system_clock()->sleep_until(give_up_at, done)) limit.request_stop();
  });
  try {
    database_.write({.single_statement = true, .service = true, .stop = limit.get_token()},
                    [&](storage::WriteSession& session) {
                      store_.work(session, owner_, late, scope_.keep_done, nullptr);
                    });
  } catch (const std::exception& error) {
    log_error("round_trip_failed", error);
  }
}

void Dispatcher::fetch() {
  for (Trip trip; next_trip(trip); trip = {}) travel(trip);
}

std::vector<JobPtr> Dispatcher::blocked() const {
  std::vector<JobPtr> jobs;
  if (!handlers_.has_limits()) return jobs;
  std::unordered_map<const RegisteredHandler*, int> room;
  for (const auto& job : waiting_) {
    const auto limit = job->handler->options.concurrency;
    if (limit == 0) continue;
    const auto busy = running_.find(job->handler);
    const auto [left, fresh] =
        room.try_emplace(job->handler, limit - (busy == running_.end() ? 0 : busy->second));
    if (left->second-- <= 0) jobs.push_back(job);
  }
  return jobs;
}

std::size_t Dispatcher::startable() const {
  return waiting_.size() - blocked().size();
}

std::size_t Dispatcher::largest_window() const {
  return std::max(batches_held * static_cast<std::size_t>(options_.batch_size),
                  2 * static_cast<std::size_t>(options_.threads));
}

/// Waits until there is a reason for a round trip; answers false when there will be none any more.
bool Dispatcher::next_trip(Trip& trip) {
  std::unique_lock lock(mutex_);
  const auto batch = static_cast<std::size_t>(options_.batch_size);
  for (;;) {
    const auto now = Steady::now();
    const auto ready = startable();
    // Handlers that take their time, and survive, are no reason to hold back.
    const bool full_window = jobs_.size() >= window_ && running_total_ > 0 && !suspect_;
    if (!full_window) {
      grow_at_ = now + growth_interval;
    } else if (now >= grow_at_) {
      window_ = std::min(largest_window(), window_ * 2);
      grow_at_ = now + growth_interval;
    }
    const bool failing = now < retry_at_;
    const bool hungry = !stopping_ && ready <= low_water() && live_workers_ > 0;
    // A second claim beside one that is under way: only when the workers are faster than the database.
    const bool wants =
        hungry && jobs_.size() + claiming_ < window_ && !suspect_ && (claiming_ == 0 || ready == 0);
    const auto look_at = std::min(poll_at_, due_at_);
    const bool claims = wants && (rung_ || more_ || now >= look_at);
    const bool settles = !finished_.empty() && (ready == 0 || finished_.size() >= batch || stopping_ ||
                                                now >= *first_finished_ + settle_delay);
    if (!failing && (claims || settles)) {
      trip.number = ++trips_;
      trip.settlements = std::exchange(finished_, {});
      first_finished_.reset();
      trip.ran_dry = ready == 0;
      if (claims) {
        const auto wanted = std::min(batch, window_ - jobs_.size() - claiming_);
        trip.wanted = static_cast<int>(wanted);
        claiming_ += wanted;
        const bool by_the_clock = !rung_ && !more_;
        const bool scans = std::exchange(scan_next_, false) || !has_marks_ ||
                           scan_is_due(now, by_the_clock ? MonoDuration{} : MonoDuration{scan_interval});
        if (scans) {
          scanned_at_ = now;
        } else {
          trip.after = marks_;
        }
        trip.asks_next_due = !more_ || scans;
        rung_ = false;
        if (now >= due_at_) due_at_ = MonoTime::max();
      } else {
        fetcher_wakes_.notify_one();  // another keeps watch meanwhile
      }
      return true;
    }
    if (closed_ && (!failing || hurry_.stop_requested())) return false;
    auto wake = now + (closed_ ? MonoDuration{milliseconds{50}} : MonoDuration{std::chrono::hours{1}});
    if (failing) {
      wake = std::min(wake, retry_at_);
    } else {
      if (wants) wake = std::min(wake, look_at);
      if (!finished_.empty()) wake = std::min<MonoTime>(wake, *first_finished_ + settle_delay);
    }
    if (hungry && !wants && window_ < largest_window()) wake = std::min(wake, grow_at_);
    fetcher_wakes_.wait_until(lock, wake);
  }
}

/// One round trip. What it could not settle is kept for the next.
void Dispatcher::travel(Trip& trip) {
  const auto sent_at = Steady::now();
  const storage::ClaimOrder order{.owner = owner_,
                                  .batch_size = trip.wanted,
                                  .lease = options_.lease,
                                  .max_attempts = handlers_.most_attempts(),
                                  .after = trip.after ? &*trip.after : nullptr,
                                  .asks_next_due = trip.asks_next_due};
  storage::WorkAnswer answer;
  try {
    database_.write({.single_statement = true, .service = true, .stop = hurry_.get_token()},
                    [&](storage::WriteSession& session) {
                      answer = store_.work(session, owner_, trip.settlements, scope_.keep_done,
                                           trip.wanted > 0 ? &order : nullptr);
                    });
  } catch (const std::exception& error) {
    log_error("round_trip_failed", error);
    if (!may_pass(error)) settle_one_by_one(std::exchange(trip.settlements, {}));
    put_back(trip);
    return;
  }
  metrics_.time(event("round_trip"), Steady::now() - sent_at, {{"store", database_.name()}});
  note_settled(trip, answer.settled);
  if (trip.wanted == 0) return;
  metrics_.count(event("claimed"), answer.claimed.size(), {{"store", database_.name()}});
  if (log_.enabled(LogLevel::debug)) {
    log_.write(
        LogLevel::debug, event("claimed"),
        {{"store", database_.name()}, {"owner", owner_.to_string()}, {"count", answer.claimed.size()}});
  }
  trip.claimed = answer.claimed.size();
  trip.places = places_of(answer.claimed);
  trip.next_due = answer.next_due;
  take_in(std::move(answer.claimed), sent_at);
  plan_next(trip, sent_at);
}

/// One of them is refused for what it is: it must not keep the others from being settled.
void Dispatcher::settle_one_by_one(const Settlements& settlements) {
  for (const auto& each : settlements) {
    Trip single;
    single.settlements = {each};
    try {
      std::size_t settled = 0;
      database_.write(
          {.single_statement = true, .service = true, .stop = hurry_.get_token()},
          [&](storage::WriteSession& session) {
            settled = store_.work(session, owner_, single.settlements, scope_.keep_done, nullptr).settled;
          });
      note_settled(single, settled);
    } catch (const std::exception& error) {
      if (may_pass(error)) {
        put_back(single);
      } else {
        log_.write(LogLevel::error, event("settlement_refused"),
                   {{"store", database_.name()}, {"id", each.claim.id.to_string()}, {"error", error.what()}});
      }
    }
  }
}

void Dispatcher::note_settled(const Trip& trip, std::size_t settled) {
  const auto lost = trip.settlements.size() - std::min(settled, trip.settlements.size());
  metrics_.count(event("settled"), settled, {{"store", database_.name()}});
  metrics_.count(event("lease_lost"), lost, {{"store", database_.name()}});
  if (lost > 0) {
    log_.write(LogLevel::warn, event("lease_lost"), {{"store", database_.name()}, {"count", lost}});
  }
  std::lock_guard lock(mutex_);
  failures_ = 0;
  if (settled > 0 && trip.ran_dry) window_ = std::min(largest_window(), window_ * 2);
  for (const auto& each : trip.settlements) {
    if (each.kind == Kind::ack || each.kind == Kind::fail) continue;
    const auto delay =
        std::min<std::chrono::microseconds>(each.delay.value_or(std::chrono::microseconds{0}), longest_wait);
    due_at_ = std::min<MonoTime>(due_at_, Steady::now() + delay + milliseconds{1});
  }
}

void Dispatcher::put_back(Trip& trip) {
  const ExponentialBackoff backoff{.initial = milliseconds{50}, .cap = milliseconds{5'000}, .jitter = 0.5};
  std::lock_guard lock(mutex_);
  retry_at_ = Steady::now() + backoff.delay(failures_++, core::random_unit());
  std::ranges::move(trip.settlements, std::back_inserter(finished_));
  if (!finished_.empty() && !first_finished_) first_finished_ = Steady::now();
  if (trip.wanted == 0) return;
  claiming_ -= static_cast<std::size_t>(trip.wanted);
  scan_next_ = scan_next_ || trip.from_start();
  rung_ = true;
}

/// Nothing when no handler may have the message; then `unfit` says what becomes of it.
JobPtr Dispatcher::to_job(storage::ClaimedEntry&& entry, MonoTime sent_at, Settlements& unfit) const {
  const auto& message = entry.claimed.message;
  const auto& claim = entry.claimed.claim;
  const auto* handler = handlers_.find(message.topic);
  if (handler == nullptr) {
    log_.write(LogLevel::warn, event("unknown_topic"),
               {{"store", database_.name()},
                {"topic", message.topic},
                {"message_id", message.message_id.to_string()}});
    metrics_.count(event("unknown_topic"), 1, {{"store", database_.name()}});
    const RegisteredHandler nobody{{}, {}, handlers_.default_attempts()};
    unfit.push_back(failed_try(nobody, claim, message.attempts, "no handler for this topic"));
    return nullptr;
  }
  if (message.attempts >= handler->max_attempts) {
    unfit.push_back({.kind = Kind::fail,
                     .claim = claim,
                     .error = "its lease ran out, and with it its last attempt",
                     .charge = 0});
    return nullptr;
  }
  auto job = std::make_shared<Job>();
  job->handler = handler;
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

void Dispatcher::take_in(std::vector<storage::ClaimedEntry> entries, MonoTime sent_at) {
  std::vector<JobPtr> jobs;
  jobs.reserve(entries.size());
  Settlements unfit;
  for (auto& entry : entries) {
    if (auto job = to_job(std::move(entry), sent_at, unfit)) jobs.push_back(std::move(job));
  }
  std::lock_guard lock(mutex_);
  for (auto& settlement : unfit) settle_later(std::move(settlement));
  // A message whose lease ran out again and again may be what kills its workers: it is tried alone.
  const auto suspicious = [this](const JobPtr& job) {
    return job->lost_leases >= suspicious_losses && !jobs_.contains(job->claimed.claim.id);
  };
  const auto first = std::ranges::find_if(jobs, suspicious);
  if (first != jobs.end() && !stopping_ && !suspect_) {
    give_back_waiting();
    suspect_ = *first;
    window_ = 1;
  }
  for (auto& job : jobs) {
    if (stopping_ || (suspect_ && job != suspect_)) {
      settle_later({.kind = Kind::snooze, .claim = job->claimed.claim});
      continue;
    }
    auto& held = jobs_[job->claimed.claim.id];
    if (held) {
      // We lost its lease, and our handler has not noticed yet: it is told, and the message waits for it.
      // Never two at once.
      held->lease_end = std::min(held->lease_end, sent_at);
      next_deadline_ = MonoTime::min();
      timekeeper_wakes_.notify_one();
      const auto delay = std::min<milliseconds>(options_.lease, successor_delay);
      settle_later({.kind = Kind::snooze, .claim = job->claimed.claim, .delay = delay});
      continue;
    }
    held = job;
    waiting_.push_back(std::move(job));
  }
  put_off_blocked();
  worker_wakes_.notify_all();
}

/// Too many that wait for handlers at their limits: out of the way of the others, for a while.
void Dispatcher::put_off_blocked() {
  const auto jobs = blocked();
  const auto room = batches_blocked * static_cast<std::size_t>(options_.batch_size);
  for (std::size_t i = room; i < jobs.size(); ++i) {
    drop_unstarted(jobs[i]);
    const auto delay = std::chrono::duration_cast<milliseconds>(blocked_delay * (1 + core::random_unit()));
    settle_later({.kind = Kind::snooze, .claim = jobs[i]->claimed.claim, .delay = delay});
  }
}

void Dispatcher::note_places(const storage::QueueMarks& places) {
  for (std::size_t lane = 0; lane < places.size(); ++lane) {
    if (!places[lane]) continue;
    marks_[lane] = places[lane];
    has_marks_ = true;
  }
}

bool Dispatcher::scan_is_due(MonoTime now, MonoDuration interval) const {
  const auto pause = std::min<MonoDuration>(scan_cost_ * scan_share, longest_scan_pause);
  return now - scanned_at_ >= std::max<MonoDuration>(interval, pause);
}

/// When to claim next.
void Dispatcher::plan_next(const Trip& trip, MonoTime sent_at) {
  const bool full = trip.claimed >= static_cast<std::size_t>(trip.wanted);
  const auto now = Steady::now();
  std::lock_guard lock(mutex_);
  claiming_ -= static_cast<std::size_t>(trip.wanted);
  note_places(trip.places);
  if (trip.next_due) {
    // Counted from when we asked: that is early rather than late.
    const auto in = std::min<std::chrono::microseconds>(*trip.next_due, longest_wait);
    due_at_ = std::min<MonoTime>(due_at_, sent_at + in + milliseconds{1});
  }
  if (trip.from_start()) {
    scanned_at_ = now;
    scan_cost_ = now - sent_at;
  } else if (!full && has_marks_ && scan_is_due(now, {})) {
    // Nothing more where we look: perhaps before it.
    scan_next_ = true;
    more_ = true;
    return;
  }
  if (full) full_trip_ = std::max(full_trip_, trip.number);
  if (more_ && full_trip_ > trip.number) return;  // a trip that began later knows better: there are more
  if (!full && more_ &&
      !trip.from_start()) {  // the end of a burst: look again, and ask when the next comes due
    more_ = false;
    due_at_ = std::min(due_at_, now);
    return;
  }
  more_ = full;
  idle_polls_ = trip.claimed > 0 ? 0 : idle_polls_ + 1;
  // With nothing to do and a listener that would tell us, we look less and less often.
  const auto patience = listener_.hears_others() ? options_.idle_poll_interval : options_.poll_interval;
  auto pause =
      std::min<MonoDuration>(patience, options_.poll_interval * (1 << std::clamp(idle_polls_ - 1, 0, 10)));
  // All that we got waits for handlers at their limits: there may be more of that kind, and claiming it is in
  // vain.
  if (trip.claimed > 0 && startable() == 0 && !blocked().empty()) {
    more_ = false;
    pause = std::min<MonoDuration>(pause, milliseconds{50} * (1 << std::min(blocked_rounds_++, 5)));
  } else {
    blocked_rounds_ = 0;
  }
  poll_at_ = now + pause;
}

}  // namespace dovetail::runtime
