// A part of a started platform that works in the background.
//
// Threads: start() and stop() from one thread at a time; the rest from any.
#pragma once

#include <string>

#include "dovetail/clock.hpp"

namespace dovetail::component {

struct ServiceHealth {
  bool running = false;
  int failures = 0;          ///< Failed attempts in a row.
  std::string last_error{};  ///< Of the last failed attempt.
};

class Service {
 public:
  virtual ~Service() = default;

  [[nodiscard]] virtual std::string name() const = 0;

  virtual void start() = 0;
  /// Asks the service to end. Returns at once.
  virtual void request_stop() = 0;
  /// Waits until the service has ended. From `deadline` on, it gives up all work that it can give
  /// up. A database that does not answer delays it by some seconds at most. Returns false when
  /// handlers still run.
  virtual bool stop(MonoTime deadline) = 0;
  /// Called after stop(), when no handler runs any more.
  virtual void finish() {}

  /// True for a service that must not end before the handlers have.
  [[nodiscard]] virtual bool outlives_handlers() const { return false; }
  [[nodiscard]] virtual ServiceHealth health() const = 0;
};

}  // namespace dovetail::component
