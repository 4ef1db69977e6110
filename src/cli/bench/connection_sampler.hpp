// The number of connections of this process to the databases of a benchmark.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <thread>

#include "cli/bench/tools.hpp"

namespace dovetail::cli::bench {

/// Connections to the server, or open files of the databases. PostgreSQL: `watcher` asks the
/// server. SQLite: null.
[[nodiscard]] std::size_t connections(const Settings& settings, Platform* watcher);

/// Samples the number of connections on a thread of its own, as long as it lives.
class ConnectionSampler {
 public:
  explicit ConnectionSampler(const Settings& settings);
  [[nodiscard]] std::size_t most() const { return most_; }

 private:
  std::optional<Platform> watcher_;
  std::atomic<std::size_t> most_{0};
  std::jthread thread_;
};

}  // namespace dovetail::cli::bench
