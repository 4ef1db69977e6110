#include "runtime/node.hpp"

#include <algorithm>

#include "dovetail/version.hpp"
#include "runtime/components.hpp"
#include "runtime/housekeeper.hpp"

namespace dovetail::runtime {
namespace {

/// The listener belongs to the node, because components subscribe to it before the start.
class ListenerService final : public component::Service {
 public:
  explicit ListenerService(storage::Listener& listener) : listener_(listener) {}
  ListenerService(const ListenerService&) = delete;
  ListenerService& operator=(const ListenerService&) = delete;
  ~ListenerService() override { listener_.stop(); }

  [[nodiscard]] std::string name() const override { return "listener"; }
  /// Its connection is not one of the pool: see connections.hpp.
  [[nodiscard]] std::size_t connections() const override { return 0; }
  void start() override { listener_.start(); }
  void request_stop() override { listener_.request_stop(); }
  bool stop(MonoTime /*deadline*/) override {
    listener_.stop();
    return true;
  }
  [[nodiscard]] component::ServiceHealth health() const override {
    return {.running = listener_.hears_others()};
  }

 private:
  storage::Listener& listener_;
};

/// Services of components have no fetchers.
void require_declared(const std::vector<std::unique_ptr<component::Service>>& services,
                      const std::vector<component::ConnectionUse>& declared) {
  std::size_t left = 0;
  for (const auto& use : declared) left += use.connections;
  for (const auto& service : services) {
    if (service->connections() > left) {
      throw std::logic_error("the component of the service " + service->name() +
                             " does not declare its connections");
    }
    left -= service->connections();
  }
}

PlatformOptions with_trace_sinks(PlatformOptions options) {
  for (auto* queue : {&options.outbox, &options.inbox.queue, &options.schedule.timers}) {
    if (queue->trace_sink == nullptr) queue->trace_sink = options.trace_sink.get();
  }
  return options;
}

std::shared_ptr<history::Collector> collector_for(const PlatformOptions& options) {
  if (!options.history.enabled) return nullptr;
  return std::make_shared<history::Collector>(options.metrics,
                                              options.clock ? options.clock : system_clock());
}

}  // namespace

Node::Node(std::unique_ptr<storage::Database> database, PlatformOptions options)
    : options_(with_trace_sinks(std::move(options))),
      log_(options_.log_sink),
      collector_(collector_for(options_)),
      metrics_(collector_ ? std::shared_ptr<MetricsSink>{collector_} : options_.metrics),
      database_(std::move(database)),
      clock_check_(*database_, log_, metrics_),
      listener_(*database_, log_) {
  const component::Environment environment{*database_, options_, log_, metrics_, components_};
  for (const auto& each : registered_components()) components_.add(each.make(environment));
  metrics_.gauge("dovetail_build_info", 1, {{"store", database_->name()}, {"version", version()}});
  get<history::Component>().collect_from(collector_);
}

std::vector<component::Queue> Node::queues() {
  std::vector<component::Queue> all;
  for (const auto& component : components_.all()) {
    std::ranges::copy(component->queues(), std::back_inserter(all));
  }
  return all;
}

std::vector<component::Chore> Node::chores() {
  std::vector<component::Chore> all;
  for (const auto& component : components_.all()) {
    for (const auto& queue : component->queues()) {
      std::ranges::move(queue_chores(*database_, queue), std::back_inserter(all));
    }
    std::ranges::move(component->chores(), std::back_inserter(all));
  }
  all.push_back({"clock", [this](const std::stop_token& stop) {
                   clock_check_.run({.service = true, .stop = stop});
                 }});
  return all;
}

std::unique_ptr<component::Service> Node::listener_service() {
  return std::make_unique<ListenerService>(listener_);
}

std::vector<std::unique_ptr<component::Service>> Node::component_services() {
  std::vector<std::unique_ptr<component::Service>> all;
  auto registration = registered_components().begin();  // in the order of the components
  for (const auto& component : components_.all()) {
    auto services = component->services(listener_);
    require_declared(services, (registration++)->connections());
    std::ranges::move(services, std::back_inserter(all));
  }
  return all;
}

}  // namespace dovetail::runtime
