#include "lease/component.hpp"

namespace dovetail::lease {
namespace {

constexpr std::chrono::hours expired_leases_kept{1};

}  // namespace

Component::Component(const component::Environment& environment)
    : leases(environment.database, environment.log, environment.metrics) {}

std::vector<component::Chore> Component::chores() {
  return {{"leases.purge",
           [this](const std::stop_token& stop) { leases.purge(expired_leases_kept, stop); }}};
}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::lease
