// The components of every node.
#pragma once

#include <span>

#include "component/component.hpp"

namespace dovetail::runtime {

/// In the order of construction: a component may use the components before it.
[[nodiscard]] std::span<const component::Registration> registered_components();

}  // namespace dovetail::runtime
