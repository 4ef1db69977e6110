// Where a Platform or a group is between its start and its end.
#pragma once

#include "dovetail/health.hpp"

namespace dovetail::runtime {

enum class RunState {
  unused,    ///< Never started, and without handlers: a producer, or a command.
  prepared,  ///< Has handlers, and was not started yet.
  starting,
  running,
  stopping,
  stopped,
};

/// The check `started`.
[[nodiscard]] HealthCheck check_started(RunState state);

}  // namespace dovetail::runtime
