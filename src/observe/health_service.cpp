#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "dovetail/clock.hpp"
#include "dovetail/error.hpp"
#include "observe/health_run.hpp"

namespace dovetail {
namespace {

using observe::HealthRun;
using observe::HealthSource;
using std::chrono::milliseconds;

HealthOptions checked_health(const HealthOptions& options) {
  if (options.cache < milliseconds{0} || options.cache > std::chrono::hours{1}) {
    throw std::out_of_range("cache of health must be 0 to 1 h");
  }
  if (options.time_limit < milliseconds{10} || options.time_limit > std::chrono::minutes{1}) {
    throw std::out_of_range("time_limit of health must be 10 ms to 1 min");
  }
  return options;
}

HealthReport report_of(std::vector<HealthCheck> checks, HealthRun::Time begun) {
  HealthReport report{.checks = std::move(checks)};
  for (const auto& check : report.checks) report.status = std::max(report.status, check.status);
  report.total_duration = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begun);
  return report;
}

HealthResult result_of(const HealthFunction& function) {
  try {
    return function();
  } catch (const std::exception& error) {
    return {.status = HealthStatus::unhealthy, .description = error.what()};
  } catch (...) {
    return {.status = HealthStatus::unhealthy,
            .description = "the check threw an exception that is no std::exception"};
  }
}

}  // namespace

std::string_view to_string(HealthStatus status) {
  switch (status) {
    case HealthStatus::healthy:
      return "healthy";
    case HealthStatus::degraded:
      return "degraded";
    case HealthStatus::unhealthy:
      return "unhealthy";
  }
  return "unknown";
}

HealthReport with_tags(const HealthReport& report, const std::vector<std::string>& tags) {
  if (tags.empty()) return report;
  HealthReport chosen{.total_duration = report.total_duration};
  for (const auto& check : report.checks) {
    if (std::ranges::find_first_of(check.tags, tags) == check.tags.end()) continue;
    chosen.status = std::max(chosen.status, check.status);
    chosen.checks.push_back(check);
  }
  return chosen;
}

class HealthService::State {
 public:
  State(std::unique_ptr<HealthSource> source, const HealthOptions& options,
        std::shared_ptr<Clock> clock)
      : options_(checked_health(options)), clock_(std::move(clock)), source_(std::move(source)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (auto* slot : {&ready_, &all_}) {
      if (!slot->reading) continue;
      slot->reading->request_stop();
      slot->reading->wait();  // it uses the source
    }
  }

  void add(std::string name, std::vector<std::string> tags, HealthFunction function);
  HealthSource& source() { return *source_; }
  HealthReport ready() { return answer(ready_); }
  HealthReport all() { return answer(all_); }

 private:
  /// The reports of one question.
  struct Slot {
    explicit Slot(HealthSource::Scope its_scope) : scope(its_scope) {}
    const HealthSource::Scope scope;
    std::mutex mutex;  // guards the next members
    std::condition_variable ended;
    bool computing = false;
    std::uint64_t computations = 0;  // that have ended
    HealthReport report;
    MonoTime at{};
    std::optional<int> phase;            // of the report
    std::shared_ptr<HealthRun> reading;  // used by the computation only
  };
  /// Shared with its thread, which may outlive the service.
  struct UserCheck {
    std::string name;
    std::vector<std::string> tags;
    HealthFunction function;
  };
  struct UserEntry {
    std::shared_ptr<const UserCheck> check;
    std::shared_ptr<HealthRun> run;
  };

  HealthReport answer(Slot& slot);
  HealthReport compute(Slot& slot);
  /// A run, and whether it hangs since an earlier computation: it is not started again.
  struct Asked {
    std::shared_ptr<HealthRun> run;
    bool hangs = false;
  };
  Asked begin_reading(Slot& slot);
  std::vector<Asked> begin_user_checks();

  const HealthOptions options_;
  const std::shared_ptr<Clock> clock_;
  const std::unique_ptr<HealthSource> source_;
  Slot ready_{HealthSource::Scope::ready};
  Slot all_{HealthSource::Scope::all};
  std::mutex user_mutex_;
  std::vector<UserEntry> user_checks_;
};

