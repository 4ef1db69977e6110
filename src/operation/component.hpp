// The audit and the replays as the runtime sees them.
#pragma once

#include "component/component.hpp"
#include "dovetail/audit.hpp"
#include "dovetail/replay.hpp"

namespace dovetail::operation {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  std::vector<component::Chore> chores() override;

  Audit audit;
  Replays replays;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::operation
