// Cron expressions: when a recurring job runs.
//
// Fields
//   An expression has five fields, `minute hour day month weekday`, or six, with `second` first.
//   With five fields, the second is 0.
//     second, minute  0-59
//     hour            0-23
//     day             1-31
//     month           1-12 or JAN-DEC
//     weekday         0-7 or SUN-SAT; 0 and 7 are both Sunday
//   A field is a comma-separated list of
//     *          every value
//     a          one value
//     a-b        a range. A range may wrap around: `22-2`, `FRI-MON`, `NOV-FEB`, `28-3`.
//     */n a-b/n  every n-th value of the range, counted from its first value. In a range that
//                wraps around, the count continues as if every month had 31 days. The count
//                restarts with the field: `*/7` in the minute field means 0, 7 … 56, then 0.
//     a/n        every n-th value from a to the maximum (for weekdays: Saturday)
//   The day field also accepts
//     ?          the same as *
//     L          the last day of the month
//     L-3        three days before the last day of the month
//     15W        the weekday (Monday to Friday) nearest to the 15th, within the same month. There
//                is no run in a month without that day.
//     LW, L-3W   the weekday nearest to that day
//   The weekday field also accepts
//     ?          the same as *
//     L          Saturday
//     5L, FRIL   the last Friday of the month
//     MON#2      the second Monday of the month
//   Letters are case-insensitive. Spaces and tabs separate fields. An expression has at most 255
//   characters. One of these words may replace the fields: @yearly (@annually), @monthly, @weekly,
//   @daily (@midnight), @hourly, @minutely, @secondly. @reboot is not supported.
//
// Day and weekday
//   The rule is that of Vixie cron. When both fields are restricted, a date must match one of them.
//   Otherwise it must match both. A field is unrestricted when it begins with `*` or is `?`. So
//   `0 0 1 * MON` runs on the first of each month and on every Monday, but `0 0 */2 * MON` runs
//   only on Mondays with an odd date.
//
// Clock changes
//   A *fixed-hour* job is a job whose hour field does not begin with `*`. It runs when the local
//   clock first reaches or passes its time. When the time is in a gap, it runs right after the gap;
//   several times in one gap make one run. In an overlap it runs the first time only. Any other job
//   runs whenever the local clock shows a matching time: in both passes of an overlap, and not for
//   times that a gap skips.
//
// Guarantees
//   * A parsed expression has occurrences. An expression that never occurs, such as `0 0 30 2 *`,
//     is rejected.
//   * Searches are bounded: two consecutive occurrences are less than 41 years apart.
//
// Threads: all types are plain values and all functions are pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "dovetail/clock.hpp"
#include "dovetail/time_zone.hpp"

namespace dovetail {

namespace core {
struct CronSchedule;
}

/// The expression is invalid or never occurs. The text quotes the expression and says where and
/// why.
class CronError : public std::invalid_argument {
 public:
  CronError(std::size_t position, const std::string& message)
      : std::invalid_argument(message), position_(position) {}

  /// The position of the first wrong character, counted from 1. One past the end when something is
  /// missing there.
  [[nodiscard]] std::size_t position() const { return position_; }

 private:
  std::size_t position_;
};

class CronExpression {
 public:
  static constexpr std::size_t longest = 255;

  /// Throws CronError.
  [[nodiscard]] static CronExpression parse(std::string_view text);

  /// The text as given, without leading and trailing blanks.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// A description in English: `at 09:00, Monday to Friday`. Expressions with the same description
  /// have the same occurrences, except possibly around a clock change.
  [[nodiscard]] std::string describe() const;
  /// See "Clock changes" above.
  [[nodiscard]] bool is_fixed_hour() const;

  /// The first occurrence after `after`, on a clock without clock changes. Returns nullopt after
  /// the year 9999.
  [[nodiscard]] std::optional<LocalTime> next_after(LocalTime after) const;
  /// The last occurrence before `before`. Returns nullopt before the year 1.
  [[nodiscard]] std::optional<LocalTime> previous_before(LocalTime before) const;

  /// Compares the meaning of the fields, not the text: `0 9 * * MON` equals `0 0 9 * * 1`.
  friend bool operator==(const CronExpression& a, const CronExpression& b) { return a.equals(b); }

 private:
  CronExpression(std::string text, std::shared_ptr<const core::CronSchedule> schedule)
      : text_(std::move(text)), schedule_(std::move(schedule)) {}
  [[nodiscard]] bool equals(const CronExpression& other) const;

  std::string text_;
  std::shared_ptr<const core::CronSchedule> schedule_;
};

/// The first instant after `after` at which a job runs. Returns nullopt when there is none in the
/// years 1 to 9999 and within 41 years. Calling it again with each result visits every run once.
[[nodiscard]] std::optional<WallTime> next_occurrence(const CronExpression& expression,
                                                      const TimeZone& zone, WallTime after);

/// The last instant before `before` at which a job runs. It visits the runs of next_occurrence in
/// reverse.
[[nodiscard]] std::optional<WallTime> previous_occurrence(const CronExpression& expression,
                                                          const TimeZone& zone, WallTime before);

}  // namespace dovetail
