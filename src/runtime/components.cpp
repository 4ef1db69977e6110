#include "runtime/components.hpp"

#include <array>

#include "coordinator/component.hpp"
#include "event/component.hpp"
#include "fanout/component.hpp"
#include "history/component.hpp"
#include "inbox/component.hpp"
#include "instance/component.hpp"
#include "join/component.hpp"
#include "lease/component.hpp"
#include "operation/component.hpp"
#include "outbox/component.hpp"
#include "schedule/component.hpp"

namespace dovetail::runtime {

std::span<const component::Registration> registered_components() {
  // To add a component, add its line here. A component may include headers of the components above
  // it.
  static constexpr auto components = std::to_array<component::Registration>({
      {&outbox::make_component, &outbox::Component::connections},
      {&inbox::make_component, &inbox::Component::connections},
      {&join::make_component, &join::Component::connections},
      {&lease::make_component, &lease::Component::connections},
      {&schedule::make_component, &schedule::Component::connections},
      {&fanout::make_component, &fanout::Component::connections},
      {&event::make_component, &event::Component::connections},
      {&instance::make_component, &instance::Component::connections},
      {&coordinator::make_component, &coordinator::Component::connections},
      {&operation::make_component, &operation::Component::connections},
      {&history::make_component, &history::Component::connections},
  });
  return components;
}

}  // namespace dovetail::runtime
