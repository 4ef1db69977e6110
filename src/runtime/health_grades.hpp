// The status of a value by its limits, and the texts of descriptions.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dovetail/health.hpp"

namespace dovetail::runtime {

[[nodiscard]] inline HealthStatus grade(std::int64_t value, const HealthCounts& limits) {
  if (value > limits.unhealthy) return HealthStatus::unhealthy;
  return value > limits.degraded ? HealthStatus::degraded : HealthStatus::healthy;
}

[[nodiscard]] inline HealthStatus grade(std::chrono::microseconds value,
                                        const HealthTimes& limits) {
  if (value > limits.unhealthy) return HealthStatus::unhealthy;
  return value > limits.degraded ? HealthStatus::degraded : HealthStatus::healthy;
}

[[nodiscard]] inline std::string in_seconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

/// "a, b, c and others"
[[nodiscard]] inline std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most_named = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > most_named ? text + " and others" : text;
}

/// A check that counts things. `description` is for a count that is not healthy.
[[nodiscard]] inline HealthResult counted(const std::string& unit, std::int64_t count,
                                          const HealthCounts& limits, std::string description) {
  HealthResult result{.status = grade(count, limits), .data = {{unit, std::to_string(count)}}};
  if (result.status != HealthStatus::healthy) result.description = std::move(description);
  return result;
}

[[nodiscard]] inline HealthCheck as_check(std::string name, std::vector<std::string> tags,
                                          HealthResult result) {
  return {.name = std::move(name),
          .status = result.status,
          .duration = {},
          .description = std::move(result.description),
          .data = std::move(result.data),
          .tags = std::move(tags)};
}

}  // namespace dovetail::runtime
