// One run of checks on a thread of its own. The thread of a run that hangs is left behind: it owns
// all that it uses.
//
// Threads: from any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "observe/health_source.hpp"

namespace dovetail::observe {

class HealthRun final : public HealthRecorder, public std::enable_shared_from_this<HealthRun> {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Body = std::function<void(const std::stop_token& stop, HealthRecorder& recorder)>;

  /// Starts the thread. The body must not throw.
  [[nodiscard]] static std::shared_ptr<HealthRun> start(Body body);

  void begin(std::string name, std::vector<std::string> tags) override;
  void end(HealthResult result) override;
  void leave_out() override;

  [[nodiscard]] bool has_ended() const;
  /// Waits for the end. Returns false at `deadline`.
  bool wait_until(Time deadline) const;
  void wait() const;
  void request_stop() { stop_.request_stop(); }

  /// The checks that have ended, and the one that hangs, if any. `limit` is for its description.
  [[nodiscard]] std::vector<HealthCheck> checks(std::chrono::milliseconds limit) const;

 private:
  struct Begun {
    std::string name;
    std::vector<std::string> tags;
    Time at;
  };
  void run(const Body& body);

  std::stop_source stop_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<HealthCheck> done_;
  std::optional<Begun> current_;
  bool ended_ = false;
};

}  // namespace dovetail::observe
