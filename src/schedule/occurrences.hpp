// The misfire policies: which of a job's due times get a run.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "dovetail/schedule.hpp"

namespace dovetail::schedule {

/// A run that is later than this counts as missed.
inline constexpr std::chrono::minutes punctual{1};

struct Schedule {
  CronExpression cron;
  TimeZone zone;
};

/// Throws CronError, or std::invalid_argument for an unknown zone.
[[nodiscard]] Schedule schedule_of(std::string_view cron, std::string_view zone);

/// The due times that get a run, in order. They lie between `from`, the first one not handled yet,
/// and `now`. The policy bounds their number, however much time has passed.
[[nodiscard]] std::vector<WallTime> occurrences_to_run(const Schedule& schedule, Misfire misfire,
                                                       int misfire_limit, WallTime from,
                                                       WallTime now);

}  // namespace dovetail::schedule
