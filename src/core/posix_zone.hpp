// The rule at the end of a time zone file. It says how clocks change after the last listed change.
//
// It is a POSIX TZ string such as `CET-1CEST,M3.5.0,M10.5.0/3`, with the extensions of RFC 8536
// (times of -167 to 167 hours).
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace dovetail::core {

/// A day of each year.
struct PosixDay {
  enum class Kind { julian, from_zero, weekday };
  Kind kind = Kind::from_zero;
  int day =
      0;  ///< julian: 1 to 365, without 29 February; from_zero: 0 to 365; weekday: 0 is Sunday
  unsigned week = 0;             ///< 1 to 5; 5 is the last
  unsigned month = 0;            ///< 1 to 12
  std::chrono::seconds time{0};  ///< of the local clock, from the day's midnight
};

class PosixZone {
 public:
  struct Period {
    std::chrono::sys_seconds begin;
    std::chrono::sys_seconds end;
    std::chrono::seconds offset;
  };

  /// Returns nothing if the text is not a rule with summer time.
  [[nodiscard]] static std::optional<PosixZone> parse(std::string_view text);

  /// For the years 1 to 9999.
  [[nodiscard]] Period period_at(std::chrono::sys_seconds time) const;

 private:
  std::chrono::seconds standard_{0};  // east of UTC
  std::chrono::seconds summer_{0};
  PosixDay start_{};  // of summer time, by the standard clock
  PosixDay end_{};    // by the summer clock
};

/// The last line of a time zone file of version 2 or later, or nothing if it cannot be read.
[[nodiscard]] std::optional<std::string> zone_file_rule(const std::filesystem::path& file);

}  // namespace dovetail::core
