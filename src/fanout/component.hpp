// Fan-outs as the runtime sees them.
#pragma once

#include "component/component.hpp"
#include "dovetail/fanout.hpp"

namespace dovetail::fanout {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  void accept_handlers(const AddHandler& add_handler) override { fanout.use_handlers(add_handler); }

  Fanout fanout;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::fanout
