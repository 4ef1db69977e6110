// Threads that make the steps of many tasks. A step does the due work of its task, and returns the
// time of the next step.
//
// A task that hangs does not delay the others: if a step takes longer than some tenths of a second,
// another thread replaces its thread. A step that takes longer than `step_limit`, or than its task
// allows, is told to stop.
//
// Threads: from any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/loop_progress.hpp"
#include "dovetail/clock.hpp"

namespace dovetail::group {

struct AgendaOptions {
  int threads = 4;
  /// The time limit of a step. Zero: none.
  std::chrono::milliseconds step_limit{0};
  /// The largest number of additional threads for steps that hang.
  int most_replacements = 64;
};

class Agenda {
 public:
  /// Must not throw. Returns the time of the next step, or MonoTime::max() to wait for wake_by().
  using Step = std::function<MonoTime(const std::stop_token& stop)>;
  /// A step that takes long.
  struct LongStep {
    MonoDuration took{};
    MonoDuration limit{};  ///< The agenda's `step_limit`, or the maximum without one.
    /// How many consecutive steps of the task were told to stop before it.
    int previous_stops = 0;
  };
  /// Returns whether to tell the step to stop. Called several times a second, with the agenda's
  /// lock held: must not call the agenda.
  using IsOver = std::function<bool(const LongStep& step)>;
  class Task;
  using TaskPtr = std::shared_ptr<Task>;

  Agenda(Clock& clock, AgendaOptions options) : clock_(clock), options_(options) {}
  Agenda(const Agenda&) = delete;
  Agenda& operator=(const Agenda&) = delete;
  /// Stops.
  ~Agenda();

  void start();
  /// Tells the steps under way to stop, and waits for them. No step begins after it.
  void stop();

  /// Without `is_over`, a step is over at the limit.
  [[nodiscard]] TaskPtr add(Step step, MonoTime first, IsOver is_over = {});
  /// Makes a step at `time` at the latest.
  void wake_by(const TaskPtr& task, MonoTime time);
  /// Whether its threads begin the steps that are due. A step that hangs is not their fault.
  [[nodiscard]] core::LoopProgress::State look();
  /// Waits for a step under way.
  void wait_for_step(const TaskPtr& task);
  /// No step begins after it. Does not wait for one under way.
  void cancel(const TaskPtr& task);
  /// Cancels the task, tells a step under way to stop, and waits for it. Must not be called by the
  /// task's own step.
  void remove(const TaskPtr& task);

 private:
  void run();
  void oversee(const std::stop_token& stop);
  /// Counts the steps that hang, and tells a step to stop if its time is over.
  [[nodiscard]] int count_hanging(MonoTime now);
  void add_thread();
  [[nodiscard]] TaskPtr next_due(MonoTime now, MonoTime& wake) const;
  void make_step(std::unique_lock<std::mutex>& lock, const TaskPtr& task);

  Clock& clock_;
  const AgendaOptions options_;
  std::mutex mutex_;
  std::condition_variable_any wakes_;
  std::condition_variable_any step_ended_;
  bool stopping_ = false;
  std::vector<TaskPtr> tasks_;
  int needed_ = 0;   // threads that should exist
  int threads_ = 0;  // threads that exist
  std::list<std::thread> workers_;
  std::vector<std::thread::id> exited_;
  std::jthread overseer_;
};

}  // namespace dovetail::group
