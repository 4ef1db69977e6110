#include "outbox/component.hpp"

namespace dovetail::outbox {

Component::Component(const component::Environment& environment)
    : outbox(environment.database, environment.options.outbox, environment.log,
             environment.metrics),
      database_(environment.database) {}

std::vector<component::Queue> Component::queues() {
  return {{.queue = &outbox,
           .consumer = &database_.queue(storage::queue_names::outbox).consumer,
           .has_handlers = true}};
}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::outbox
