#include "group/agenda.hpp"

#include <algorithm>
#include <utility>

namespace dovetail::group {
namespace {

constexpr std::chrono::milliseconds look_interval{200};
constexpr std::chrono::milliseconds hangs_after{200};
/// After this time, a step may be told to stop.
constexpr std::chrono::seconds takes_long_after{1};
constexpr std::chrono::minutes longest_wait{1};

}  // namespace

class Agenda::Task {
 public:
  Task(Step given, MonoTime first, IsOver asked)
      : step(std::move(given)), is_over(std::move(asked)), due(first) {}

  const Step step;
  const IsOver is_over;
  MonoTime due;
  bool running = false;
  bool cancelled = false;
  MonoTime woken_by = MonoTime::max();  // requested during a step
  MonoTime begun{};
  std::stop_source stop;
  int previous_stops = 0;
};

Agenda::~Agenda() {
  stop();
}

void Agenda::start() {
  const std::lock_guard lock(mutex_);
  needed_ = options_.threads;
  while (threads_ < needed_) add_thread();
  overseer_ = std::jthread([this](const std::stop_token& stop) { oversee(stop); });
}

void Agenda::stop() {
  overseer_ = {};
  std::list<std::thread> workers;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& task : tasks_) task->stop.request_stop();
    wakes_.notify_all();
    workers.swap(workers_);
  }
  for (auto& worker : workers) worker.join();
}

// --- tasks

Agenda::TaskPtr Agenda::add(Step step, MonoTime first, IsOver is_over) {
  auto task = std::make_shared<Task>(std::move(step), first, std::move(is_over));
  const std::lock_guard lock(mutex_);
  tasks_.push_back(task);
  wakes_.notify_one();
  return task;
}

void Agenda::wake_by(const TaskPtr& task, MonoTime time) {
  const std::lock_guard lock(mutex_);
  if (task->running) {
    task->woken_by = std::min(task->woken_by, time);
    return;
  }
  // Not earlier than now, so that due tasks take turns.
  const auto due = std::max(time, clock_.mono());
  if (due >= task->due) return;
  task->due = due;
  wakes_.notify_one();
}

void Agenda::wait_for_step(const TaskPtr& task) {
  std::unique_lock lock(mutex_);
  step_ended_.wait(lock, [&] { return !task->running; });
}

void Agenda::cancel(const TaskPtr& task) {
  const std::lock_guard lock(mutex_);
  task->cancelled = true;
  if (!task->running) std::erase(tasks_, task);
}

void Agenda::remove(const TaskPtr& task) {
  cancel(task);
  std::unique_lock lock(mutex_);
  task->stop.request_stop();
  step_ended_.wait(lock, [&] { return !task->running; });
}

core::LoopProgress::State Agenda::look() {
  const std::lock_guard lock(mutex_);
  const auto now = clock_.mono();
  auto earliest = now;
  for (const auto& task : tasks_) {
    if (!stopping_ && !task->running && !task->cancelled) earliest = std::min(earliest, task->due);
  }
  return {.last = earliest, .overdue = now - earliest};
}

// --- threads

void Agenda::add_thread() {
  for (const auto id : std::exchange(exited_, {})) {
    const auto ended =
        std::ranges::find_if(workers_, [&](const auto& worker) { return worker.get_id() == id; });
    if (ended == workers_.end()) continue;
    ended->join();
    workers_.erase(ended);
  }
  ++threads_;
  workers_.emplace_back([this] { run(); });
}

Agenda::TaskPtr Agenda::next_due(MonoTime now, MonoTime& wake) const {
  TaskPtr found;
  wake = now + longest_wait;
  for (const auto& task : tasks_) {
    if (task->running || task->cancelled) continue;
    wake = std::min(wake, task->due);
    if (task->due <= now && (!found || task->due < found->due)) found = task;
  }
  return found;
}

void Agenda::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && threads_ <= needed_) {
    MonoTime wake{};
    if (const auto task = next_due(clock_.mono(), wake)) {
      make_step(lock, task);
    } else {
      clock_.wait_until(wakes_, lock, wake);
    }
  }
  --threads_;
  exited_.push_back(std::this_thread::get_id());
}

void Agenda::make_step(std::unique_lock<std::mutex>& lock, const TaskPtr& task) {
  task->running = true;
  task->begun = clock_.mono();
  task->stop = {};
  const auto stop = task->stop.get_token();
  wakes_.notify_one();  // another thread watches for due tasks
  lock.unlock();
  const auto next = task->step(stop);
  lock.lock();
  task->running = false;
  task->previous_stops = stop.stop_requested() ? task->previous_stops + 1 : 0;
  task->due =
      std::max(clock_.mono(), std::min(next, std::exchange(task->woken_by, MonoTime::max())));
  if (task->cancelled) std::erase(tasks_, task);
  step_ended_.notify_all();
}

int Agenda::count_hanging(MonoTime now) {
  int hanging = 0;
  const auto limit =
      options_.step_limit.count() > 0 ? MonoDuration{options_.step_limit} : MonoDuration::max();
  for (const auto& task : tasks_) {
    if (!task->running) continue;
    const auto took = now - task->begun;
    if (took >= hangs_after) ++hanging;
    if (took < std::min<MonoDuration>(limit, takes_long_after)) continue;
    const bool over =
        task->is_over
            ? task->is_over({.took = took, .limit = limit, .previous_stops = task->previous_stops})
            : took >= limit;
    if (over) task->stop.request_stop();
  }
  return std::min(hanging, options_.most_replacements);
}

void Agenda::oversee(const std::stop_token& stop) {
  while (clock_.sleep_for(look_interval, stop)) {
    const std::lock_guard lock(mutex_);
    needed_ = options_.threads + count_hanging(clock_.mono());
    while (threads_ < needed_ && !stopping_) add_thread();
    if (threads_ > needed_) wakes_.notify_all();
  }
}

}  // namespace dovetail::group
