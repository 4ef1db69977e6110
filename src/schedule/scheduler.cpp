#include "schedule/scheduler.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::schedule {
namespace {

using std::chrono::milliseconds;

/// All changes of timers and jobs within this time cause one check.
constexpr milliseconds least_pause{30};
constexpr std::chrono::hours longest_pause{1};

// Limits for many timers that are due at the same time.
constexpr int smallest_portion = 50;  // timers in one transaction
constexpr int largest_portion = 500;
constexpr milliseconds exclusive_time{5};  // target for a transaction that blocks all writers
constexpr milliseconds shared_time{20};
constexpr int backlog_limit = 400;  // messages that wait for workers
constexpr milliseconds wait_step{2};
constexpr milliseconds longest_wait{250};  // for workers, before the next portion

bool is_due(const std::optional<std::chrono::microseconds>& in) {
  return in && in->count() <= 0;
}

}  // namespace

void Scheduler::subscribe() {
  const auto look = [this] { wake_by(clock().mono() + least_pause); };
  timers_bell_.emplace(database_.bell(storage::queue_names::timers), look);
  jobs_bell_.emplace(database_.bell(storage::queue_names::jobs), look);
  hearing_.emplace(listener_, look);  // without a listener, checks are more frequent
}

void Scheduler::unsubscribe() {
  timers_bell_.reset();
  jobs_bell_.reset();
  hearing_.reset();
}

component::ServiceHealth Scheduler::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

MonoTime Scheduler::step(const std::stop_token& stop) {
  MonoDuration pause{};
  try {
    pause = look(stop);
    const std::lock_guard lock(mutex_);
    health_ = {.running = true};
  } catch (const std::exception& error) {
    if (stop.stop_requested()) return MonoTime::max();
    metrics_.count("dovetail_schedule_failed_total", 1, {{"store", database_.name()}});
    log_.write(LogLevel::error, "schedule.failed",
               {{"store", database_.name()}, {"error", error.what()}});
    const ExponentialBackoff backoff{
        .initial = milliseconds{100}, .cap = milliseconds{5'000}, .jitter = 0.5};
    const std::lock_guard lock(mutex_);
    pause = backoff.delay(std::min(health_.failures++, 20), core::random_unit());
    health_.last_error = error.what();
  }
  return clock().mono() + pause;
}

storage::NextDue Scheduler::next_due(const std::stop_token& stop) {
  storage::NextDue next;
  database_.read(
      [&](storage::ReadSession& session) {
        next = database_.store<storage::TimerStore>().next_due(session);
      },
      {.service = true, .stop = stop});
  if (!fires_timers_) next.timers.reset();
  return next;
}

std::size_t Scheduler::work_on(const storage::NextDue& next, const std::stop_token& stop) {
  std::size_t done = 0;
  bool fires = is_due(next.timers);
  bool plans = is_due(next.jobs);
  while ((fires || plans) && !stop.stop_requested()) {
    Timers::Fired fired;
    if (fires) fired = fire_portion(stop);
    done += fired.count;
    if (plans) done += jobs_.schedule_due(stop);
    fires = fired.more;
    plans = fires;  // plan jobs between batches: many timers must not delay jobs
    if (fires) wait_for_backlog(stop);
  }
  return done;
}

/// A transaction that fires many timers blocks other transactions; on SQLite it blocks all writers.
/// So the size of a batch adapts to the time that a transaction may take.
Timers::Fired Scheduler::fire_portion(const std::stop_token& stop) {
  const auto begun = clock().mono();
  auto fired = timers_.fire_some(stop, portion_);
  if (fired.count < static_cast<std::size_t>(portion_)) return fired;
  const std::chrono::duration<double> took = clock().mono() - begun;
  const std::chrono::duration<double> allowed =
      database_.transactions_exclude_writers() ? exclusive_time : shared_time;
  const auto factor = std::clamp(allowed / took, 0.5, 2.0);
  portion_ = std::clamp(static_cast<int>(portion_ * factor), smallest_portion, largest_portion);
  return fired;
}

/// Messages are claimed in the order of their due times. If many timers fired at once, later
/// messages would wait behind all of them. So timers fire only as fast as workers claim their
/// messages. There may be no workers, so the wait has a limit.
void Scheduler::wait_for_backlog(const std::stop_token& stop) {
  for (int tries = 0; tries < longest_wait / wait_step && !stop.stop_requested(); ++tries) {
    int backlog = 0;
    database_.read(
        [&](storage::ReadSession& session) {
          backlog = database_.store<storage::TimerStore>().backlog(session, backlog_limit);
        },
        {.service = true, .stop = stop});
    if (backlog < backlog_limit) return;
    clock().sleep_for(wait_step, stop);
  }
}

MonoDuration Scheduler::look(const std::stop_token& stop) {
  auto asked_at = clock().mono();
  auto next = next_due(stop);
  const auto done = work_on(next, stop);
  if (done > 0) {
    asked_at = clock().mono();
    next = next_due(stop);
  }
  // Without a listener, this process does not learn of earlier due times from other processes.
  MonoDuration pause =
      listener_.hears_others() ? options_.idle_poll_interval : options_.poll_interval;
  bool undone = false;
  for (const auto& due : {next.timers, next.jobs}) {
    if (!due) continue;
    const auto in =
        std::clamp<std::chrono::microseconds>(*due, std::chrono::microseconds{0}, longest_pause);
    const auto left = std::max<MonoDuration>(asked_at + in - clock().mono(), MonoDuration{});
    // A timer or a job is due, but nothing was done: another process works on it, or no process
    // can. Each such check in a row doubles the pause, up to a limit.
    const bool fruitless = done == 0 && left < milliseconds{1};
    undone = undone || fruitless;
    pause = std::min<MonoDuration>(pause, fruitless ? milliseconds{2 << fruitless_} : left);
  }
  fruitless_ = undone ? std::min(fruitless_ + 1, 8) : 0;
  return pause;
}

}  // namespace dovetail::schedule
