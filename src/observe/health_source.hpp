// What a HealthService asks: the built-in checks of a Platform or of a group.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "dovetail/health.hpp"

namespace dovetail::observe {

/// Receives the checks that read a database, as they begin and end. A check that has begun and not
/// ended at the time limit is unhealthy.
class HealthRecorder {
 public:
  virtual ~HealthRecorder() = default;
  virtual void begin(std::string name, std::vector<std::string> tags) = 0;
  virtual void end(HealthResult result) = 0;
  /// Nothing to report: the check is left out.
  virtual void leave_out() = 0;
};

/// Threads: from any.
class HealthSource {
 public:
  enum class Scope { ready, all };

  virtual ~HealthSource() = default;
  /// Throws InvalidOperation in a forked child.
  virtual void require_process() const = 0;
  /// A number that changes when the Platform is started or stopped: reports of before are out of
  /// date.
  [[nodiscard]] virtual int phase() const = 0;
  [[nodiscard]] virtual HealthCheck live() = 0;
  /// The checks without I/O.
  [[nodiscard]] virtual std::vector<HealthCheck> quick(Scope scope) = 0;
  /// Makes the checks that read the database. Ends soon after `stop`. Does not throw.
  virtual void read(Scope scope, const std::stop_token& stop, HealthRecorder& recorder) = 0;
};

}  // namespace dovetail::observe
