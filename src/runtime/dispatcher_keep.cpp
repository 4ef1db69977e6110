// The dispatcher's other threads: renewals, stop tokens, housekeeping.
#include "runtime/dispatcher.hpp"

#include <algorithm>
#include <system_error>
#include <thread>

#include "core/random.hpp"
#include "dovetail/error.hpp"

namespace dovetail::runtime {
namespace {

using Kind = storage::Settlement::Kind;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr milliseconds housekeeping_interval{30'000};
/// Looking for expired leases may take one part in so many of the time.
constexpr int reap_share = 50;
constexpr milliseconds longest_pause{60'000};
constexpr int reaper_looks_at = 10'000;
constexpr int unpark_portion = 1'000;

/// A stop callback of the user's may take its time: it must not keep the timekeeper from the other
/// handlers. The thread uses nothing but the job, which it holds.
void tell_to_stop(const JobPtr& job) {
  try {
    std::thread([job] { job->stop.request_stop(); }).detach();
  } catch (const std::system_error&) {
    job->stop.request_stop();  // better late for the others than never for this one
  }
}

}  // namespace

/// How long before its lease ends a message counts as lost.
MonoDuration Dispatcher::safety_margin() const {
  return std::min<MonoDuration>(options_.lease / 10, std::chrono::seconds{1});
}

/// What no handler has begun by then is given back instead, to whoever has time for it.
std::vector<Claim> Dispatcher::claims_to_renew(MonoTime now) {
  std::vector<Claim> claims;
  std::lock_guard lock(mutex_);
  std::vector<JobPtr> idle;
  for (const auto& [id, job] : jobs_) {
    if (job->lease_end - now > MonoDuration{options_.lease} * 2 / 3) continue;
    if (job->running) {
      claims.push_back(job->claimed.claim);
    } else {
      idle.push_back(job);
    }
  }
  for (const auto& job : idle) {
    drop_unstarted(job);
    give_back(*job);
  }
  for (const auto& each : aside_) {
    if (each.lease_end - now <= MonoDuration{options_.lease} * 2 / 3)
      claims.push_back(each.settlement.claim);
  }
  if (!idle.empty()) {
    window_ = std::max<std::size_t>(1, running_total_ * 2);
    grow_at_ = now + growth_interval;
  }
  std::ranges::sort(claims, {}, &Claim::id);
  return claims;
}

void Dispatcher::renew(const std::stop_token& stop) {
  while (system_clock()->sleep_for(options_.lease / 6, stop)) {
    const auto sent_at = Steady::now();
    const auto claims = claims_to_renew(sent_at);
    if (claims.empty()) continue;
    try {
      std::vector<MessageId> held;
      database_.write({.single_statement = true,
                       .repeatable = true,
                       .service = true,
                       .stop = hurry_.get_token()},
                      [&](storage::WriteSession& session) {
                        held = store_.renew(session, owner_, claims, options_.lease);
                      });
      metrics_.count(event("renewed"), held.size(), {{"store", database_.name()}});
      note_renewal(claims, held, sent_at);
    } catch (const std::exception& error) {
      log_error("renewal_failed", error);
    }
  }
}

void Dispatcher::note_renewal(const std::vector<Claim>& asked, const std::vector<MessageId>& held,
                              MonoTime sent_at) {
  std::vector<MessageId> sorted(held);
  std::ranges::sort(sorted);
  std::lock_guard lock(mutex_);
  for (auto& each : aside_) {
    if (!std::ranges::binary_search(sorted, each.settlement.claim.id)) continue;
    each.lease_end = std::max(each.lease_end, sent_at + MonoDuration{options_.lease});
    each.settlement.claim.row = 0;  // the renewal has moved the row
  }
  for (const auto& claim : asked) {
    const auto found = jobs_.find(claim.id);
    if (found == jobs_.end() || found->second->claimed.claim != claim)
      continue;  // settled meanwhile
    const auto job = found->second;
    if (std::ranges::binary_search(sorted, claim.id)) {
      job->lease_end = std::max(job->lease_end, sent_at + MonoDuration{options_.lease});
      job->renewed = true;
    } else if (!job->committing) {
      // It is somebody else's. The timekeeper tells the handler: what that does must not hold up
      // renewals.
      job->lease_end = std::min(job->lease_end, sent_at);
      next_deadline_ = MonoTime::min();
      timekeeper_wakes_.notify_one();
    }
  }
}

/// A handler that was told to stop and is still there a lease later hangs. Its message goes to
/// somebody else, another thread takes the place of its own. Under the mutex.
void Dispatcher::give_up(const JobPtr& job) {
  job->given_up = true;
  forget(job);
  if (--running_[job->handler] == 0) running_.erase(job->handler);
  --live_workers_;
  try {
    if (replacements_ < options_.threads && !closed_) {
      add_worker();
      job->replaced = true;
      ++replacements_;
    }
  } catch (const std::exception& error) {
    log_error("worker_not_replaced", error);
  }
  if (!job->replaced) unreplaced_.push_back(job);
  if (live_workers_ == 0) give_back_waiting();
  worker_wakes_.notify_all();
  fetcher_wakes_.notify_one();  // there is room again
}

/// Fires what is due and answers when to look again.
MonoTime Dispatcher::fire_due_stops(MonoTime now) {
  auto next = now + std::chrono::hours{1};
  std::vector<std::pair<JobPtr, const char*>> due;
  std::list<std::jthread> ended;
  {
    std::lock_guard lock(mutex_);
    std::vector<JobPtr> hanging;
    for (const auto& [id, job] : jobs_) {
      if (!job->running) continue;
      const auto timeout = job->handler->options.timeout;
      // On an engine where nobody can write beside its transaction, its lease cannot be taken.
      const auto lost_at = job->holds_lease ? MonoTime::max() : job->lease_end - safety_margin();
      const auto times_up = timeout.count() > 0 ? job->started + timeout : MonoTime::max();
      if (!job->stop_requested && std::min(lost_at, times_up) <= now) {
        job->stop_requested = true;
        due.emplace_back(job, lost_at <= now ? "lease_ending" : "handler_timeout");
      }
      if (!job->stop_requested) next = std::min({next, lost_at, times_up});
      if (timeout.count() > 0) {
        const auto hangs_at = times_up + options_.lease;
        if (hangs_at <= now) {
          hanging.push_back(job);
          due.emplace_back(job, "handler_hangs");
        } else {
          next = std::min<MonoTime>(next, hangs_at);
        }
      }
    }
    for (const auto& job : hanging) give_up(job);
    for (auto worker = workers_.begin(); worker != workers_.end();) {
      const auto next_worker = std::next(worker);
      if (std::erase(exited_, worker->get_id()) > 0) ended.splice(ended.end(), workers_, worker);
      worker = next_worker;
    }
  }
  ended.clear();  // joins
  for (const auto& [job, what] : due) {
    log_job(LogLevel::error, what, *job);
    metrics_.count(event(what), 1,
                   {{"store", database_.name()}, {"topic", job->claimed.message.topic}});
    tell_to_stop(job);
  }
  return next;
}

void Dispatcher::keep_time(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto next = fire_due_stops(Steady::now());
    std::unique_lock lock(mutex_);
    if (next_deadline_ >= next) next_deadline_ = next;
    timekeeper_wakes_.wait_until(lock, stop, next, [&] { return next_deadline_ < next; });
    next_deadline_ = MonoTime::max();
  }
}

void Dispatcher::keep_house(const std::stop_token& stop) {
  const auto interval =
      std::clamp<milliseconds>(options_.lease, milliseconds{1'000}, housekeeping_interval);
  MonoDuration took{};
  const auto pause = [&] {  // not all processes at the same moment
    const auto usual =
        std::chrono::duration_cast<milliseconds>(interval * (0.75 + 0.5 * core::random_unit()));
    const auto rarer =
        std::min(std::chrono::duration_cast<milliseconds>(took * reap_share), longest_pause);
    return std::max(usual, rarer);
  };
  while (system_clock()->sleep_for(pause(), stop)) {
    const auto begun = Steady::now();
    try {
      queue_.reap_expired({.look_at = reaper_looks_at, .stop = stop});
      took = Steady::now() - begun;
      if (scope_.keep_done) queue_.purge_done(queue_.options().retain_done, stop);
    } catch (const std::exception& error) {
      if (!stop.stop_requested()) log_error("housekeeping_failed", error);
    }
    do_chores(stop);
    try {
      // A resume that was cut short, or that plain SQL began, is finished here.
      std::size_t back = unpark_portion;
      while (back == unpark_portion && !stop.stop_requested()) {
        database_.write({.single_statement = true, .service = true, .stop = stop},
                        [&](storage::WriteSession& session) {
                          back = store_.unpark(session, std::nullopt, unpark_portion);
                        });
        if (back > 0) database_.announce();
      }
    } catch (const std::exception& error) {
      if (!stop.stop_requested()) log_error("housekeeping_failed", error);
    }
  }
}

void Dispatcher::do_chores(const std::stop_token& stop) {
  for (const auto& chore : chores_) {
    try {
      chore.run(stop);
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      // Somebody has removed that component's tables: the outbox goes on without them.
      const bool removed = known != nullptr && known->kind() == ErrorKind::schema;
      if (removed || stop.stop_requested()) continue;
      metrics_.count("platform.chore_failed", 1,
                     {{"store", database_.name()}, {"chore", chore.name}});
      log_.write(LogLevel::error, "platform.chore_failed",
                 {{"store", database_.name()}, {"chore", chore.name}, {"error", error.what()}});
    }
  }
}

}  // namespace dovetail::runtime
