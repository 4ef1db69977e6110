// Events as the runtime sees them.
#pragma once

#include "component/component.hpp"
#include "dovetail/event.hpp"

namespace dovetail::event {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  static std::vector<component::ConnectionUse> connections() {
    return {{.service = "events: stamper"}, {.service = "events: subscription leases"}};
  }
  std::vector<std::unique_ptr<component::Service>> services(storage::Listener& listener) override;

  Events events;

 private:
  storage::Database& database_;
  const WorkerOptions worker_;
  const bool durable_positions_;
  const Logger log_;
  const Metrics metrics_;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::event
