// The handlers, the worker pool and the services of one node. A Platform starts and stops them.
//
// Start order: instance, listener, components, housekeeper, dispatchers, added services. Stop:
// every service gets a stop request. Then stop() waits for each service, the dispatchers first, so
// that handlers have the whole deadline. Shortly after the deadline, the I/O of all services is cut
// off at once. The instance keeps its row until the last handler has ended.
//
// Threads: from any.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dovetail/platform.hpp"
#include "runtime/node_handlers.hpp"
#include "runtime/run_state.hpp"
#include "runtime/supervisor.hpp"
#include "runtime/worker_pool.hpp"

namespace dovetail::runtime {

/// The health of a service, under its name.
struct NamedHealth {
  std::string name;
  component::ServiceHealth health;
  bool essential = false;                              ///< See Service::is_essential().
  std::optional<component::ServiceHealth> renewals{};  ///< Of a service that renews leases.
  bool connects = false;                               ///< See component::Connects.
  std::optional<std::string> outage{};                 ///< Of a service that connects.
};

class Runtime {
 public:
  explicit Runtime(Node& node);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  /// Stops with a deadline of zero, and waits without limit for the handlers.
  ~Runtime();

  // These throw InvalidOperation after start().
  void add_handler(std::string_view queue, std::string_view topic, HandlerFunction function,
                   HandlerOptions options);
  void add_fallback(std::string_view queue, HandlerFunction function, HandlerOptions options);

  /// Makes a service of each start. The handlers live as long as the service.
  using MakeService =
      std::function<std::unique_ptr<component::Service>(Node& node, const NodeHandlers& handlers)>;
  /// Throws InvalidOperation if a service of this name was added before.
  void add_service(const std::string& name, MakeService make);
  /// The same, for a service that publishes topics of the outbox; see HandlerRegistry::add_route().
  void add_route(std::string_view pattern, MakeService make);

  /// Starts everything, or throws and leaves nothing running.
  void start();
  /// Returns whether all handlers have ended.
  bool stop(std::optional<std::chrono::milliseconds> deadline);

  // These do not wait for start() or stop().

  [[nodiscard]] RunState state() const { return state_; }
  [[nodiscard]] const Supervisor& supervisor() const { return supervisor_; }
  /// The health of the started services.
  [[nodiscard]] std::vector<NamedHealth> health() const;
  /// Calls `visit` with each started service.
  void visit(const std::function<void(const component::Service& service)>& visit) const;

 private:
  using Services = std::vector<std::unique_ptr<component::Service>>;

  /// Under the start mutex. Throws InvalidOperation after start().
  [[nodiscard]] NodeHandlers& handlers();
  [[nodiscard]] Services make_services(WorkerPool& pool);
  [[nodiscard]] std::unique_ptr<std::jthread> cut_off_at(MonoTime time) const;
  void end_handlers();
  /// Under the start mutex.
  void start_services();
  /// Lets the supervisor watch the services, until end_supervision().
  void supervise();
  void end_supervision();

  Node& node_;
  const PlatformOptions& options_;
  NodeHandlers handlers_;
  std::vector<std::pair<std::string, MakeService>> added_;  // by name
  std::mutex stop_mutex_;                                   // locked before the other one
  std::mutex start_mutex_;  // guards the handlers until the start, and the next two members
  std::unique_ptr<WorkerPool> pool_;
  Services services_;
  std::atomic<RunState> state_{RunState::unused};
  Supervisor supervisor_;
  mutable std::mutex health_mutex_;
  std::vector<const component::Service*> watched_;  // guarded by the health mutex
};

}  // namespace dovetail::runtime
