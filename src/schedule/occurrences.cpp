#include "schedule/occurrences.hpp"

#include <algorithm>

namespace dovetail::schedule {

Schedule schedule_of(std::string_view cron, std::string_view zone) {
  return {CronExpression::parse(cron), TimeZone::find(zone)};
}

std::vector<WallTime> occurrences_to_run(const Schedule& schedule, Misfire misfire,
                                         int misfire_limit, WallTime from, WallTime now) {
  const auto before = [&](WallTime time) {
    return previous_occurrence(schedule.cron, schedule.zone, time);
  };
  const auto latest = before(now + WallTime::duration{1});
  if (!latest || *latest < from) return {};
  switch (misfire) {
    case Misfire::coalesce:
      return {*latest};
    case Misfire::skip:
      return now - *latest <= punctual ? std::vector{*latest} : std::vector<WallTime>{};
    case Misfire::all:
      break;
  }
  std::vector<WallTime> chosen;
  for (auto time = latest; time && *time >= from && std::ssize(chosen) < misfire_limit;
       time = before(*time)) {
    chosen.push_back(*time);
  }
  std::ranges::reverse(chosen);
  return chosen;
}

}  // namespace dovetail::schedule
