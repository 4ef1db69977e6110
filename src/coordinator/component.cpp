#include "coordinator/component.hpp"

#include "inbox/component.hpp"
#include "outbox/component.hpp"

namespace dovetail::coordinator {

Component::Component(const component::Environment& environment)
    : batches(environment.database, environment.others.get<outbox::Component>().outbox,
              environment.others.get<inbox::Component>().inbox, environment.log,
              environment.metrics) {}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::coordinator
