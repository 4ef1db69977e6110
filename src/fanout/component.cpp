#include "fanout/component.hpp"

#include "join/component.hpp"
#include "lease/component.hpp"
#include "outbox/component.hpp"
#include "schedule/component.hpp"

namespace dovetail::fanout {

Component::Component(const component::Environment& environment)
    : fanout(environment.database, environment.others.get<outbox::Component>().outbox,
             environment.others.get<join::Component>().joins,
             environment.others.get<lease::Component>().leases,
             environment.others.get<schedule::Component>().jobs, environment.log,
             environment.metrics) {}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::fanout
