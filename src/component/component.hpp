// A component: one capability of Dovetail on one database, as the runtime sees it.
//
// A component's folder holds a class that derives from Component and a function `make_component`.
// The list in src/runtime/components.cpp names that function. The runtime asks each component of
// the list what it contributes: queues, handlers, chores, background services.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "component/service.hpp"
#include "dovetail/handler.hpp"
#include "dovetail/platform.hpp"
#include "storage/database.hpp"
#include "storage/listener.hpp"

namespace dovetail::component {

/// Housekeeping that the runtime runs from time to time. `name` identifies the chore in logs.
struct Chore {
  std::string name;
  std::function<void(const std::stop_token& stop)> run;
};

/// A queue of a component. The runtime reaps its expired leases and deletes its old history.
struct Queue {
  WorkQueue* queue = nullptr;
  storage::QueueConsumer* consumer = nullptr;
  bool has_handlers = false;  ///< Handlers can be registered for its topics.
};

class Component {
 public:
  Component() = default;
  Component(const Component&) = delete;
  Component& operator=(const Component&) = delete;
  virtual ~Component() = default;

  virtual std::vector<Queue> queues() { return {}; }
  virtual std::vector<Chore> chores() { return {}; }
  /// Creates the services of one start. They are destroyed before the component.
  virtual std::vector<std::unique_ptr<Service>> services(storage::Listener& /*listener*/) {
    return {};
  }
  /// Adds a handler of the outbox for a user of the component, until the platform is started.
  /// Throws InvalidOperation if the topic has a handler, or after the start.
  using AddHandler =
      std::function<void(std::string_view topic, HandlerFunction function, HandlerOptions options)>;
  /// Called once, before the first use of the component.
  virtual void accept_handlers(const AddHandler& /*add_handler*/) {}
  /// Handlers of the outbox that the component itself provides.
  virtual std::vector<std::shared_ptr<Handler>> handlers() { return {}; }
  /// Wraps a handler of the outbox, for a component that takes part in its calls.
  virtual HandlerFunction around(HandlerFunction function) { return function; }
  /// Throws when the platform cannot be started.
  virtual void check_start(const std::stop_token& /*stop*/) {}
};

/// The components of one database, in the order of the list.
class Components {
 public:
  void add(std::unique_ptr<Component> component) { all_.push_back(std::move(component)); }
  [[nodiscard]] const std::vector<std::unique_ptr<Component>>& all() const { return all_; }

  template <class Kind>
  [[nodiscard]] Kind& get() const {
    for (const auto& each : all_) {
      if (auto* found = dynamic_cast<Kind*>(each.get())) return *found;
    }
    throw std::logic_error("a component that is asked for must stand earlier in the list");
  }

 private:
  std::vector<std::unique_ptr<Component>> all_;
};

/// The arguments for the creation of a component. `others` holds the components before it in the
/// list.
struct Environment {
  storage::Database& database;
  const PlatformOptions& options;
  Logger log;
  Metrics metrics;
  const Components& others;
};

using Factory = std::unique_ptr<Component> (*)(const Environment& environment);

}  // namespace dovetail::component
