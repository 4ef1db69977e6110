// Which of a job's times are to be run now: the misfire policies.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "dovetail/schedule.hpp"

namespace dovetail::schedule {

/// Later than that, a time counts as missed.
inline constexpr std::chrono::minutes punctual{1};

struct Schedule {
  CronExpression cron;
  TimeZone zone;
};

/// Throws CronError, or std::invalid_argument for an unknown zone.
[[nodiscard]] Schedule schedule_of(std::string_view cron, std::string_view zone);

/// Of the times from `from` (the first that has not been looked at) to `now`, those that get a run;
/// in their order. Bounded by the policy, however long nobody has looked.
[[nodiscard]] std::vector<WallTime> occurrences_to_run(const Schedule& schedule, Misfire misfire,
                                                       int misfire_limit, WallTime from,
                                                       WallTime now);

}  // namespace dovetail::schedule
