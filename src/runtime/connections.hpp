// The number of connections that the background services of a started platform use, in addition to
// max_connections.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "dovetail/platform.hpp"

namespace dovetail::runtime {

struct ConnectionUse {
  std::string_view service;
  std::size_t connections = 0;
  bool per_fetcher = false;
};

/// All services hold their connections at the same time.
inline constexpr std::array connection_uses{
    ConnectionUse{"outbox: fetchers", 1, true},
    ConnectionUse{"inbox: fetchers", 1, true},
    ConnectionUse{"outbox: lease keeper", 1},
    ConnectionUse{"inbox: lease keeper", 1},
    ConnectionUse{"housekeeper", 1},
    ConnectionUse{"scheduler", 1},
    ConnectionUse{"joins: catch-up", 1},
    ConnectionUse{"jobs: starts of runs", 1},
    ConnectionUse{"instance: heartbeat", 1},
    ConnectionUse{"notifier", 1},
};

/// The connection of the listener, which is not part of the pool.
inline constexpr std::size_t listener_connections = 1;

[[nodiscard]] constexpr std::size_t service_connections(int fetchers) {
  std::size_t total = 0;
  for (const auto& use : connection_uses) {
    const auto times = use.per_fetcher ? static_cast<std::size_t>(fetchers < 1 ? 1 : fetchers) : 1;
    total += use.connections * times;
  }
  return total;
}

}  // namespace dovetail::runtime
