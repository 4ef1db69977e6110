// Watches the background loops of a started Platform or group. It does no I/O.
//
// Its thread ticks once a second, and reports the last progress of each loop as a metric. If the
// ticks stop, the process is not live.
//
// Threads: from any.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "component/service.hpp"
#include "dovetail/health.hpp"
#include "dovetail/metrics.hpp"

namespace dovetail::runtime {

class Supervisor {
 public:
  /// `store` labels the metrics. Empty: no label.
  Supervisor(Clock& clock, Metrics metrics, std::string store);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  void start();
  /// The loops must live until stop().
  void watch(std::vector<component::Loop> loops);
  /// Watches no loops any more, and waits for the thread.
  void stop();

  /// The check of live().
  [[nodiscard]] HealthCheck live() const;
  /// One check for each loop.
  [[nodiscard]] std::vector<HealthCheck> loops() const;

 private:
  void run(const std::stop_token& stop);
  void report() const;

  Clock& clock_;
  const Metrics metrics_;
  const std::string store_;
  std::atomic<MonoTime> tick_{};
  std::atomic<bool> running_{false};
  mutable std::mutex mutex_;
  std::vector<component::Loop> loops_;
  std::jthread thread_;
};

}  // namespace dovetail::runtime
