// Workers whose handler is a shell command: the part that `dovetail work` and `dovetail server`
// share.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "cli/command_runner.hpp"
#include "cli/long_run.hpp"

namespace dovetail::cli {

/// The flags. Absent ones are those of [worker] of the configuration.
struct CommandWorkerArguments {
  std::optional<std::string> command;
  std::vector<std::string> topics;
  std::optional<int> threads;
  std::optional<int> batch_size;
  std::optional<double> lease_seconds;
  std::optional<double> drain_seconds;
  double timeout_seconds = 600;
  double snooze_seconds = 60;
  std::optional<int> max_attempts;

  /// If --exec is not `required`, the other flags are errors without it.
  void add_to(CLI::App& command, bool required);
  /// Throws std::invalid_argument or std::out_of_range for wrong values. Changes the options of the
  /// configuration.
  void apply_to(WorkerOptions& options) const;
};

/// How the command is called, for the help of a command.
extern const char* const command_worker_help;

class CommandWorker {
 public:
  /// The end of a worker: running commands continue until the drain is over.
  class Drain {
   public:
    /// Call it before the platform is stopped. From then on its stop tokens end no command.
    void begin() { begun_ = true; }
    [[nodiscard]] bool has_begun() const { return begun_; }
    void end() { over_.request_stop(); }
    [[nodiscard]] std::stop_token over() const { return over_.get_token(); }

   private:
    std::atomic<bool> begun_ = false;
    std::stop_source over_;
  };

  /// `arguments` must outlive the worker. `in_group`: commands get the key of their database.
  CommandWorker(const CommandWorkerArguments& arguments, bool in_group,
                std::chrono::milliseconds drain);

  /// `Target` is a Platform or a PlatformGroup, here and below. Call it before its start.
  template <class Target>
  void register_handlers(Target& target) {
    if (arguments_.topics.empty()) target.on_any(handler(), options_);
    for (const auto& topic :
         std::set<std::string>(arguments_.topics.begin(), arguments_.topics.end()))
      target.on(topic, handler(), options_);
  }

  [[nodiscard]] std::size_t running() { return runner_.running(); }

  /// Stops the target and lets running commands finish. Throws std::runtime_error if some were
  /// killed. A second signal ends this process.
  template <class Target>
  void stop(Target& target, LongRun& run) {
    drain_.begin();
    const std::jthread impatient([&](const std::stop_token& done) { end_at_signal(run, done); });
    bool too_late = false;
    bool ended = false;
    {
      const std::jthread timer(
          [&](const std::stop_token& done) { too_late = end_drain_in_time(done); });
      ended = target.stop(patience_ + settle_time);
    }
    if (!ended || too_late) kill_the_rest();
  }

 private:
  /// After the drain: the time of CommandRunner between SIGTERM and SIGKILL, and time to settle.
  static constexpr std::chrono::milliseconds settle_time{CommandRunner::grace +
                                                         std::chrono::seconds{5}};

  [[nodiscard]] HandlerFunction handler();
  void end_at_signal(LongRun& run, const std::stop_token& done);
  /// Returns whether commands were still running.
  bool end_drain_in_time(const std::stop_token& done);
  [[noreturn]] void kill_the_rest();

  const CommandWorkerArguments& arguments_;
  const bool in_group_;
  const std::chrono::milliseconds patience_;
  const std::chrono::milliseconds snooze_;
  const HandlerOptions options_;
  CommandRunner runner_;
  Drain drain_;
};

}  // namespace dovetail::cli
