// A cron expression in plain English.
//
// The text follows the meaning of the fields, not their spelling: every accepted expression gets a
// correct sentence, although perhaps a clumsy one.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "core/cron_schedule.hpp"

namespace dovetail::core {
namespace {

constexpr std::array<const char*, 7> weekday_names{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> month_names{"January",   "February", "March",    "April",
                                                  "May",       "June",     "July",     "August",
                                                  "September", "October",  "November", "December"};
constexpr std::array<const char*, 6> ordinals{"", "first", "second", "third", "fourth", "fifth"};
/// Up to this many times of day are listed. More are described by their hours and minutes.
constexpr std::size_t most_times_listed = 6;

constexpr NumberSet every_minute = all_between(0, 59);
constexpr NumberSet every_hour = all_between(0, 23);
constexpr NumberSet every_day = all_between(1, 31);
constexpr NumberSet every_month = all_between(1, 12);
constexpr NumberSet every_weekday = all_between(0, 6);

std::vector<int> numbers_of(NumberSet set) {
  std::vector<int> numbers;
  for (; set != 0; set &= set - 1) numbers.push_back(std::countr_zero(set));
  return numbers;
}

std::string listed(const std::vector<std::string>& parts, std::string_view conjunction) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? conjunction : std::string_view{", "};
    text += parts[i];
  }
  return text;
}

std::string listed(const std::vector<std::string>& parts) {
  return listed(parts, " and ");
}

// Sets of numbers

/// The distance between neighbours if all distances are equal.
std::optional<int> common_step(const std::vector<int>& numbers) {
  if (numbers.size() < 2) return std::nullopt;
  const int step = numbers[1] - numbers[0];
  for (std::size_t i = 2; i < numbers.size(); ++i) {
    if (numbers[i] - numbers[i - 1] != step) return std::nullopt;
  }
  return step;
}

/// `1, 5 to 9 and 20`.
std::string numbers_text(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    auto last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    const bool is_run = last >= i + 2;
    parts.push_back(std::to_string(numbers[i]) +
                    (is_run ? " to " + std::to_string(numbers[last]) : ""));
    i = is_run ? last + 1 : i + 1;
  }
  return listed(parts);
}

/// `minute 5`, `minutes 1 and 5`, `every 7th minute from 0 to 56`.
std::string counted(const std::string& unit, NumberSet set) {
  const auto numbers = numbers_of(set);
  const auto step = common_step(numbers);
  if (numbers.size() <= 4 || !step || *step == 1) {
    return unit + (numbers.size() == 1 ? " " : "s ") + numbers_text(numbers);
  }
  const std::string ending = *step == 2 ? "nd" : *step == 3 ? "rd" : "th";
  return "every " + std::to_string(*step) + ending + " " + unit + " from " +
         std::to_string(numbers.front()) + " to " + std::to_string(numbers.back());
}

/// The n of a set that recurs every n units without a break at the end of the `cycle`, from 0 on.
std::optional<int> even_step(NumberSet set, int cycle) {
  const auto numbers = numbers_of(set);
  const auto step = common_step(numbers);
  const bool even = step && numbers.front() == 0 && numbers.back() + *step == cycle;
  return even ? step : std::nullopt;
}

std::string every(int step, const std::string& unit) {
  return step == 1 ? "every " + unit : "every " + std::to_string(step) + " " + unit + "s";
}

/// Ranges may wrap around the end of the week or the year: `Friday to Monday`. `low` is the number
/// of the first name.
template <std::size_t Count>
std::string names_text(NumberSet set, int low, const std::array<const char*, Count>& names) {
  const auto has = [&](std::size_t i) { return contains(set, low + static_cast<int>(i % Count)); };
  // Starts where a range begins, so that no range is cut in two; if all values are in the set,
  // starts with Monday or January.
  std::size_t start = low == 0 ? 1 : 0;
  for (std::size_t tried = 0; tried < Count && has(start + Count - 1); ++tried) ++start;
  std::vector<std::string> parts;
  for (std::size_t i = start; i < start + Count; ++i) {
    if (!has(i)) continue;
    auto last = i;
    while (last + 1 < start + Count && has(last + 1)) ++last;
    const bool is_run = last >= i + 2;
    parts.push_back(names[i % Count] + (is_run ? std::string{" to "} + names[last % Count] : ""));
    if (is_run) i = last;
  }
  return listed(parts);
}

// The time of day

