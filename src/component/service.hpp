// A part of a started platform that works in the background.
//
// Threads: start() and stop() from one thread at a time; the rest from any.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/loop_progress.hpp"
#include "dovetail/clock.hpp"

namespace dovetail::component {

struct ServiceHealth {
  bool running = false;
  int failures = 0;          ///< Failed attempts in a row.
  std::string last_error{};  ///< Of the last failed attempt.
};

/// A background loop of a started platform. It is late if its progress has been missing for
/// max(3 * interval, 30 s).
struct Loop {
  std::string name;
  std::chrono::milliseconds interval{};  ///< The usual time between two rounds.
  std::function<core::LoopProgress::State()> look;
};

/// Connections that a part of a started platform holds at the same time, in addition to
/// max_connections.
struct ConnectionUse {
  std::string service;  ///< As docs/operations.md names it.
  std::size_t connections = 1;
  bool per_fetcher = false;  ///< That many for each of WorkerOptions::fetchers.
};

/// The connections of the dispatcher of a queue that can have handlers.
[[nodiscard]] inline std::vector<ConnectionUse> dispatcher_connections(const std::string& queue) {
  return {{.service = queue + ": fetchers", .per_fetcher = true},
          {.service = queue + ": lease keeper"}};
}

class Service {
 public:
  virtual ~Service() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// The largest number of service connections that it holds at the same time.
  [[nodiscard]] virtual std::size_t connections() const = 0;

  virtual void start() = 0;
  /// Asks the service to end. Returns at once.
  virtual void request_stop() = 0;
  /// Waits until the service has ended. From `deadline` on, it gives up all work that it can give
  /// up. A database that does not answer delays it by some seconds at most. Returns false when
  /// handlers still run.
  virtual bool stop(MonoTime deadline) = 0;
  /// The deadline of stop() has passed: ends the I/O that is under way. Called from any thread
  /// while stop() of this service or of another one waits.
  virtual void cut_off() {}
  /// Called after stop(), when no handler runs any more.
  virtual void finish() {}

  /// True for a service that must not end before the handlers have.
  [[nodiscard]] virtual bool outlives_handlers() const { return false; }
  /// While it fails, the process cannot do its work, and is not ready.
  [[nodiscard]] virtual bool is_essential() const { return false; }
  [[nodiscard]] virtual ServiceHealth health() const = 0;
  /// The loops of its threads, from start() to stop().
  [[nodiscard]] virtual std::vector<Loop> loops() const { return {}; }
};

}  // namespace dovetail::component
