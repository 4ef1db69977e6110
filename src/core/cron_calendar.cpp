#include <algorithm>
#include <bit>

#include "core/cron_schedule.hpp"

namespace dovetail::core {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::local_days;
using std::chrono::months;
using std::chrono::seconds;
using std::chrono::year_month;
using std::chrono::year_month_day;

constexpr std::chrono::year first_year{1};
constexpr std::chrono::year last_year{9999};
constexpr LocalTime earliest = local_days{first_year / 1 / 1};
constexpr LocalTime latest = local_days{last_year / 12 / 31} + 86'399s;

// The days of a month

struct Month {
  int last;           // its last day
  int first_weekday;  // of day 1, Sunday is 0

  [[nodiscard]] int weekday_of(int day) const { return (first_weekday + day - 1) % 7; }
};

Month month_of(year_month month) {
  const auto last = static_cast<unsigned>((month / std::chrono::last).day());
  const std::chrono::weekday weekday{local_days{month / 1}};
  return {static_cast<int>(last), static_cast<int>(weekday.c_encoding())};
}

/// The nearest working day in the same month. Saturday the 1st moves to Monday the 3rd, and a
/// Sunday at the end of the month moves back to its Friday.
int nearest_working_day(const Month& month, int day) {
  switch (month.weekday_of(day)) {
    case 0:
      return day == month.last ? day - 2 : day + 1;
    case 6:
      return day == 1 ? day + 2 : day - 1;
    default:
      return day;
  }
}

NumberSet days_by_date(const CronSchedule& schedule, const Month& month) {
  NumberSet found = schedule.days & all_between(1, month.last);
  for (int day = 1; day <= month.last; ++day) {
    const int before_last = month.last - day;
    if (contains(schedule.days_before_last, before_last)) found |= only(day);
    if (contains(schedule.working_days, day) ||
        contains(schedule.working_days_before_last, before_last)) {
      found |= only(nearest_working_day(month, day));
    }
  }
  return found;
}

NumberSet days_by_weekday(const CronSchedule& schedule, const Month& month) {
  NumberSet found = 0;
  for (int day = 1; day <= month.last; ++day) {
    const int weekday = month.weekday_of(day);
    const bool is_last = day + 7 > month.last;
    const int nth = (day + 6) / 7;
    if (contains(schedule.weekdays, weekday) ||
        (is_last && contains(schedule.last_weekdays, weekday)) ||
        contains(schedule.nth_weekdays[static_cast<std::size_t>(weekday)], nth)) {
      found |= only(day);
    }
  }
  return found;
}

// The search, in either direction of time

struct Forward {
  static constexpr months one_month{1};
  static std::optional<int> first(NumberSet set) {
    return set == 0 ? std::nullopt : std::optional{std::countr_zero(set)};
  }
  static std::optional<int> beyond(NumberSet set, int number) {
    return first(set & ~all_between(0, number));
  }
};

struct Backward {
  static constexpr months one_month{-1};
  static std::optional<int> first(NumberSet set) {
    return set == 0 ? std::nullopt : std::optional{63 - std::countl_zero(set)};
  }
  static std::optional<int> beyond(NumberSet set, int number) {
    return first(set & (only(number) - 1));
  }
};

/// Hour, minute and second.
using Clock = std::array<int, 3>;
using ClockSets = std::array<NumberSet, 3>;

seconds since_midnight(const Clock& clock) {
  return seconds{(clock[0] * 60 + clock[1]) * 60 + clock[2]};
}

/// `from` itself, or the nearest time beyond it. Keeps the hour, then the minute, if they match.
template <class Way>
std::optional<Clock> nearest_clock(const ClockSets& sets, const Clock& from) {
  std::size_t same = 0;
  while (same < 3 && contains(sets[same], from[same])) ++same;
  if (same == 3) return from;
  for (auto moved = same + 1; moved-- > 0;) {
    const auto number = Way::beyond(sets[moved], from[moved]);
    if (!number) continue;
    auto found = from;
    found[moved] = *number;
    for (auto rest = moved + 1; rest < 3; ++rest) found[rest] = *Way::first(sets[rest]);
    return found;
  }
  return std::nullopt;
}

template <class Way>
std::optional<local_days> nearest_day_beyond(const CronSchedule& schedule,
                                             const year_month_day& date) {
  year_month month{date.year(), date.month()};
  auto day = Way::beyond(matching_days(schedule, month),
                         static_cast<int>(static_cast<unsigned>(date.day())));
  while (!day) {
    month += Way::one_month;
    if (month.year() < first_year || month.year() > last_year) return std::nullopt;
    day = Way::first(matching_days(schedule, month));
  }
  return local_days{month / *day};
}

template <class Way>
std::optional<LocalTime> nearest(const CronSchedule& schedule, LocalTime from) {
  const ClockSets sets{schedule.hours, schedule.minutes, schedule.seconds};
  const auto midnight = std::chrono::floor<days>(from);
  const year_month_day date{midnight};
  const auto today = matching_days(schedule, date.year() / date.month());
  if (contains(today, static_cast<int>(static_cast<unsigned>(date.day())))) {
    const std::chrono::hh_mm_ss time{from - midnight};
    const Clock clock{static_cast<int>(time.hours().count()),
                      static_cast<int>(time.minutes().count()),
                      static_cast<int>(time.seconds().count())};
    const auto found = nearest_clock<Way>(sets, clock);
    if (found) return midnight + since_midnight(*found);
  }
  const auto day = nearest_day_beyond<Way>(schedule, date);
  if (!day) return std::nullopt;
  return *day + since_midnight({*Way::first(sets[0]), *Way::first(sets[1]), *Way::first(sets[2])});
}

}  // namespace

NumberSet matching_days(const CronSchedule& schedule, year_month month) {
  if (!contains(schedule.months, static_cast<int>(static_cast<unsigned>(month.month())))) return 0;
  const auto shape = month_of(month);
  const auto by_date = days_by_date(schedule, shape);
  const auto by_weekday = days_by_weekday(schedule, shape);
  const bool either = !schedule.any_day && !schedule.any_weekday;
  return either ? by_date | by_weekday : by_date & by_weekday;
}

bool ever_occurs(const CronSchedule& schedule) {
  // These 28 years in a row contain every kind of year: leap year or not, with any weekday on the
  // first of January.
  for (year_month month{std::chrono::year{2000}, std::chrono::January};
       month.year() < std::chrono::year{2028}; month += months{1}) {
    if (matching_days(schedule, month) != 0) return true;
  }
  return false;
}

std::optional<LocalTime> first_occurrence(const CronSchedule& schedule, LocalTime from) {
  if (from > latest) return std::nullopt;
  return nearest<Forward>(schedule, std::max(from, earliest));
}

std::optional<LocalTime> last_occurrence(const CronSchedule& schedule, LocalTime until) {
  if (until < earliest) return std::nullopt;
  return nearest<Backward>(schedule, std::min(until, latest));
}

}  // namespace dovetail::core
