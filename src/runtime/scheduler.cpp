#include "runtime/scheduler.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "dovetail/backoff.hpp"

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

/// Many changes of timers and jobs in this time are one look.
constexpr milliseconds least_pause{30};
constexpr std::chrono::hours longest_pause{1};

bool is_due(const std::optional<std::chrono::microseconds>& in) {
  return in && in->count() <= 0;
}

}  // namespace

void Scheduler::start() {
  bell_.emplace(database_.schedule_bell(), [this] {
    std::lock_guard lock(mutex_);
    rung_ = true;
    wakes_.notify_one();
  });
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Scheduler::stop() {
  thread_ = {};  // joins
  bell_.reset();
}

void Scheduler::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    MonoDuration pause{};
    try {
      pause = look(stop);
      failures_ = 0;
    } catch (const std::exception& error) {
      if (stop.stop_requested()) return;
      log_.write(LogLevel::error, "schedule.failed", {{"store", database_.name()}, {"error", error.what()}});
      const ExponentialBackoff backoff{
          .initial = milliseconds{100}, .cap = milliseconds{5'000}, .jitter = 0.5};
      pause = backoff.delay(std::min(failures_++, 20), core::random_unit());
    }
    wait(pause, stop);
  }
}

storage::NextDue Scheduler::next_due(const std::stop_token& stop) {
  storage::NextDue next;
  database_.read([&](storage::ReadSession& session) { next = database_.timers().next_due(session); },
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
    if (fires) fired = timers_.fire_some(stop);
    done += fired.count;
    if (plans) done += jobs_.schedule_due(stop);
    fires = fired.more;
    plans = fires;  // between the batches: a crowd of timers does not keep jobs waiting
  }
  return done;
}

MonoDuration Scheduler::look(const std::stop_token& stop) {
  {
    std::lock_guard lock(mutex_);
    rung_ = false;
  }
  auto asked_at = Steady::now();
  auto next = next_due(stop);
  const auto done = work_on(next, stop);
  if (done > 0) {
    asked_at = Steady::now();
    next = next_due(stop);
  }
  // Without a listener nobody tells us of an earlier one that another process stores.
  MonoDuration pause = listener_.hears_others() ? options_.idle_poll_interval : options_.poll_interval;
  for (const auto& due : {next.timers, next.jobs}) {
    if (!due) continue;
    const auto in = std::clamp<std::chrono::microseconds>(*due, std::chrono::microseconds{0}, longest_pause);
    pause =
        std::min<MonoDuration>(pause, std::max<MonoDuration>(asked_at + in - Steady::now(), MonoDuration{}));
  }
  // Something is due, and we could do nothing: somebody else is at it, or nobody can. No reason to ask without rest.
  fruitless_ = done == 0 && pause < milliseconds{1} ? std::min(fruitless_ + 1, 9) : 0;
  if (fruitless_ > 0) pause = std::max<MonoDuration>(pause, milliseconds{1 << fruitless_});
  return pause;
}

void Scheduler::wait(MonoDuration pause, const std::stop_token& stop) {
  const auto now = Steady::now();
  std::unique_lock lock(mutex_);
  wakes_.wait_until(lock, stop, now + pause, [this] { return rung_; });
  if (!rung_) return;
  // Many rings are one look.
  wakes_.wait_until(lock, stop, std::min<MonoTime>(now + pause, Steady::now() + least_pause),
                    [] { return false; });
}

}  // namespace dovetail::runtime
