// Makes the services that work on the queues of a node.
#pragma once

#include <memory>
#include <vector>

#include "runtime/dispatcher.hpp"
#include "runtime/instance.hpp"
#include "runtime/node_handlers.hpp"

namespace dovetail::runtime {

/// The number of threads that call handlers.
[[nodiscard]] int worker_threads(const PlatformOptions& options);

/// The queues that have handlers.
[[nodiscard]] std::vector<component::Queue> worked_queues(Node& node, const NodeHandlers& handlers);

/// A scope with a new owner.
[[nodiscard]] QueueScope queue_scope(Node& node, const component::Queue& queue);

[[nodiscard]] std::unique_ptr<Dispatcher> make_dispatcher(Node& node, const component::Queue& queue,
                                                          const NodeHandlers& handlers,
                                                          WorkerPool& pool);

/// This process in the table of instances, with the queues that it works on.
[[nodiscard]] std::unique_ptr<Instance> make_instance(Node& node, const NodeHandlers& handlers,
                                                      InstanceOptions options);

}  // namespace dovetail::runtime
