#include "dovetail/cron.hpp"

#include <algorithm>

#include "core/cron_schedule.hpp"

namespace dovetail {
namespace {

using namespace std::chrono_literals;
using std::chrono::seconds;

/// Longer than the gap between any two occurrences: a 29th of February on a given weekday may take
/// forty years.
constexpr std::chrono::microseconds horizon = std::chrono::days{41 * 366};
constexpr WallTime earliest = std::chrono::sys_days{std::chrono::year{1} / 1 / 1};
constexpr WallTime latest = std::chrono::sys_days{std::chrono::year{9999} / 12 / 31} + 86'399s;

std::string without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  const auto last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? std::string{}
                                         : std::string{text.substr(first, last - first + 1)};
}

// A fixed-hour job runs when the local clock first reaches or passes one of its times: at the first
// of two equal times, and at the end of a gap. This keeps the order of its times.

WallTime run_of(const TimeZone& zone, LocalTime local) {
  return zone.instants_of(local).first;
}

/// The greatest time that the local clock has shown up to `time`. That is the time it shows, except
/// in the second pass of an overlap, where it is the end of the first pass.
LocalTime greatest_shown(const TimeZone& zone, WallTime time) {
  const auto shown = zone.to_local(time);
  const auto instants = zone.instants_of(shown);
  const bool second_pass = instants.kind == LocalInstants::Kind::twice && time >= instants.second;
  return second_pass ? std::max(shown, zone.to_local(zone.period_at(instants.second).begin - 1s))
                     : shown;
}

std::optional<WallTime> first_fixed(const CronExpression& expression, const TimeZone& zone,
                                    WallTime from) {
  auto local = expression.next_after(greatest_shown(zone, from - 1s));
  // If clocks were changed twice within hours, the first result may still be too early.
  while (local && run_of(zone, *local) < from) local = expression.next_after(*local);
  if (!local) return std::nullopt;
  return run_of(zone, *local);
}

std::optional<WallTime> last_fixed(const CronExpression& expression, const TimeZone& zone,
                                   WallTime until) {
  auto local = expression.previous_before(greatest_shown(zone, until) + 1s);
  while (local && run_of(zone, *local) > until) local = expression.previous_before(*local);
  if (!local) return std::nullopt;
  return run_of(zone, *local);
}

// Any other job runs whenever the local clock shows one of its times: the search goes from one
// period between clock changes to the next.

WallTime instant_in(const ZonePeriod& period, LocalTime local) {
  return std::chrono::sys_seconds{local.time_since_epoch() - period.offset};
}

std::optional<WallTime> first_elapsed(const CronExpression& expression, const TimeZone& zone,
                                      WallTime from) {
  const auto limit = std::min(latest, from + horizon);
  while (from <= limit) {
    const auto period = zone.period_at(from);
    const auto local = expression.next_after(zone.to_local(from) - 1s);
    if (!local) return std::nullopt;
    const auto found = instant_in(period, *local);
    if (found < period.end) return found;
    from = period.end;
  }
  return std::nullopt;
}

std::optional<WallTime> last_elapsed(const CronExpression& expression, const TimeZone& zone,
                                     WallTime until) {
  const auto limit = std::max(earliest, until - horizon);
  while (until >= limit) {
    const auto period = zone.period_at(until);
    const auto local = expression.previous_before(zone.to_local(until) + 1s);
    if (!local) return std::nullopt;
    const auto found = instant_in(period, *local);
    if (found >= period.begin) return found;
    until = period.begin - 1s;
  }
  return std::nullopt;
}

/// A time in one of the last hours of the year 9999 may be in the year 10000 of UTC.
std::optional<WallTime> within_range(std::optional<WallTime> time) {
  return time && *time >= earliest && *time <= latest ? time : std::nullopt;
}

}  // namespace

CronExpression CronExpression::parse(std::string_view text) {
  auto schedule = std::make_shared<const core::CronSchedule>(core::parse_cron(text));
  return {without_blanks(text), std::move(schedule)};
}

std::string CronExpression::describe() const {
  return core::describe(*schedule_);
}

bool CronExpression::is_fixed_hour() const {
  return schedule_->fixed_hour;
}

std::optional<LocalTime> CronExpression::next_after(LocalTime after) const {
  if (after == LocalTime::max()) return std::nullopt;
  return core::first_occurrence(*schedule_, after + 1s);
}

std::optional<LocalTime> CronExpression::previous_before(LocalTime before) const {
  if (before == LocalTime::min()) return std::nullopt;
  return core::last_occurrence(*schedule_, before - 1s);
}

bool CronExpression::equals(const CronExpression& other) const {
  return *schedule_ == *other.schedule_;
}

std::optional<WallTime> next_occurrence(const CronExpression& expression, const TimeZone& zone,
                                        WallTime after) {
  if (after >= latest) return std::nullopt;
  const WallTime from = std::chrono::floor<seconds>(std::max(after, earliest)) + 1s;
  return within_range(expression.is_fixed_hour() ? first_fixed(expression, zone, from)
                                                 : first_elapsed(expression, zone, from));
}

std::optional<WallTime> previous_occurrence(const CronExpression& expression, const TimeZone& zone,
                                            WallTime before) {
  if (before <= earliest) return std::nullopt;
  const WallTime until = std::chrono::ceil<seconds>(std::min(before, latest + 1s)) - 1s;
  return within_range(expression.is_fixed_hour() ? last_fixed(expression, zone, until)
                                                 : last_elapsed(expression, zone, until));
}

}  // namespace dovetail
