// One database with its components. A node has no threads; the Runtime starts its services.
#pragma once

#include <memory>
#include <vector>

#include "component/component.hpp"
#include "runtime/clock_check.hpp"
#include "storage/listener.hpp"

namespace dovetail::runtime {

class Node {
 public:
  Node(std::unique_ptr<storage::Database> database, const PlatformOptions& options,
       const Logger& log, const Metrics& metrics);

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
  /// The services of the components, and the listener. Made anew for each start.
  [[nodiscard]] std::vector<std::unique_ptr<component::Service>> services();

 private:
  std::unique_ptr<storage::Database> database_;
  ClockCheck clock_check_;
  storage::Listener listener_;
  component::Components components_;
};

}  // namespace dovetail::runtime
