#include "runtime/runtime.hpp"

#include <algorithm>
#include <thread>

#include "dovetail/error.hpp"
#include "runtime/dispatcher.hpp"
#include "runtime/housekeeper.hpp"
#include "runtime/instance.hpp"
#include "runtime/queue_source.hpp"

namespace dovetail::runtime {

Runtime::Runtime(std::unique_ptr<storage::Database> database, PlatformOptions options)
    : options_(std::move(options)),
      log_(options_.log_sink),
      metrics_(options_.metrics),
      node_(std::make_unique<Node>(std::move(database), options_, log_, metrics_)) {
  for (const auto& queue : node_->queues()) {
    if (!queue.has_handlers) continue;
    handlers_.try_emplace(queue.queue->name(), queue.queue->options().max_attempts);
  }
  add_component_handlers();
}

Runtime::~Runtime() {
  stop(std::chrono::milliseconds{0});
  end_handlers();
  while (!services_.empty()) services_.pop_back();  // in the reverse order of their start
}

// --- handlers

void Runtime::add_component_handlers() {
  for (const auto& component : node_->components()) {
    component->accept_handlers(
        [this](std::string_view topic, HandlerFunction function, HandlerOptions options) {
          add_handler("outbox", topic, std::move(function), std::move(options));
        });
    for (auto& handler : component->handlers()) {
      const auto topic = handler->topic();
      auto options = handler->options();
      add_handler(
          "outbox", topic,
          [handler = std::move(handler)](const Message& message, HandlerContext& context) {
            handler->handle(message, context);
          },
          std::move(options));
    }
  }
}

HandlerRegistry& Runtime::registry(std::string_view queue) {
  if (pool_) throw InvalidOperation("the platform has been started: register handlers before");
  return handlers_.find(queue)->second;
}

HandlerFunction Runtime::wrapped(std::string_view queue, HandlerFunction function) {
  if (queue != "outbox") return function;
  for (const auto& component : node_->components()) {
    function = component->around(std::move(function));
  }
  return function;
}

void Runtime::add_handler(std::string_view queue, std::string_view topic, HandlerFunction function,
                          HandlerOptions options) {
  process_.require();
  const std::lock_guard lock(start_mutex_);
  registry(queue).add(topic, wrapped(queue, std::move(function)), std::move(options));
}

void Runtime::add_fallback(std::string_view queue, HandlerFunction function,
                           HandlerOptions options) {
  process_.require();
  const std::lock_guard lock(start_mutex_);
  registry(queue).add_fallback(wrapped(queue, std::move(function)), std::move(options));
}

// --- start

int Runtime::threads() const {
  if (options_.worker.threads != 0) return options_.worker.threads;
  const auto cores = std::max(4, static_cast<int>(std::thread::hardware_concurrency()));
  return std::clamp(static_cast<int>(options_.max_connections) - 1, 1, cores);
}

std::unique_ptr<component::Service> Runtime::make_dispatcher(const component::Queue& queue,
                                                             WorkerPool& pool) {
  QueueScope scope{.database = node_->database(),
                   .consumer = *queue.consumer,
                   .prefix = queue.queue->name() + ".",
                   .owner = OwnerToken::generate(),
                   .keep_done = queue.queue->options().retain_done.count() > 0,
                   .log = log_,
                   .metrics = metrics_};
  auto source = std::make_unique<QueueSource>(scope);
  return std::make_unique<Dispatcher>(std::move(scope), std::move(source),
                                      handlers_.find(queue.queue->name())->second, options_.worker,
                                      pool, node_->listener());
}

/// This process in the table of instances, with the queues that it works on.
std::unique_ptr<component::Service> Runtime::make_instance() {
  std::vector<InstanceQueue> worked;
  for (const auto& queue : node_->queues()) {
    if (!queue.has_handlers) continue;
    const auto& handlers = handlers_.find(queue.queue->name())->second;
    if (handlers.empty()) continue;
    worked.push_back({queue.queue->name(), handlers.topics(), handlers.handles_all()});
  }
  return std::make_unique<Instance>(node_->database(), worked, InstanceOptions{}, log_, metrics_);
}

Runtime::Services Runtime::make_services(WorkerPool& pool) {
  auto services = node_->services();
  services.insert(services.begin(), make_instance());
  services.push_back(std::make_unique<Housekeeper>(node_->database(), node_->chores(),
                                                   options_.worker.lease, log_, metrics_));
  for (const auto& queue : node_->queues()) {
    if (!queue.has_handlers || handlers_.find(queue.queue->name())->second.empty()) continue;
    services.push_back(make_dispatcher(queue, pool));
  }
  return services;
}

void Runtime::start() {
  process_.require();
  const std::lock_guard lock(start_mutex_);
  if (pool_) throw InvalidOperation("the platform has been started before");
  for (const auto& component : node_->components()) component->check_start();
  auto pool = std::make_unique<WorkerPool>(threads(), log_);
  auto services = make_services(*pool);
  try {
    pool->start();
    for (const auto& service : services) service->start();
  } catch (...) {  // no more threads
    pool->close();
    for (auto each = services.rbegin(); each != services.rend(); ++each) {
      (*each)->stop(MonoTime::min());
    }
    pool->join();
    throw;
  }
  services_ = std::move(services);
  pool_ = std::move(pool);
}

// --- stop

bool Runtime::stop(std::optional<std::chrono::milliseconds> deadline) {
  constexpr std::chrono::milliseconds longest = std::chrono::hours{24 * 365};
  process_.require();
  const std::lock_guard one_at_a_time(stop_mutex_);
  {
    const std::lock_guard lock(start_mutex_);
    if (!pool_) return true;
  }
  const auto patience =
      std::clamp(deadline.value_or(options_.worker.drain), std::chrono::milliseconds{0}, longest);
  const MonoTime until = node_->database().clock().mono() + patience;
  for (const auto& service : services_) service->request_stop();
  bool ended = true;
  for (auto service = services_.rbegin(); service != services_.rend(); ++service) {
    if (!ended && (*service)->outlives_handlers()) continue;
    ended = (*service)->stop(until) && ended;
  }
  if (ended) end_handlers();
  return ended;
}

void Runtime::end_handlers() {
  if (!pool_) return;
  pool_->close();
  pool_->join();
  for (const auto& service : services_) service->finish();
}

MetricsSnapshot Runtime::metrics() const {
  const auto* registry = dynamic_cast<const MetricsRegistry*>(options_.metrics.get());
  return registry != nullptr ? registry->snapshot() : MetricsSnapshot{};
}

}  // namespace dovetail::runtime