std::string two_digits(int number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

/// `at 09:00 and 17:30`, if there are only a few times a day.
std::optional<std::string> times_text(const CronSchedule& schedule) {
  const auto count = std::popcount(schedule.hours) * std::popcount(schedule.minutes);
  if (std::popcount(schedule.seconds) != 1 || static_cast<std::size_t>(count) > most_times_listed) {
    return std::nullopt;
  }
  const int second = std::countr_zero(schedule.seconds);
  std::vector<std::string> times;
  for (const int hour : numbers_of(schedule.hours)) {
    for (const int minute : numbers_of(schedule.minutes)) {
      times.push_back(two_digits(hour) + ":" + two_digits(minute) +
                      (second == 0 ? "" : ":" + two_digits(second)));
    }
  }
  return "at " + listed(times);
}

/// `every 4 hours`, `every hour at minute 30`, `at minute 30 of hours 1 to 5`.
std::string minutes_text(const CronSchedule& schedule) {
  const auto hour_step = even_step(schedule.hours, 24);
  const auto minute_step = even_step(schedule.minutes, 60);
  if (minute_step) {
    const auto text = every(*minute_step, "minute");
    return schedule.hours == every_hour ? text : text + " of " + counted("hour", schedule.hours);
  }
  if (hour_step) {
    const auto text = every(*hour_step, "hour");
    return schedule.minutes == only(0) ? text : text + " at " + counted("minute", schedule.minutes);
  }
  return "at " + counted("minute", schedule.minutes) + " of " + counted("hour", schedule.hours);
}

std::string seconds_text(const CronSchedule& schedule) {
  const auto step = even_step(schedule.seconds, 60);
  const auto seconds = step ? every(*step, "second") : "at " + counted("second", schedule.seconds);
  if (schedule.minutes == every_minute && schedule.hours == every_hour) {
    return step ? seconds : seconds + " of every minute";
  }
  const auto minutes =
      schedule.minutes == every_minute ? "every minute" : counted("minute", schedule.minutes);
  const auto hours = schedule.hours == every_hour ? "every hour" : counted("hour", schedule.hours);
  return seconds + " of " + minutes + " of " + hours;
}

std::string time_text(const CronSchedule& schedule) {
  if (const auto times = times_text(schedule)) return *times;
  return schedule.seconds == only(0) ? minutes_text(schedule) : seconds_text(schedule);
}

// The date

std::string last_day_text(int before) {
  if (before == 0) return "the last day of the month";
  return "the day " + std::to_string(before) + (before == 1 ? " day" : " days") +
         " before the last day of the month";
}

std::string days_text(const CronSchedule& schedule) {
  std::vector<std::string> parts;
  if (schedule.days == every_day) {
    parts.emplace_back("every day of the month");
  } else if (schedule.days != 0) {
    parts.push_back(counted("day", schedule.days) + " of the month");
  }
  for (const int before : numbers_of(schedule.days_before_last))
    parts.push_back(last_day_text(before));
  for (const int day : numbers_of(schedule.working_days)) {
    parts.push_back("the working day nearest to day " + std::to_string(day) + " of the month");
  }
  for (const int before : numbers_of(schedule.working_days_before_last)) {
    parts.push_back("the working day nearest to " + last_day_text(before));
  }
  return listed(parts);
}

std::string weekdays_text(const CronSchedule& schedule) {
  std::vector<std::string> parts;
  if (schedule.weekdays == every_weekday) {
    parts.emplace_back("every weekday from Monday to Sunday");
  } else if (schedule.weekdays != 0) {
    parts.push_back(names_text(schedule.weekdays, 0, weekday_names));
  }
  for (std::size_t day = 0; day < schedule.nth_weekdays.size(); ++day) {
    for (const int nth : numbers_of(schedule.nth_weekdays[day])) {
      parts.push_back(std::string{"the "} + ordinals[static_cast<std::size_t>(nth)] + " " +
                      weekday_names[day] + " of the month");
    }
  }
  for (const int day : numbers_of(schedule.last_weekdays)) {
    parts.push_back(std::string{"the last "} + weekday_names[static_cast<std::size_t>(day)] +
                    " of the month");
  }
  return listed(parts);
}

/// Starts with the word that joins it to the time of day. Empty if every date matches.
std::string date_text(const CronSchedule& schedule) {
  if (!schedule.any_day && !schedule.any_weekday) {
    return " on " + days_text(schedule) + ", or on " + weekdays_text(schedule);
  }
  // Both must match. A field that contains every value does not restrict.
  const bool some_days = schedule.days != every_day;
  const bool some_weekdays = schedule.weekdays != every_weekday;
  if (some_days && some_weekdays) {
    return " on " + days_text(schedule) + ", but only when that is " + weekdays_text(schedule);
  }
  if (some_days) return " on " + days_text(schedule);
  if (!some_weekdays) return "";
  const bool plain =
      schedule.last_weekdays == 0 && std::ranges::count(schedule.nth_weekdays, 0U) == 7;
  return (plain ? ", " : " on ") + weekdays_text(schedule);
}

}  // namespace

std::string describe(const CronSchedule& schedule) {
  auto text = time_text(schedule);
  const auto date = date_text(schedule);
  const bool daily = date.empty() && schedule.months == every_month;
  if (daily && text.starts_with("at ") && schedule.hours != every_hour) return text + " every day";
  text += date;
  if (schedule.months == every_month) return text;
  // The comma makes it refer to the whole sentence, not to the last word.
  const auto joint = date.find(',') == std::string::npos ? " in " : ", only in ";
  return text + joint + names_text(schedule.months, 1, month_names);
}

}  // namespace dovetail::core
