#include "schedule/component.hpp"

#include "outbox/component.hpp"
#include "schedule/scheduler.hpp"

namespace dovetail::schedule {

Component::Component(const component::Environment& environment)
    : timers(environment.database, environment.options.schedule.timers, environment.log,
             environment.metrics),
      jobs(environment.database, environment.others.get<outbox::Component>().outbox,
           environment.options.schedule, environment.log, environment.metrics),
      database_(environment.database),
      worker_(environment.options.worker),
      log_(environment.log),
      metrics_(environment.metrics) {}

std::vector<component::Queue> Component::queues() {
  return {{.queue = &timers.queue(),
           .consumer = &database_.queue(storage::queue_names::timers).consumer}};
}

std::vector<component::Chore> Component::chores() {
  return {{"jobs.purge_runs", [this](const std::stop_token& stop) {
             jobs.purge_runs(jobs.options().retain_runs, stop);
           }}};
}

std::vector<std::unique_ptr<component::Service>> Component::services(storage::Listener& listener) {
  std::vector<std::unique_ptr<component::Service>> services;
  services.push_back(
      std::make_unique<Scheduler>(database_, timers, jobs, listener, worker_, log_, metrics_));
  return services;
}

HandlerFunction Component::around(HandlerFunction function) {
  if (!function) return {};
  return [this, function = std::move(function)](const Message& message, HandlerContext& context) {
    if (const auto run = Jobs::run_of(message)) note_started(*run);
    function(message, context);
  };
}

/// The start of a run is only information. A failure to store it does not fail the run.
void Component::note_started(JobRunId run) {
  try {
    jobs.note_started(run);
  } catch (const std::exception& error) {
    log_.write(LogLevel::warn, "jobs.start_not_noted",
               {{"store", database_.name()}, {"run_id", run.to_string()}, {"error", error.what()}});
  }
}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::schedule
