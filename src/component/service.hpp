// A part of a started platform that works in the background.
//
// Threads: start() and stop() from one thread at a time; the rest from any.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dovetail/clock.hpp"

namespace dovetail::component {

struct ServiceHealth {
  bool running = false;
  int failures = 0;          ///< Failed attempts in a row.
  std::string last_error{};  ///< Of the last failed attempt.
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
  [[nodiscard]] virtual ServiceHealth health() const = 0;
};

}  // namespace dovetail::component
