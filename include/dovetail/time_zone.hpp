// Time zones: conversion between UTC and local time.
//
// A zone's offset from UTC changes now and then. When clocks go forward, some local times do not
// occur (a gap). When clocks go back, some occur twice (an overlap). cron.hpp says how jobs treat
// both.
//
// The rules come from the time zone files of the operating system (Debian package `tzdata`). They
// are read once per process: after an update of the package, restart the process. After the last
// change that a file lists (often in 2037), the rule at the end of the file applies.
//
// Instants must be in the years 1 to 9999. Others throw std::out_of_range.
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

/// A local date and time of day, in a zone that the context names.
using LocalTime = std::chrono::local_time<std::chrono::seconds>;

/// A period with a constant offset from UTC: from `begin`, which is included, to `end`, which is
/// not.
struct ZonePeriod {
  WallTime begin;
  WallTime end;
  std::chrono::seconds offset;  ///< Local time minus UTC: positive in the east.

  friend bool operator==(const ZonePeriod&, const ZonePeriod&) = default;
};

/// The instants at which a zone's clocks show a local time.
struct LocalInstants {
  enum class Kind {
    once,     ///< The normal case: `first` and `second` are the same instant.
    skipped,  ///< In a gap: both are the first instant after the gap.
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

  /// Finds a zone by its IANA name, such as `Europe/Berlin`. Names are case-sensitive. `UTC` is
  /// utc().
  ///
  /// Throws std::invalid_argument when the zone does not exist, and std::runtime_error when the
  /// system has no time zone files (see require_time_zone_database) or the zone's file is damaged.
  [[nodiscard]] static TimeZone find(std::string_view iana_name);

  [[nodiscard]] const std::string& name() const;

  [[nodiscard]] ZonePeriod period_at(WallTime time) const;
  /// Truncates fractions of a second.
  [[nodiscard]] LocalTime to_local(WallTime time) const;
  [[nodiscard]] LocalInstants instants_of(LocalTime local) const;

  /// Compares names: two names of the same zone are not equal.
  friend bool operator==(const TimeZone& a, const TimeZone& b) { return a.name() == b.name(); }

 private:
  struct Rules;
  explicit TimeZone(std::shared_ptr<const Rules> rules) : rules_(std::move(rules)) {}

  std::shared_ptr<const Rules> rules_;
};

/// Throws std::runtime_error when the system has no time zone files, or files that would give wrong
/// results. The text says which package to install. Call it at startup in a program that needs
/// zones, so that the error does not appear with the first job.
void require_time_zone_database();

}  // namespace dovetail
