#include "runtime/runtime.hpp"

#include <algorithm>

#include "component/connects.hpp"
#include "component/renews.hpp"
#include "core/topic_pattern.hpp"
#include "dovetail/error.hpp"
#include "runtime/housekeeper.hpp"
#include "runtime/node_services.hpp"

namespace dovetail::runtime {
namespace {

/// The time after the deadline of stop() in which services store the results of the last handlers.
constexpr std::chrono::milliseconds late_settling_time{500};

}  // namespace

Runtime::Runtime(Node& node)
    : node_(node),
      options_(node.options()),
      handlers_(node),
      supervisor_(node.database().clock(), node.metrics(), node.database().name()) {
  for (const auto& component : node_.components()) {
    component->accept_handlers(
        [this](std::string_view topic, HandlerFunction function, HandlerOptions options) {
          add_handler("outbox", topic, std::move(function), std::move(options));
        });
  }
}

Runtime::~Runtime() {
  stop(std::chrono::milliseconds{0});
  end_handlers();
  end_supervision();
  while (!services_.empty()) services_.pop_back();  // in the reverse order of their start
}

// --- handlers

NodeHandlers& Runtime::handlers() {
  if (pool_) throw InvalidOperation("the platform has been started: register handlers before");
  return handlers_;
}

void Runtime::add_handler(std::string_view queue, std::string_view topic, HandlerFunction function,
                          HandlerOptions options) {
  node_.process().require();
  const std::lock_guard lock(start_mutex_);
  handlers().add(queue, topic, std::move(function), std::move(options));
  state_ = RunState::prepared;
}

void Runtime::add_fallback(std::string_view queue, HandlerFunction function,
                           HandlerOptions options) {
  node_.process().require();
  const std::lock_guard lock(start_mutex_);
  handlers().add_fallback(queue, std::move(function), std::move(options));
  state_ = RunState::prepared;
}

void Runtime::add_service(const std::string& name, MakeService make) {
  node_.process().require();
  const std::lock_guard lock(start_mutex_);
  static_cast<void>(handlers());
  if (std::ranges::find(added_, name, &std::pair<std::string, MakeService>::first) !=
      added_.end()) {
    throw InvalidOperation("there is a service " + name + " already");
  }
  added_.emplace_back(name, std::move(make));
  state_ = RunState::prepared;
}

void Runtime::add_route(std::string_view pattern, MakeService make) {
  node_.process().require();
  const std::lock_guard lock(start_mutex_);
  if (options_.worker.unknown_topics == UnknownTopics::abandon && !core::is_exact(pattern)) {
    throw InvalidOperation("a route with a pattern and UnknownTopics::abandon exclude each other");
  }
  handlers().add_route(pattern);
  added_.emplace_back("publish " + std::string{pattern}, std::move(make));
  state_ = RunState::prepared;
}

// --- start

Runtime::Services Runtime::make_services(WorkerPool& pool) {
  auto services = node_.component_services();
  services.insert(services.begin(), node_.listener_service());
  services.insert(services.begin(), make_instance(node_, handlers_, {}));
  services.push_back(std::make_unique<Housekeeper>(
      node_.database(), node_.chores(), options_.worker.lease, node_.logger(), node_.metrics()));
  for (const auto& queue : worked_queues(node_, handlers_)) {
    services.push_back(make_dispatcher(node_, queue, handlers_, pool));
  }
  for (const auto& [name, make] : added_) {
    services.push_back(make(node_, handlers_));
    node_.database().add_service_connections(services.back()->connections());
  }
  return services;
}

void Runtime::start() {
  node_.process().require();
  if (options_.read_only)
    throw InvalidOperation("the platform is open for reading only: it cannot be started");
  const std::lock_guard lock(start_mutex_);
  if (pool_) throw InvalidOperation("the platform has been started before");
  const auto before = state_.exchange(RunState::starting);
  try {
    start_services();
  } catch (...) {
    state_ = before;
    throw;
  }
  supervise();
  state_ = RunState::running;
}

void Runtime::start_services() {
  for (const auto& component : node_.components()) component->check_start({});
  auto pool = std::make_unique<WorkerPool>(worker_threads(options_), node_.logger());
  auto services = make_services(*pool);
  try {
    supervisor_.start();
    pool->start();
    for (const auto& service : services) service->start();
  } catch (...) {  // no more threads
    pool->close();
    for (auto each = services.rbegin(); each != services.rend(); ++each) {
      (*each)->stop(MonoTime::min());
    }
    pool->join();
    supervisor_.stop();
    throw;
  }
  services_ = std::move(services);
  pool_ = std::move(pool);
}

void Runtime::supervise() {
  std::vector<component::Loop> loops;
  const std::lock_guard lock(health_mutex_);
  for (const auto& service : services_) {
    watched_.push_back(service.get());
    std::ranges::move(service->loops(), std::back_inserter(loops));
  }
  supervisor_.watch(std::move(loops));
}

void Runtime::end_supervision() {
  supervisor_.stop();
  const std::lock_guard lock(health_mutex_);
  watched_.clear();
}

// --- stop

bool Runtime::stop(std::optional<std::chrono::milliseconds> deadline) {
  constexpr std::chrono::milliseconds longest = std::chrono::hours{24 * 365};
  node_.process().require();
  const std::lock_guard one_at_a_time(stop_mutex_);
  {
    const std::lock_guard lock(start_mutex_);
    if (!pool_) return true;
  }
  const auto patience =
      std::clamp(deadline.value_or(options_.worker.drain), std::chrono::milliseconds{0}, longest);
  const MonoTime until = node_.database().clock().mono() + patience;
  if (state_ == RunState::running) state_ = RunState::stopping;
  for (const auto& service : services_) service->request_stop();
  const auto timer = cut_off_at(until + late_settling_time);
  bool ended = true;
  for (auto service = services_.rbegin(); service != services_.rend(); ++service) {
    if (!ended && (*service)->outlives_handlers()) continue;
    ended = (*service)->stop(until) && ended;
  }
  if (!ended) return false;
  end_handlers();
  state_ = RunState::stopped;
  end_supervision();
  return true;
}

std::vector<NamedHealth> Runtime::health() const {
  std::vector<NamedHealth> all;
  const std::lock_guard lock(health_mutex_);
  for (const auto* service : watched_) {
    all.push_back({service->name(), service->health(), service->is_essential()});
    if (const auto* renews = dynamic_cast<const component::Renews*>(service)) {
      all.back().renewals = renews->renewals();
    }
    if (const auto* connects = dynamic_cast<const component::Connects*>(service)) {
      all.back().connects = true;
      all.back().outage = connects->outage();
    }
  }
  return all;
}

void Runtime::visit(const std::function<void(const component::Service& service)>& visit) const {
  const std::lock_guard lock(health_mutex_);
  for (const auto* service : watched_) visit(*service);
}

/// One time limit for all services: a database that does not answer delays stop() once, not once
/// per service. GCC 12 warns of a jthread on the stack.
std::unique_ptr<std::jthread> Runtime::cut_off_at(MonoTime time) const {
  return std::make_unique<std::jthread>([this, time](const std::stop_token& done) {
    if (!node_.database().clock().sleep_until(time, done)) return;
    for (const auto& service : services_) service->cut_off();
  });
}

void Runtime::end_handlers() {
  if (!pool_) return;
  pool_->close();
  pool_->join();
  for (const auto& service : services_) service->finish();
}

}  // namespace dovetail::runtime
