#include "runtime/connections.hpp"

#include <algorithm>
#include <iterator>

#include "runtime/components.hpp"

namespace dovetail::runtime {

std::vector<component::ConnectionUse> connection_uses() {
  std::vector<component::ConnectionUse> uses{{.service = "housekeeper"},
                                             {.service = "health"},
                                             {.service = "instance: heartbeat"},
                                             {.service = "notifier"}};
  for (const auto& component : registered_components()) {
    std::ranges::move(component.connections(), std::back_inserter(uses));
  }
  return uses;
}

std::size_t service_connections(int fetchers) {
  const auto times = static_cast<std::size_t>(std::max(1, fetchers));
  std::size_t total = 0;
  for (const auto& use : connection_uses()) {
    total += use.connections * (use.per_fetcher ? times : 1);
  }
  return total;
}

}  // namespace dovetail::runtime
