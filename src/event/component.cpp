#include "event/component.hpp"

#include "outbox/component.hpp"

namespace dovetail::event {

Component::Component(const component::Environment& environment)
    : events(environment.database, environment.others.get<outbox::Component>().outbox,
             environment.options.events, environment.log, environment.metrics) {}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::event
