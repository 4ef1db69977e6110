#include "join/component.hpp"

#include <optional>

#include "component/stepped_service.hpp"
#include "join/wait_handler.hpp"
#include "outbox/component.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::join {
namespace {

/// The component owns the CatchUp, because handlers report waiting messages to it at any time.
class CatchUpService final : public component::SteppedService {
 public:
  CatchUpService(storage::Database& database, CatchUp& catch_up)
      : SteppedService(database.clock()), database_(database), catch_up_(catch_up) {}
  CatchUpService(const CatchUpService&) = delete;
  CatchUpService& operator=(const CatchUpService&) = delete;
  ~CatchUpService() override { CatchUpService::stop(MonoTime{}); }

  [[nodiscard]] std::string name() const override { return "joins"; }
  [[nodiscard]] std::size_t connections() const override { return 1; }
  MonoTime step(const std::stop_token& stop) override { return catch_up_.step(stop); }
  [[nodiscard]] component::ServiceHealth health() const override { return catch_up_.health(); }

 private:
  void subscribe() override {
    catch_up_.tell([this](MonoTime at) { wake_by(at); });
    bell_.emplace(database_.bell(storage::queue_names::joins),
                  [this] { catch_up_.note_uncounted(); });
  }
  void unsubscribe() override {
    bell_.reset();
    catch_up_.tell({});
  }

  storage::Database& database_;
  CatchUp& catch_up_;
  std::optional<storage::Doorbell::Subscription> bell_;
};

}  // namespace

Component::Component(const component::Environment& environment)
    : joins(environment.database, environment.others.get<outbox::Component>().outbox,
            environment.options.joins, environment.log, environment.metrics),
      database_(environment.database),
      outbox_(environment.others.get<outbox::Component>().outbox),
      log_(environment.log),
      metrics_(environment.metrics),
      catch_up_(environment.database, environment.log, environment.metrics) {}

std::vector<component::Chore> Component::chores() {
  return {{"joins.overdue", [this](const std::stop_token& stop) { joins.fail_overdue(stop); }},
          {"joins.catch_up", [this](const std::stop_token& stop) { catch_up_.run_once(stop); }},
          {"joins.purge", [this](const std::stop_token& stop) {
             const auto age = joins.options().retain_finished;
             if (age.count() > 0) joins.purge(age, stop);
           }}};
}

std::vector<std::unique_ptr<component::Service>> Component::services(
    storage::Listener& /*listener*/) {
  std::vector<std::unique_ptr<component::Service>> services;
  services.push_back(std::make_unique<CatchUpService>(database_, catch_up_));
  return services;
}

std::vector<std::shared_ptr<Handler>> Component::handlers() {
  return {std::make_shared<WaitHandler>(database_, outbox_, joins.options(), log_, metrics_,
                                        [this] { catch_up_.note_waiting(); })};
}

std::unique_ptr<component::Component> make_component(const component::Environment& environment) {
  return std::make_unique<Component>(environment);
}

}  // namespace dovetail::join
