// The inbox as the runtime sees it.
#pragma once

#include "component/component.hpp"
#include "dovetail/inbox.hpp"

namespace dovetail::inbox {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  static std::vector<component::ConnectionUse> connections() {
    return component::dispatcher_connections("inbox");
  }
  std::vector<component::Queue> queues() override;
  std::vector<component::Chore> chores() override;

  Inbox inbox;

 private:
  void warn_of_stuck(const std::stop_token& stop);

  storage::Database& database_;
  const Logger log_;
  const Metrics metrics_;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::inbox
