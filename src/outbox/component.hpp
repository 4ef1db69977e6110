// The outbox as the runtime sees it.
#pragma once

#include "component/component.hpp"
#include "dovetail/outbox.hpp"

namespace dovetail::outbox {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  static std::vector<component::ConnectionUse> connections() {
    return component::dispatcher_connections("outbox");
  }
  std::vector<component::Queue> queues() override;

  Outbox outbox;

 private:
  storage::Database& database_;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::outbox
