// The dispatcher's workers: which message is begun, and what becomes of it.
#include "runtime/dispatcher.hpp"

#include <algorithm>

namespace dovetail::runtime {
namespace {

using Kind = storage::Settlement::Kind;
using Steady = std::chrono::steady_clock;

}  // namespace

void Dispatcher::add_worker() {
  workers_.emplace_back([this] { work(); });
  ++live_workers_;
}

bool Dispatcher::may_start(const Job& job) const {
  const auto limit = job.handler->options.concurrency;
  if (limit == 0) return true;
  const auto busy = running_.find(job.handler);
  return busy == running_.end() || busy->second < limit;
}

/// The next message whose handler may take it; nothing when there will be none any more.
JobPtr Dispatcher::next_job() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (closed_) return nullptr;
    const auto next =
        std::ranges::find_if(waiting_, [this](const JobPtr& job) { return may_start(*job); });
    if (next == waiting_.end()) {
      worker_wakes_.wait(lock);
      continue;
    }
    auto job = *next;
    waiting_.erase(next);
    --job->subscription->waiting;
    // The fetcher looks whether to claim the next: when there is room for them, and when nothing is
    // left.
    if (job->subscription->waiting == batch() || waiting_.empty() || handlers_.has_limits()) {
      fetcher_wakes_.notify_one();
    }
    if (begin(job)) return job;
  }
}

/// Answers false when it came too late for the message.
bool Dispatcher::begin(const JobPtr& job) {
  const auto now = Steady::now();
  if (job->lease_end - safety_margin() <= now) {
    // Perhaps it is still ours, by the database's clock: then others need not wait for that to end.
    forget(job);
    give_back(*job);
    return false;
  }
  if (job->expires && *job->expires <= now) {
    forget(job);
    settle_later(*job, {.kind = Kind::fail,
                        .claim = job->claimed.claim,
                        .error = "expired before it was handled",
                        .charge = 0});
    return false;
  }
  job->running = true;
  job->started = now;
  ++running_[job->handler];
  ++running_total_;
  auto deadline = job->lease_end - safety_margin();
  const auto timeout = job->handler->options.timeout;
  if (timeout.count() > 0) deadline = std::min<MonoTime>(deadline, now + timeout);
  if (deadline < next_deadline_) {
    next_deadline_ = deadline;
    timekeeper_wakes_.notify_one();
  }
  return true;
}

void Dispatcher::work() {
  while (const auto job = next_job()) {
    if (!finish(job, invoke(scope_, *job))) return;
  }
}

/// Answers false when the thread is not needed any more: its handler hung, and another took its
/// place.
bool Dispatcher::finish(const JobPtr& job, std::optional<storage::Settlement> settlement) {
  std::lock_guard lock(mutex_);
  --running_total_;
  if (!job->given_up && --running_[job->handler] == 0) running_.erase(job->handler);
  job->subscription->note_handled(Steady::now() - job->started);
  forget(job);
  if (settlement) {
    if (job->renewed) settlement->claim.hint = {};
    settle_later(*job, std::move(*settlement));
  } else if (startable() == 0) {
    // Its own transaction has settled it: no round trip will tell that the handler came back alive.
    window_ = std::min(largest_window(), window_ * 2);
  }
  if (job->lease_lost) absolved_.push_back(job->claimed.claim.id);
  if (handlers_.has_limits()) worker_wakes_.notify_one();
  // Without a settlement nothing else tells the fetcher that there is room again.
  if (!settlement || jobs_.size() + 1 >= window_ || job->given_up) fetcher_wakes_.notify_one();
  job_ended_.notify_all();
  if (!job->given_up) return true;
  if (!job->replaced) {
    std::erase(unreplaced_, job);
    ++live_workers_;
    return true;
  }
  if (!unreplaced_.empty()) {  // this thread takes the place of another that still hangs
    unreplaced_.back()->replaced = true;
    unreplaced_.pop_back();
    ++live_workers_;
    return true;
  }
  --replacements_;
  exited_.push_back(std::this_thread::get_id());
  return false;
}

/// Under the mutex.
void Dispatcher::settle_later(Finished finished) {
  finished_.push_back(std::move(finished));
  if (!first_finished_) {
    first_finished_ = Steady::now();
    fetcher_wakes_.notify_one();
  } else if (waiting_.empty() || finished_.size() >= batch()) {
    fetcher_wakes_.notify_one();
  }
}

void Dispatcher::settle_later(const Job& job, storage::Settlement settlement) {
  settle_later({.settlement = std::move(settlement),
                .subscription = job.subscription,
                .priority = job.claimed.message.priority,
                .place = job.place,
                .lease_end = job.lease_end});
}

/// No attempt is charged, and the message goes to its old place.
void Dispatcher::give_back(const Job& job) {
  settle_later(job, {.kind = Kind::snooze, .claim = job.claimed.claim});
}

/// We hold the message no longer, or another claim of it.
void Dispatcher::forget(const JobPtr& job) {
  if (suspect_ == job) suspect_.reset();
  const auto held = jobs_.find(job->claimed.claim.id);
  if (held == jobs_.end() || held->second != job) return;
  jobs_.erase(held);
  --job->subscription->held;
  held_bytes_ -= job->claimed.message.payload.size();
}

void Dispatcher::drop_unstarted(const JobPtr& job) {
  forget(job);
  if (std::erase(waiting_, job) > 0) --job->subscription->waiting;
}

/// Under the mutex.
void Dispatcher::give_back_waiting() {
  suspect_.reset();
  for (const auto& job : std::exchange(waiting_, {})) {
    --job->subscription->waiting;
    forget(job);
    give_back(*job);
  }
}

}  // namespace dovetail::runtime
