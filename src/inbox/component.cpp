#include "inbox/component.hpp"

namespace dovetail::inbox {
namespace {

constexpr int most_stuck = 1'000;  // counted at once

}  // namespace

Component::Component(const component::Environment& environment)
    : inbox(environment.database, environment.options.inbox, environment.log, environment.metrics),
      database_(environment.database),
      log_(environment.log),
      metrics_(environment.metrics) {}

std::vector<component::Queue> Component::queues() {
  return {{.queue = &inbox.queue(),
           .consumer = &database_.queue(storage::queue_names::inbox).consumer,
           .has_handlers = true}};
}

std::vector<component::Chore> Component::chores() {
  return {{"inbox.purge",
           [this](const std::stop_token& stop) { inbox.purge(inbox.options().remember, stop); }},
          {"inbox.stuck", [this](const std::stop_token& stop) { warn_of_stuck(stop); }}};
}

void Component::warn_of_stuck(const std::stop_token& stop) {
  const auto stuck = inbox.stuck(inbox.options().stuck_after, most_stuck, stop);
  metrics_.count("dovetail_inbox_stuck_total", stuck.size(), {{"store", database_.name()}});
  if (stuck.empty()) return;
  log_.write(LogLevel::warn, "inbox.stuck",
             {{"store", database_.name()},
              {"count", stuck.size()},
              {"source", stuck.front().source},
              {"message_id", stuck.front().message_id}});
}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::inbox
