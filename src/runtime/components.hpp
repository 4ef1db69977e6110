// The components of every node.
#pragma once

#include <span>

#include "component/component.hpp"

namespace dovetail::runtime {

/// In the order in which they are made: a component may use those before it.
[[nodiscard]] std::span<const component::Factory> component_factories();

}  // namespace dovetail::runtime
