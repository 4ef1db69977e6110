#include "runtime/supervisor.hpp"

#include <algorithm>
#include <utility>

namespace dovetail::runtime {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds tick_interval{1'000};
/// A loop, or the supervisor itself, may make no progress for this time.
constexpr milliseconds patience{30'000};
constexpr int patience_intervals = 3;

milliseconds in_milliseconds(MonoDuration time) {
  return std::chrono::duration_cast<milliseconds>(time);
}

std::string seconds_text(MonoDuration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

HealthCheck check_of_loop(const component::Loop& loop, MonoTime now) {
  const auto state = loop.look();
  const auto limit = std::max(patience, patience_intervals * loop.interval);
  HealthCheck check{.name = "loop." + loop.name, .tags = {"runtime"}};
  const auto age = std::max(now - state.last, MonoDuration{});
  check.data = {{"last_progress_ms_ago", std::to_string(in_milliseconds(age).count())},
                {"limit_ms", std::to_string(limit.count())}};
  if (state.overdue <= limit) return check;
  check.status = HealthStatus::unhealthy;
  check.description = "no progress for " + seconds_text(state.overdue) +
                      ": it hangs, or waits for " + "a call of the database";
  return check;
}

}  // namespace

Supervisor::Supervisor(Clock& clock, Metrics metrics, std::string store)
    : clock_(clock), metrics_(std::move(metrics)), store_(std::move(store)) {}

void Supervisor::start() {
  tick_ = clock_.mono();
  running_ = true;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Supervisor::watch(std::vector<component::Loop> loops) {
  const std::lock_guard lock(mutex_);
  loops_ = std::move(loops);
}

void Supervisor::stop() {
  watch({});
  thread_ = {};  // joins
  running_ = false;
}

void Supervisor::run(const std::stop_token& stop) {
  do {
    tick_ = clock_.mono();
    report();
  } while (clock_.sleep_for(tick_interval, stop));
}

void Supervisor::report() const {
  const std::lock_guard lock(mutex_);
  for (const auto& loop : loops_) {
    const auto age = std::chrono::duration_cast<std::chrono::microseconds>(
        std::max(clock_.mono() - loop.look().last, MonoDuration{}));
    const std::chrono::duration<double> last = (clock_.wall() - age).time_since_epoch();
    if (store_.empty()) {
      metrics_.gauge("dovetail_last_progress_timestamp_seconds", last.count(),
                     {{"loop", loop.name}});
    } else {
      metrics_.gauge("dovetail_last_progress_timestamp_seconds", last.count(),
                     {{"store", store_}, {"loop", loop.name}});
    }
  }
}

HealthCheck Supervisor::live() const {
  HealthCheck check{.name = "supervisor", .tags = {"runtime"}};
  if (!running_) {
    check.description = "no background threads run";
    return check;
  }
  const auto age = std::max(clock_.mono() - tick_.load(), MonoDuration{});
  check.data = {{"last_tick_ms_ago", std::to_string(in_milliseconds(age).count())}};
  if (age <= patience) return check;
  check.status = HealthStatus::unhealthy;
  check.description = "the supervisor has not moved for " + seconds_text(age);
  return check;
}

std::vector<HealthCheck> Supervisor::loops() const {
  std::vector<HealthCheck> checks;
  const std::lock_guard lock(mutex_);
  const auto now = clock_.mono();
  for (const auto& loop : loops_) checks.push_back(check_of_loop(loop, now));
  return checks;
}

}  // namespace dovetail::runtime
