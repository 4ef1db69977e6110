// The table of instances as the runtime sees it.
#pragma once

#include "component/component.hpp"
#include "dovetail/instance.hpp"

namespace dovetail::instance {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  std::vector<component::Chore> chores() override;

  Instances instances;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::instance
