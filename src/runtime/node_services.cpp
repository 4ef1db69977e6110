#include "runtime/node_services.hpp"

#include <algorithm>
#include <thread>

#include "core/topic_pattern.hpp"
#include "runtime/queue_source.hpp"

namespace dovetail::runtime {
namespace {

/// With the topics that routes publish.
InstanceQueue instance_queue(const std::string& name, const HandlerRegistry& registry) {
  InstanceQueue queue{name, registry.topics(), registry.handles_all()};
  for (const auto& route : registry.routes()) {
    (core::is_exact(route) ? queue.topics : queue.patterns).push_back(route);
  }
  std::ranges::sort(queue.topics);
  return queue;
}

}  // namespace

int worker_threads(const PlatformOptions& options) {
  if (options.worker.threads != 0) return options.worker.threads;
  const auto cores = std::max(4, static_cast<int>(std::thread::hardware_concurrency()));
  return std::clamp(static_cast<int>(options.max_connections) - 1, 1, cores);
}

std::vector<component::Queue> worked_queues(Node& node, const NodeHandlers& handlers) {
  auto queues = node.queues();
  std::erase_if(queues, [&](const component::Queue& queue) {
    return !queue.has_handlers || handlers.of(queue.queue->name()).empty();
  });
  return queues;
}

QueueScope queue_scope(Node& node, const component::Queue& queue) {
  return {.database = node.database(),
          .consumer = *queue.consumer,
          .prefix = queue.queue->name() + ".",
          .owner = OwnerToken::generate(),
          .keep_done = queue.queue->options().retain_done.count() > 0,
          .log = node.logger(),
          .metrics = node.metrics(),
          .trace_sink = queue.queue->options().trace_sink};
}

std::unique_ptr<Dispatcher> make_dispatcher(Node& node, const component::Queue& queue,
                                            const NodeHandlers& handlers, WorkerPool& pool) {
  auto scope = queue_scope(node, queue);
  auto source = std::make_unique<QueueSource>(scope);
  return std::make_unique<Dispatcher>(std::move(scope), std::move(source),
                                      handlers.of(queue.queue->name()), node.options().worker, pool,
                                      node.listener());
}

std::unique_ptr<Instance> make_instance(Node& node, const NodeHandlers& handlers,
                                        InstanceOptions options) {
  std::vector<InstanceQueue> worked;
  for (const auto& queue : worked_queues(node, handlers)) {
    const auto& registry = handlers.of(queue.queue->name());
    worked.push_back(instance_queue(queue.queue->name(), registry));
  }
  return std::make_unique<Instance>(node.database(), worked, options, node.logger(),
                                    node.metrics());
}

}  // namespace dovetail::runtime
