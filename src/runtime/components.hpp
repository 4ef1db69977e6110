// The components of every node.
#pragma once

#include <span>

#include "component/component.hpp"

namespace dovetail::runtime {

/// The factories in the order of construction: a component may use the components before it.
[[nodiscard]] std::span<const component::Factory> component_factories();

}  // namespace dovetail::runtime
