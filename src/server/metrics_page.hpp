// The metrics of this process as Prometheus reads them: text format 0.0.4.
#pragma once

#include <string>
#include <string_view>

#include "dovetail/metrics_registry.hpp"

namespace dovetail::server {

inline constexpr std::string_view metrics_content_type = "text/plain; version=0.0.4; charset=utf-8";

/// One family per metric, with HELP and TYPE. Durations are in seconds. Characters that Prometheus
/// does not allow in names become underscores.
[[nodiscard]] std::string metrics_page(const MetricsSnapshot& snapshot);

}  // namespace dovetail::server