void HealthService::State::add(std::string name, std::vector<std::string> tags,
                               HealthFunction function) {
  if (name.empty()) throw std::invalid_argument("the name of a health check must not be empty");
  if (!function) throw std::invalid_argument("the function of a health check must not be empty");
  {
    const std::lock_guard lock(user_mutex_);
    for (const auto& each : user_checks_) {
      if (each.check->name != name) continue;
      throw InvalidOperation("there is a health check \"" + name + "\" already");
    }
    user_checks_.push_back({std::make_shared<const UserCheck>(
                                UserCheck{std::move(name), std::move(tags), std::move(function)}),
                            nullptr});
  }
  const std::lock_guard lock(all_.mutex);
  all_.phase.reset();  // the cached report lacks this check
}

HealthReport HealthService::State::answer(Slot& slot) {
  const auto phase = source_->phase();
  std::unique_lock lock(slot.mutex);
  const bool is_fresh = slot.phase == phase && clock_->mono() - slot.at < options_.cache;
  if (is_fresh) return slot.report;
  if (slot.computing) {  // shares the computation under way
    const auto seen = slot.computations;
    slot.ended.wait(lock, [&] { return slot.computations != seen || !slot.computing; });
    if (slot.computations != seen) return slot.report;
  }
  slot.ended.wait(lock, [&] { return !slot.computing; });
  slot.computing = true;
  lock.unlock();
  std::optional<HealthReport> report;
  std::exception_ptr failed;  // no memory
  try {
    report = compute(slot);
  } catch (...) {
    failed = std::current_exception();
  }
  lock.lock();
  slot.computing = false;
  if (report) {
    ++slot.computations;
    slot.report = *report;
    slot.at = clock_->mono();
    slot.phase = phase;
  }
  slot.ended.notify_all();
  if (failed) std::rethrow_exception(failed);
  return *std::move(report);
}

HealthService::State::Asked HealthService::State::begin_reading(Slot& slot) {
  if (slot.reading && !slot.reading->has_ended()) return {slot.reading, true};
  slot.reading =
      HealthRun::start([source = source_.get(), scope = slot.scope](
                           const std::stop_token& stop, observe::HealthRecorder& recorder) {
        source->read(scope, stop, recorder);
      });
  return {slot.reading};
}

std::vector<HealthService::State::Asked> HealthService::State::begin_user_checks() {
  std::vector<Asked> asked;
  const std::lock_guard lock(user_mutex_);
  for (auto& [check, run] : user_checks_) {
    const bool hangs = run && !run->has_ended();
    if (!hangs) {
      run = HealthRun::start(
          [check = check](const std::stop_token& /*stop*/, observe::HealthRecorder& recorder) {
            recorder.begin(check->name, check->tags);
            recorder.end(result_of(check->function));
          });
    }
    asked.push_back({run, hangs});
  }
  return asked;
}

HealthReport HealthService::State::compute(Slot& slot) {
  const auto begun = std::chrono::steady_clock::now();
  std::vector<Asked> asked{begin_reading(slot)};
  if (slot.scope == HealthSource::Scope::all) {
    std::ranges::move(begin_user_checks(), std::back_inserter(asked));
  }
  auto quick = source_->quick(slot.scope);
  std::vector<HealthCheck> checks;
  for (const auto& [run, hangs] : asked) {
    const auto deadline = hangs ? begun : begun + options_.time_limit;
    if (!run->wait_until(deadline)) run->request_stop();
    std::ranges::move(run->checks(options_.time_limit), std::back_inserter(checks));
    if (run == slot.reading) std::ranges::move(quick, std::back_inserter(checks));
  }
  return report_of(std::move(checks), begun);
}

HealthService::HealthService(std::unique_ptr<HealthSource> source, const HealthOptions& options,
                             std::shared_ptr<Clock> clock)
    : state_(std::make_unique<State>(std::move(source), options, std::move(clock))) {}

HealthService::~HealthService() = default;

void HealthService::add(std::string name, std::vector<std::string> tags, HealthFunction function) {
  state_->source().require_process();
  state_->add(std::move(name), std::move(tags), std::move(function));
}

HealthReport HealthService::live() {
  state_->source().require_process();
  const auto begun = std::chrono::steady_clock::now();
  return report_of({state_->source().live()}, begun);
}

HealthReport HealthService::ready() {
  state_->source().require_process();
  return state_->ready();
}

HealthReport HealthService::all() {
  state_->source().require_process();
  return state_->all();
}

}  // namespace dovetail
