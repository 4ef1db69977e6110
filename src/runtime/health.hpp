// The checks of Platform::health().
#pragma once

#include <string>
#include <vector>

#include "component/service.hpp"
#include "dovetail/health.hpp"
#include "runtime/node.hpp"

namespace dovetail::runtime {

/// The health of a service, under its name.
struct NamedHealth {
  std::string name;
  component::ServiceHealth health;
};

/// Checks the database, and reports the services that fail. Does not throw Error.
[[nodiscard]] HealthReport check_health(Node& node, const std::vector<NamedHealth>& services);

}  // namespace dovetail::runtime
