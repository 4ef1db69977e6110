#include "instance/component.hpp"

namespace dovetail::instance {
namespace {

constexpr std::chrono::hours stale_instances_kept{1};

}  // namespace

Component::Component(const component::Environment& environment) : instances(environment.database) {}

std::vector<component::Chore> Component::chores() {
  return {{"instances.purge",
           [this](const std::stop_token& stop) { instances.purge(stale_instances_kept, stop); }}};
}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::instance
