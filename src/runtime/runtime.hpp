// The handlers, the worker pool and the services of one node: what a Platform starts and stops.
//
// Start order: instance, listener, components, housekeeper, dispatchers. Stop: every service is
// asked to stop; then each is waited for, the dispatchers first, so that handlers have the whole
// deadline. The instance keeps its row until the last handler has ended.
//
// Threads: from any.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "dovetail/platform.hpp"
#include "runtime/node_handlers.hpp"
#include "runtime/worker_pool.hpp"

namespace dovetail::runtime {

class Runtime {
 public:
  explicit Runtime(Node& node);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  /// Stops without patience, and waits for handlers for as long as they take.
  ~Runtime();

  // These throw InvalidOperation after start().
  void add_handler(std::string_view queue, std::string_view topic, HandlerFunction function,
                   HandlerOptions options);
  void add_fallback(std::string_view queue, HandlerFunction function, HandlerOptions options);

  /// Either everything is started, or nothing is left running.
  void start();
  /// Answers whether all handlers have ended.
  bool stop(std::optional<std::chrono::milliseconds> deadline);

 private:
  using Services = std::vector<std::unique_ptr<component::Service>>;

  /// Under the start mutex. Throws InvalidOperation when it was started.
  [[nodiscard]] NodeHandlers& handlers();
  [[nodiscard]] Services make_services(WorkerPool& pool);
  void end_handlers();

  Node& node_;
  const PlatformOptions& options_;
  NodeHandlers handlers_;
  std::mutex stop_mutex_;   // taken before the other
  std::mutex start_mutex_;  // guards the handlers until the start, and the next two
  std::unique_ptr<WorkerPool> pool_;
  Services services_;
};

}  // namespace dovetail::runtime
