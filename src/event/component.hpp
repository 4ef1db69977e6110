// Events as the runtime sees them.
#pragma once

#include "component/component.hpp"
#include "dovetail/event.hpp"

namespace dovetail::event {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  Events events;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::event
