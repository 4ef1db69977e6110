// Measures how fast a worker drains a backlog.
#pragma once

#include "cli/bench/tools.hpp"

namespace dovetail::cli::bench {

/// Calls `load` with the platform, and then starts a worker whose handler does nothing. Returns the
/// seconds from its start to the ack of the last of `messages` messages. Throws
/// std::invalid_argument when there are fewer or more.
double seconds_to_drain(const Settings& settings, std::int64_t messages,
                        const std::function<void(Platform&)>& load, const Progress& progress);

/// The same, with a worker that `prepare` registers.
double seconds_to_drain(const Settings& settings, std::int64_t messages,
                        const std::function<void(Platform&)>& load,
                        const std::function<void(Platform&)>& prepare, const Progress& progress);

}  // namespace dovetail::cli::bench
