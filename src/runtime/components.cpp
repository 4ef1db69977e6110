#include "runtime/components.hpp"

#include <array>

#include "fanout/component.hpp"
#include "inbox/component.hpp"
#include "instance/component.hpp"
#include "join/component.hpp"
#include "lease/component.hpp"
#include "outbox/component.hpp"
#include "schedule/component.hpp"

namespace dovetail::runtime {

std::span<const component::Factory> component_factories() {
  // To add a component, add its line here. A component may include headers of the components above
  // it.
  static constexpr auto factories = std::to_array<component::Factory>({
      &outbox::make_component,    //
      &inbox::make_component,     //
      &join::make_component,      //
      &lease::make_component,     //
      &schedule::make_component,  //
      &fanout::make_component,    //
      &instance::make_component,  //
  });
  return factories;
}

}  // namespace dovetail::runtime
