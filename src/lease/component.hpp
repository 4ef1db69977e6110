// Leases as the runtime sees them.
#pragma once

#include "component/component.hpp"
#include "dovetail/lease.hpp"

namespace dovetail::lease {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  std::vector<component::Chore> chores() override;

  Leases leases;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::lease
