#include "operation/component.hpp"

namespace dovetail::operation {
namespace {

constexpr std::chrono::hours audit_kept{24 * 90};
constexpr std::chrono::hours replays_kept{24 * 30};
constexpr std::chrono::minutes purge_interval{10};

}  // namespace

Component::Component(const component::Environment& environment)
    : audit(environment.database), replays(environment.database, environment.log) {}

std::vector<component::Chore> Component::chores() {
  return {{.name = "audit.purge",
           .run = [this](const std::stop_token& stop) { audit.purge(audit_kept, stop); },
           .interval = purge_interval},
          {.name = "replays.purge",
           .run = [this](const std::stop_token& stop) { replays.purge(replays_kept, stop); },
           .interval = purge_interval}};
}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::operation
