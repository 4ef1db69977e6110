// The number of connections that the background services of a started platform use, in addition to
// max_connections. Each component declares its own; see component::Component::connections().
#pragma once

#include <cstddef>
#include <vector>

#include "component/service.hpp"

namespace dovetail::runtime {

/// The uses of all registered components, and of the runtime itself. All of them hold their
/// connections at the same time.
[[nodiscard]] std::vector<component::ConnectionUse> connection_uses();

/// The sum of connection_uses().
[[nodiscard]] std::size_t service_connections(int fetchers);

/// The connection of the listener, which is not part of the pool.
inline constexpr std::size_t listener_connections = 1;

}  // namespace dovetail::runtime
