// Nodes, handlers, one worker pool, and the services of a process: what a Platform starts and
// stops.
//
// Start order: instance, listener, components, housekeeper, dispatchers. Stop: every service is
// asked to stop; then each is waited for, the dispatchers first, so that handlers have the whole
// deadline. The instance keeps its row until the last handler has ended.
//
// Threads: from any.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/owner_process.hpp"
#include "dovetail/platform.hpp"
#include "runtime/handler_registry.hpp"
#include "runtime/node.hpp"
#include "runtime/worker_pool.hpp"

namespace dovetail::runtime {

class Runtime {
 public:
  Runtime(std::unique_ptr<storage::Database> database, PlatformOptions options);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  /// Stops without patience, and waits for handlers for as long as they take.
  ~Runtime();

  [[nodiscard]] Node& node() { return *node_; }
  [[nodiscard]] const core::OwnerProcess& process() const { return process_; }

  // These throw InvalidOperation after start().
  void add_handler(std::string_view queue, std::string_view topic, HandlerFunction function,
                   HandlerOptions options);
  void add_fallback(std::string_view queue, HandlerFunction function, HandlerOptions options);

  /// Either everything is started, or nothing is left running.
  void start();
  /// Answers whether all handlers have ended.
  bool stop(std::optional<std::chrono::milliseconds> deadline);

  /// Empty when the user's sink is not a MetricsRegistry.
  [[nodiscard]] MetricsSnapshot metrics() const;

 private:
  using Services = std::vector<std::unique_ptr<component::Service>>;

  /// Under the start mutex. Throws InvalidOperation when it was started.
  [[nodiscard]] HandlerRegistry& registry(std::string_view queue);
  [[nodiscard]] HandlerFunction wrapped(std::string_view queue, HandlerFunction function);
  void add_component_handlers();
  [[nodiscard]] int threads() const;
  [[nodiscard]] Services make_services(WorkerPool& pool);
  [[nodiscard]] std::unique_ptr<component::Service> make_dispatcher(const component::Queue& queue,
                                                                    WorkerPool& pool);
  [[nodiscard]] std::unique_ptr<component::Service> make_instance();
  void end_handlers();

  const PlatformOptions options_;
  const Logger log_;
  const Metrics metrics_;
  const core::OwnerProcess process_;
  std::unique_ptr<Node> node_;
  std::map<std::string, HandlerRegistry, std::less<>> handlers_;  // by queue
  std::mutex stop_mutex_;                                         // taken before the other
  std::mutex start_mutex_;  // guards the handlers until the start, and the next two
  std::unique_ptr<WorkerPool> pool_;
  Services services_;
};

}  // namespace dovetail::runtime
