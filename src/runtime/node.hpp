// One database with its components. A node has no threads; the Runtime starts its services.
#pragma once

#include <memory>
#include <vector>

#include "component/component.hpp"
#include "core/owner_process.hpp"
#include "history/component.hpp"
#include "runtime/clock_check.hpp"
#include "storage/listener.hpp"

namespace dovetail::runtime {

class Node {
 public:
  /// Requires options with a log sink and a metrics sink.
  Node(std::unique_ptr<storage::Database> database, PlatformOptions options);

  [[nodiscard]] const PlatformOptions& options() const { return options_; }
  [[nodiscard]] const Logger& logger() const { return log_; }
  [[nodiscard]] const Metrics& metrics() const { return metrics_; }
  [[nodiscard]] const core::OwnerProcess& process() const { return process_; }
  [[nodiscard]] storage::Database& database() { return *database_; }
  [[nodiscard]] storage::Listener& listener() { return listener_; }
  [[nodiscard]] ClockCheck& clock_check() { return clock_check_; }
  /// The component of this type.
  template <class Kind>
  [[nodiscard]] Kind& get() {
    return components_.get<Kind>();
  }
  [[nodiscard]] const std::vector<std::unique_ptr<component::Component>>& components() const {
    return components_.all();
  }

  [[nodiscard]] std::vector<component::Queue> queues();
  [[nodiscard]] std::vector<component::Chore> chores();
  /// The services of the components. Each start needs new ones.
  [[nodiscard]] std::vector<std::unique_ptr<component::Service>> component_services();
  /// The listener as a service.
  [[nodiscard]] std::unique_ptr<component::Service> listener_service();

 private:
  const PlatformOptions options_;
  const Logger log_;
  const std::shared_ptr<history::Collector> collector_;  // null: no history
  const Metrics metrics_;
  const core::OwnerProcess process_;
  std::unique_ptr<storage::Database> database_;
  ClockCheck clock_check_;
  storage::Listener listener_;
  component::Components components_;
};

}  // namespace dovetail::runtime
