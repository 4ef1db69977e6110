// Local time: what the clocks on the wall show somewhere, and when.
//
// A zone's offset from UTC changes now and then. When clocks go forward, some local times never
// occur (a gap); when they go back, some occur twice (an overlap). A TimeZone answers both
// questions; cron.hpp says what a job makes of the answers.
//
// The rules come from the time zone files of the operating system (Debian package `tzdata`), read
// once per process: a newer package counts from the next start on. After the last change that a
// file lists (often that of 2037), the rule at its end applies.
//
// Instants must be in the years 1 to 9999: anything else is std::out_of_range.
//
// Threads: a TimeZone is a plain value, cheap to copy, and may be used from any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "dovetail/clock.hpp"

namespace dovetail {

/// A date and a time of day as a clock on the wall shows them, in a zone that the context names.
using LocalTime = std::chrono::local_time<std::chrono::seconds>;

/// A stretch of time, `begin` included and `end` not, through which a zone's clocks keep one
/// offset.
struct ZonePeriod {
  WallTime begin;
  WallTime end;
  std::chrono::seconds offset;  ///< Local time less UTC: positive in the east.

  friend bool operator==(const ZonePeriod&, const ZonePeriod&) = default;
};

/// When the clocks of a zone show one local time.
struct LocalInstants {
  enum class Kind {
    once,     ///< As nearly always: `first` and `second` are the one instant.
    skipped,  ///< In a gap, so never: both are the first instant after the gap.
    twice,    ///< In an overlap: the two instants in order.
  };
  Kind kind;
  WallTime first;
  WallTime second;

  friend bool operator==(const LocalInstants&, const LocalInstants&) = default;
};

class TimeZone {
 public:
  /// Needs no time zone files.
  [[nodiscard]] static TimeZone utc();

  /// The zone with an IANA name such as `Europe/Berlin`; the case of letters counts. `UTC` is
  /// utc().
  ///
  /// Throws std::invalid_argument when there is no such zone, std::runtime_error when there are no
  /// time zone files to look in (see require_time_zone_database) or the zone's own is damaged.
  [[nodiscard]] static TimeZone find(std::string_view iana_name);

  [[nodiscard]] const std::string& name() const;

  [[nodiscard]] ZonePeriod period_at(WallTime time) const;
  /// Fractions of a second are cut off.
  [[nodiscard]] LocalTime to_local(WallTime time) const;
  [[nodiscard]] LocalInstants instants_of(LocalTime local) const;

  /// By name: two names of one zone are not equal.
  friend bool operator==(const TimeZone& a, const TimeZone& b) { return a.name() == b.name(); }

 private:
  struct Rules;
  explicit TimeZone(std::shared_ptr<const Rules> rules) : rules_(std::move(rules)) {}

  std::shared_ptr<const Rules> rules_;
};

/// Throws std::runtime_error, saying what to install, when the system has no time zone files or
/// only ones that would give wrong answers. A program that will need zones calls it at its start,
/// rather than fail at its first job.
void require_time_zone_database();

}  // namespace dovetail
