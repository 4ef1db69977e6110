// Questions that tests ask about a health report.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "dovetail/platform.hpp"

namespace dovetail::testing {

inline std::vector<std::string> names_of(const HealthReport& report) {
  std::vector<std::string> names;
  for (const auto& check : report.checks) names.push_back(check.name);
  return names;
}

/// The checks that are not healthy.
inline std::vector<HealthCheck> complaints_of(const HealthReport& report) {
  auto checks = report.checks;
  std::erase_if(checks, [](const auto& each) { return each.status == HealthStatus::healthy; });
  return checks;
}

/// The check of this name, or one without a name.
inline HealthCheck check_named(const HealthReport& report, const std::string& name) {
  const auto found = std::ranges::find(report.checks, name, &HealthCheck::name);
  return found != report.checks.end() ? *found : HealthCheck{};
}

inline std::string in_words(const HealthReport& report) {
  std::string text{to_string(report.status)};
  for (const auto& check : complaints_of(report)) {
    text +=
        "; " + check.name + ": " + std::string{to_string(check.status)} + ": " + check.description;
  }
  return text;
}

inline void expect_ready(Platform& platform) {
  const auto report = platform.health().ready();
  EXPECT_EQ(report.status, HealthStatus::healthy) << in_words(report);
}

}  // namespace dovetail::testing
