// A component: one capability of Dovetail on one database, as the runtime sees it.
//
// A component's folder holds a class that derives from Component and a function `make_component`.
// The list in src/runtime/components.cpp names both. The runtime asks each component of the list
// what it contributes: queues, handlers, chores, background services, and their connections.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
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
  /// The usual time between two runs. Absent: the interval of the housekeeper.
  std::optional<std::chrono::milliseconds> interval{};
  /// A slow chore runs less often, but at least this often.
  std::chrono::milliseconds longest_pause{60'000};
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

  /// The connections of its services, of the dispatchers of its queues, and of its own threads. The
  /// derived class replaces this function. It is static, because the connections are reserved when
  /// the database is opened, before there are components.
  static std::vector<ConnectionUse> connections() { return {}; }

  virtual std::vector<Queue> queues() { return {}; }
  virtual std::vector<Chore> chores() { return {}; }
  /// Creates the services of one start. They are destroyed before the component. A group runs only
  /// services that work in steps (SteppedService).
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

/// The components of one database, in the order of the list. They are destroyed in the opposite
/// order, because a component may use the components before it until its own end.
class Components {
 public:
  Components() = default;
  Components(const Components&) = delete;
  Components& operator=(const Components&) = delete;
  ~Components() {
    while (!all_.empty()) all_.pop_back();
  }

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

/// An entry of the list of components.
struct Registration {
  std::unique_ptr<Component> (*make)(const Environment& environment);
  std::vector<ConnectionUse> (*connections)();
};

}  // namespace dovetail::component
