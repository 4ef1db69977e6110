// The meaning of a cron expression: sets of numbers, and the search for matching times.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dovetail/time_zone.hpp"

namespace dovetail::core {

/// A set of small numbers: bit n stands for n.
using NumberSet = std::uint64_t;

constexpr NumberSet only(int number) {
  return NumberSet{1} << number;
}
constexpr NumberSet all_between(int low, int high) {
  return (only(high) << 1) - only(low);
}
constexpr bool contains(NumberSet set, int number) {
  return (set & only(number)) != 0;
}

struct CronSchedule {
  NumberSet seconds = 0;
  NumberSet minutes = 0;
  NumberSet hours = 0;
  NumberSet months = 0;

  NumberSet days = 0;
  NumberSet days_before_last = 0;          ///< `L` is 0, `L-3` is 3.
  NumberSet working_days = 0;              ///< `15W` is 15.
  NumberSet working_days_before_last = 0;  ///< `LW` is 0, `L-3W` is 3.

  NumberSet weekdays = 0;                      ///< Sunday is 0.
  NumberSet last_weekdays = 0;                 ///< `5L` is 5.
  std::array<NumberSet, 7> nth_weekdays = {};  ///< `MON#2` is 2 in the set of Monday.

  bool any_day = false;      ///< The day field begins with `*` or is `?`.
  bool any_weekday = false;  ///< The same for the weekday field.
  bool fixed_hour = false;

  friend bool operator==(const CronSchedule&, const CronSchedule&) = default;
};

/// Throws CronError.
CronSchedule parse_cron(std::string_view text);

std::string describe(const CronSchedule& schedule);

/// The dates of one month on which the schedule runs.
NumberSet matching_days(const CronSchedule& schedule, std::chrono::year_month month);

/// Whether the schedule runs on any date of any year.
bool ever_occurs(const CronSchedule& schedule);

/// The nearest occurrence at `from` or after it.
std::optional<LocalTime> first_occurrence(const CronSchedule& schedule, LocalTime from);
/// The nearest occurrence at `until` or before it.
std::optional<LocalTime> last_occurrence(const CronSchedule& schedule, LocalTime until);

}  // namespace dovetail::core
