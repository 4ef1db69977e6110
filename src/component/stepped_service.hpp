// A service that works in steps. Each step does the due work, and returns the time of the next
// step.
//
// start() runs the steps on a thread of the service. A runner with threads for many services calls
// begin(), step() and end() instead.
//
// Threads: wake_by() from any; the rest from one thread at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "component/service.hpp"

namespace dovetail::component {

class SteppedService : public Service {
 public:
  explicit SteppedService(Clock& clock) : clock_(clock), progress_(clock) {}
  SteppedService(const SteppedService&) = delete;
  SteppedService& operator=(const SteppedService&) = delete;

  void start() override;
  void request_stop() override;
  bool stop(MonoTime deadline) override;
  [[nodiscard]] std::vector<Loop> loops() const override;

  // --- for a runner that runs the steps

  using Wake = std::function<void(MonoTime at)>;

  /// Called before the first step. The service calls `wake` when a step is due earlier than the
  /// last step returned.
  void begin(Wake wake);
  /// Does the due work. Does not throw. Returns the time of the next step. MonoTime::max(): no step
  /// is due before wake_by(). The first step is due at once.
  virtual MonoTime step(const std::stop_token& stop) = 0;
  /// Called after the last step.
  void end();

 protected:
  /// Makes the next step due at `time` at the latest.
  void wake_by(MonoTime time);
  /// Subscribes to the events that make a step due.
  virtual void subscribe() {}
  virtual void unsubscribe() {}
  /// The usual time between two steps.
  [[nodiscard]] virtual std::chrono::milliseconds interval() const {
    return std::chrono::milliseconds{0};
  }
  /// Of the thread that start() starts.
  [[nodiscard]] core::LoopProgress& progress() { return progress_; }
  [[nodiscard]] Clock& clock() const { return clock_; }
  /// True between begin() and end().
  [[nodiscard]] bool is_running() const { return running_; }

 private:
  void run(const std::stop_token& stop);

  Clock& clock_;
  core::LoopProgress progress_;
  std::mutex mutex_;
  std::condition_variable_any wakes_;
  MonoTime wake_at_ = MonoTime::max();
  Wake wake_;
  std::atomic<bool> running_{false};
  std::jthread thread_;
};

}  // namespace dovetail::component
