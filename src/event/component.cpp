#include "event/component.hpp"

#include "event/registrations.hpp"
#include "event/stamper.hpp"
#include "event/subscription_keeper.hpp"
#include "event/subscription_runner.hpp"
#include "outbox/component.hpp"

namespace dovetail::event {

Component::Component(const component::Environment& environment)
    : events(environment.database, environment.others.get<outbox::Component>().outbox,
             environment.options.events, environment.log, environment.metrics),
      database_(environment.database),
      worker_(environment.options.worker),
      durable_positions_(environment.options.events.durable_positions),
      log_(environment.log),
      metrics_(environment.metrics) {}

/// The keeper comes first: services are stopped in the reverse order, and it renews leases until
/// the handlers have ended.
std::vector<std::unique_ptr<component::Service>> Component::services(storage::Listener& listener) {
  std::vector<std::unique_ptr<component::Service>> services;
  const auto registrations = events.subscriptions().registrations().close();
  if (registrations.empty()) return services;
  const auto scope = std::make_shared<Scope>(
      Scope{database_, listener, worker_, durable_positions_, log_, metrics_});
  const auto holdings = std::make_shared<Holdings>();
  services.push_back(std::make_unique<SubscriptionKeeper>(scope, holdings));
  services.push_back(std::make_unique<Stamper>(scope));
  for (const auto& registration : registrations) {
    const auto creator = std::make_shared<SubscriptionCreator>(scope, registration);
    for (int part = 0; part < registration->options.parts; ++part) {
      services.push_back(std::make_unique<SubscriptionRunner>(scope, holdings, creator, part));
    }
  }
  return services;
}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::event
