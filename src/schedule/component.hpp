// Timers and jobs as the runtime sees them.
#pragma once

#include "component/component.hpp"
#include "dovetail/schedule.hpp"

namespace dovetail::schedule {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  static std::vector<component::ConnectionUse> connections() {
    return {{.service = "scheduler"}, {.service = "jobs: starts of runs"}};
  }
  std::vector<component::Queue> queues() override;
  std::vector<component::Chore> chores() override;
  std::vector<std::unique_ptr<component::Service>> services(storage::Listener& listener) override;
  /// Wraps a handler. For the message of a job's run, it stores the start of the run first.
  HandlerFunction around(HandlerFunction function) override;
  void check_start(const std::stop_token& stop) override { jobs.require_zones(stop); }

  Timers timers;
  Jobs jobs;

 private:
  void note_started(JobRunId run);

  storage::Database& database_;
  const WorkerOptions worker_;
  const Logger log_;
  const Metrics metrics_;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::schedule
