// The descriptions of all metrics, which Prometheus shows as HELP.
#pragma once

#include <span>
#include <string_view>

namespace dovetail::observe {

struct MetricFamily {
  std::string_view name;
  std::string_view help;
};

/// Ordered by name.
[[nodiscard]] std::span<const MetricFamily> metric_families();

/// Empty for a metric that is not Dovetail's.
[[nodiscard]] std::string_view help_of(std::string_view metric);

}  // namespace dovetail::observe
