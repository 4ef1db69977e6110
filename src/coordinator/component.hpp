// The work coordinator as the runtime sees it.
#pragma once

#include "component/component.hpp"
#include "dovetail/work.hpp"

namespace dovetail::coordinator {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  WorkBatches batches;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::coordinator
