// Joins as the runtime sees them.
#pragma once

#include "component/component.hpp"
#include "dovetail/join.hpp"
#include "join/catch_up.hpp"

namespace dovetail::join {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  static std::vector<component::ConnectionUse> connections() {
    return {{.service = "joins: catch-up"}};
  }
  std::vector<component::Chore> chores() override;
  std::vector<std::unique_ptr<component::Service>> services(storage::Listener& listener) override;
  std::vector<std::shared_ptr<Handler>> handlers() override;

  Joins joins;

 private:
  storage::Database& database_;
  Outbox& outbox_;
  const Logger log_;
  const Metrics metrics_;
  CatchUp catch_up_;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::join
