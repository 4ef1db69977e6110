// When a recurring job runs: cron expressions.
//
// Fields
//   Five, `minute hour day month weekday`, or six, with `second` first (with five, the second is
//   0).
//     second, minute  0-59
//     hour            0-23
//     day             1-31
//     month           1-12 or JAN-DEC
//     weekday         0-7 or SUN-SAT; 0 and 7 are both Sunday
//   Each is a list, separated by commas, of
//     *          every value
//     a          one value
//     a-b        a range. One that runs backwards goes round the end: `22-2`, `FRI-MON`, `NOV-FEB`,
//     `28-3`.
//     */n a-b/n  every n-th value of the range, from its first. Round the end, the count goes on as
//     if every
//                month had 31 days. The count starts anew each time the field does: `*/7` in the
//                minute field is 0, 7 … 56, and again 0.
//     a/n        every n-th value from a to the greatest one (Saturday for weekdays)
//   The day also knows
//     ?  the same as *                    L   the last day of the month     L-3   three days before
//     it 15W  the working day (Monday to Friday) nearest to the 15th of the same month; no run in a
//     month
//          without that day               LW  the same, nearest to the last day    L-3W
//   The weekday also knows
//     ?  the same as *                    L   Saturday                      5L, FRIL  the last
//     Friday MON#2  the second Monday of the month
//   Letters may be of either case. Blanks (spaces, tabs) separate fields; 255 characters is the
//   limit. Instead of fields, one word: @yearly (@annually), @monthly, @weekly, @daily (@midnight),
//   @hourly,
//   @minutely, @secondly. There is no @reboot: a schedule names times.
//
// Day and weekday
//   As in Vixie cron: when both are restricted, a date needs to satisfy one of them; otherwise it
//   must satisfy both. A field is unrestricted when it begins with `*` or is `?`. So `0 0 1 * MON`
//   runs on the first of each month and on every Monday, but `0 0 */2 * MON` only on Mondays with
//   an odd date.
//
// Clock changes
//   A *fixed-hour* job is one whose hour field does not begin with `*`. It runs when the local
//   clock first reaches or passes its time: in a gap right after it, where all its times in the gap
//   are one run, and in an overlap the first time only. Any other job goes by elapsed time: it runs
//   whenever the local clock shows a matching time, so in both passes of an overlap, and at no time
//   that a gap skips.
//
// Guarantees
//   * An expression that was parsed has occurrences: one that never does, such as `0 0 30 2 *`, is
//   refused.
//   * No search is endless: any two occurrences are less than 41 years apart.
//
// Threads: everything here is a plain value or a pure function.
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

/// The expression cannot be understood, or never occurs. The text quotes it and says where and why.
class CronError : public std::invalid_argument {
 public:
  CronError(std::size_t position, const std::string& message)
      : std::invalid_argument(message), position_(position) {}

  /// Of the first wrong character, counted from 1; one past the end when something is missing
  /// there.
  [[nodiscard]] std::size_t position() const { return position_; }

 private:
  std::size_t position_;
};

class CronExpression {
 public:
  static constexpr std::size_t longest = 255;

  /// Throws CronError.
  [[nodiscard]] static CronExpression parse(std::string_view text);

  /// As given, without the blanks around it.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// In plain English: `at 09:00, Monday to Friday`. Two expressions with one description have the
  /// same occurrences, but perhaps not across a clock change.
  [[nodiscard]] std::string describe() const;
  /// See "Clock changes" above.
  [[nodiscard]] bool is_fixed_hour() const;

  /// The first occurrence after `after`, on a clock that is never changed. Nothing beyond the year
  /// 9999.
  [[nodiscard]] std::optional<LocalTime> next_after(LocalTime after) const;
  /// The last occurrence before `before`. Nothing before the year 1.
  [[nodiscard]] std::optional<LocalTime> previous_before(LocalTime before) const;

  /// Equal when all fields mean the same, however they are written: `0 9 * * MON` is `0 0 9 * * 1`.
  friend bool operator==(const CronExpression& a, const CronExpression& b) { return a.equals(b); }

 private:
  CronExpression(std::string text, std::shared_ptr<const core::CronSchedule> schedule)
      : text_(std::move(text)), schedule_(std::move(schedule)) {}
  [[nodiscard]] bool equals(const CronExpression& other) const;

  std::string text_;
  std::shared_ptr<const core::CronSchedule> schedule_;
};

/// The first instant after `after` at which a job runs, or nothing when there is none in the years
/// 1 to 9999 and within 41 years. Walking from answer to answer meets every run once.
[[nodiscard]] std::optional<WallTime> next_occurrence(const CronExpression& expression,
                                                      const TimeZone& zone, WallTime after);

/// The last instant before `before` at which a job runs: walks through the runs of next_occurrence
/// backwards.
[[nodiscard]] std::optional<WallTime> previous_occurrence(const CronExpression& expression,
                                                          const TimeZone& zone, WallTime before);

}  // namespace dovetail
